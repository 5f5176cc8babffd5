"""The schemas under docs are those of the documents that users write."""

from pathlib import Path

import pytest

from holdfast.manage.injection import InjectionTests
from holdfast.model.descriptor import Descriptor
from holdfast.model.document import schema_text
from holdfast.model.job import Job
from holdfast.model.schedule import Schedule
from holdfast.model.topology import Topology
from holdfast.plan.laar import Strategy
from holdfast.plan.ppa import CriticalityDocument, PlanDocument

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
        f"write it anew: holdfast.model.document.schema_text({MODELS[name].__name__})"
    )


def test_every_published_schema_is_of_a_document():
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == sorted(MODELS)
