"""A topology and a descriptor to plan for."""

from pathlib import Path

import pytest

from holdfast.documents.document import write_document
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.planning.laar.examples import figure_1


@pytest.fixture
def topology(tmp_path) -> Path:
    path = tmp_path / "t.yaml"
    document = Topology(
        topology="lanes",
        operators={
            "a": TaskOperator(parallelism=3, rates=(5.0, 3.0, 2.0)),
            "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"}),
        },
    )
    write_document(path, document)
    return path


@pytest.fixture
def descriptor(tmp_path) -> Path:
    path = tmp_path / "d.yaml"
    write_document(path, figure_1())
    return path
