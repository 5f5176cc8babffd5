"""The schemas under docs are those of the documents that users write."""

from pathlib import Path

import pytest

from holdfast.control.faults.injection_tests import InjectionTests
from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import schema_text
from holdfast.documents.fault_schedule import Schedule
from holdfast.documents.job import Job
from holdfast.documents.topology import Topology
from holdfast.planning.laar import Strategy
from holdfast.planning.ppa import CriticalityDocument, PlanDocument

FOLDER = Path(__file__).parents[2] / "docs" / "schema"
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


@pytest.mark.parametrize("name", MODELS)
def test_the_published_schema_is_current(name):
    path = FOLDER / f"{name}.json"
    assert path.read_text() == schema_text(MODELS[name]), (
        f"write it anew: holdfast.documents.document.schema_text({MODELS[name].__name__})"
    )


def test_every_published_schema_is_of_a_document():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(MODELS)
