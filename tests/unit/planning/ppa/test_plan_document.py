"""Plan documents and the topologies that they fit."""

from pathlib import Path

import pytest

from holdfast.documents.document import write_document
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import DocumentError
from holdfast.planning.ppa import Frontier, output_fidelity, read_plan
from holdfast.planning.ppa.plan_document import plan_document


def lanes(parallelism: int = 3, *, name: str = "lanes") -> Topology:
    return Topology(
        topology=name,
        operators={
            "a": TaskOperator(parallelism=parallelism, rate=1.0),
            "b": TaskOperator(parallelism=parallelism, inputs={"a": "one-to-one"}),
        },
    )


@pytest.fixture
def plan(tmp_path) -> Path:
    topology = lanes()
    path = tmp_path / "plan.json"
    write_document(path, plan_document(Frontier().plan(output_fidelity(topology), 4), topology))
    return path


def test_plan_names_its_topology_and_parallelism(plan):
    read = read_plan(plan, topology=lanes())
    assert (read.topology, read.parallelism) == ("lanes", {"a": 3, "b": 3})
    assert read.tasks == ("a/0", "a/1", "b/0", "b/1")


def test_plan_of_another_topology_lists_all_differences(plan):
    with pytest.raises(DocumentError) as caught:
        read_plan(plan, topology=lanes(2, name="roads"))
    text = str(caught.value)
    assert "topology: is a plan of topology 'lanes', not of 'roads'" in text
    assert "plans 3 tasks of operator 'a', and there are 2" in text
    assert "plans 3 tasks of operator 'b', and there are 2" in text


def test_errors_and_mismatches_are_reported_together(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("topology: lanes\nbudget: -1\nreplicated: [{task: a/0}, {task: a/0}, {task: z/1}]\n")
    with pytest.raises(DocumentError) as caught:
        read_plan(path, topology=lanes())
    assert list(caught.value.errors) == [
        "budget (line 2): wanted a number of at least 0, got -1",
        "replicated[1] (line 3): task 'a/0' is listed twice; keep one",
        "replicates 'z/1', and there is no such task",
    ]


def test_added_and_removed_operators_are_named(plan):
    assert read_plan(plan).topology_errors({"a": 3, "c": 1}) == [
        "plans operator 'b', and there is none",
        "does not know operator 'c'",
    ]


def test_handwritten_plan_needs_only_tasks(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("topology: lanes\nbudget: 2\nreplicated: [{task: a/0}, {task: a/7}]\n")
    assert read_plan(path).topology_errors({"a": 3, "b": 3}) == ["replicates 'a/7', and there is no such task"]


def test_task_beyond_parallelism_is_an_error(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("topology: t\nbudget: 2\nparallelism: {a: 1, b: 0}\nreplicated: [{task: a/0}, {task: a/1}]\n")
    with pytest.raises(DocumentError) as caught:
        read_plan(path)
    assert "'a/1' is not a task of the operators under 'parallelism'" in str(caught.value)
    assert "parallelism.b (line 3): wanted a number of at least 1, got 0" in str(caught.value)
