"""A topology and a descriptor to plan for, and the planners that holdfast-papers adds."""

import tomllib
from pathlib import Path

import pytest

from holdfast import entry_points
from holdfast.documents.document import write_document
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.planning.laar.examples import figure_1


@pytest.fixture
def papers_installed(tmp_path, monkeypatch):
    """Declare the entry points of papers/pyproject.toml as an installation of holdfast-papers would."""
    groups = tomllib.loads(Path("papers/pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in names.items()) for group, names in groups.items()]
    metadata = tmp_path / "site" / "holdfast_papers-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast-papers\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("\n\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(metadata.parent)
    entry_points._all_entry_points.cache_clear()
    yield
    entry_points._all_entry_points.cache_clear()


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
