"""Write the generated parts of docs/: the JSON schemas of all documents and the page about the state machines.

Run it after a change to a document's model or to a state machine: python scripts/write_generated_docs.py
"""

from pathlib import Path

from holdfast.control import InjectionTests, shipped_page
from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import schema_text
from holdfast.documents.fault_schedule import Schedule
from holdfast.documents.job import Job
from holdfast.documents.topology import Topology
from holdfast.planning.laar import Strategy
from holdfast.planning.ppa import CriticalityDocument, PlanDocument

DOCS = Path(__file__).parents[1] / "docs"
MODELS = {
    "criticality": CriticalityDocument,
    "descriptor": Descriptor,
    "injections": InjectionTests,
    "job": Job,
    "plan": PlanDocument,
    "schedule": Schedule,
    "strategy": Strategy,
    "topology": Topology,
}

if __name__ == "__main__":
    for name, model in MODELS.items():
        (DOCS / "schema" / f"{name}.json").write_text(schema_text(model))
    (DOCS / "machines.md").write_text(shipped_page())
