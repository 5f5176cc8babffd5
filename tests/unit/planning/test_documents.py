"""What planning reads and writes: published schemas, readers, and refusals of what was made for something else."""

import json
from pathlib import Path

import pytest

from holdfast.documents.document import write_document
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import DocumentError
from holdfast.planning.laar import plan_strategy, read_strategy
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.ppa import Frontier, output_fidelity, read_impact, read_plan
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


def test_a_plan_says_what_it_was_made_for(plan):
    read = read_plan(plan, topology=lanes())
    assert (read.topology, read.parallelism) == ("lanes", {"a": 3, "b": 3})
    assert read.tasks == ("a/0", "a/1", "b/0", "b/1")


def test_a_plan_of_another_topology_is_refused_with_every_difference(plan):
    with pytest.raises(DocumentError) as caught:
        read_plan(plan, topology=lanes(2, name="roads"))
    text = str(caught.value)
    assert "topology: is a plan of topology 'lanes', not of 'roads'" in text
    assert "plans 3 tasks of operator 'a', and there are 2" in text
    assert "plans 3 tasks of operator 'b', and there are 2" in text


def test_a_plan_with_problems_of_its_own_is_told_with_what_does_not_fit(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("topology: lanes\nbudget: -1\nreplicated: [{task: a/0}, {task: a/0}, {task: z/1}]\n")
    with pytest.raises(DocumentError) as caught:
        read_plan(path, topology=lanes())
    assert list(caught.value.errors) == [
        "budget (line 2): wanted a number of at least 0, got -1",
        "replicated[1] (line 3): task 'a/0' stands twice; keep one",
        "replicates 'z/1', and there is no such task",
    ]


def test_a_plan_knows_operators_that_came_and_went(plan):
    assert read_plan(plan).topology_errors({"a": 3, "c": 1}) == [
        "plans operator 'b', and there is none",
        "does not know operator 'c'",
    ]


def test_a_plan_by_hand_needs_only_its_tasks(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("topology: lanes\nbudget: 2\nreplicated: [{task: a/0}, {task: a/7}]\n")
    assert read_plan(path).topology_errors({"a": 3, "b": 3}) == ["replicates 'a/7', and there is no such task"]


def test_a_plan_with_tasks_that_its_operators_do_not_have_is_refused(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("topology: t\nbudget: 2\nparallelism: {a: 1, b: 0}\nreplicated: [{task: a/0}, {task: a/1}]\n")
    with pytest.raises(DocumentError) as caught:
        read_plan(path)
    assert "'a/1' is no task of the operators under 'parallelism'" in str(caught.value)
    assert "parallelism.b (line 3): wanted a number of at least 1, got 0" in str(caught.value)


def test_a_strategy_says_what_each_pe_runs_and_where(tmp_path):
    planned = plan_strategy(figure_1(), sla=0.6)
    path = tmp_path / "strategy.json"
    write_document(path, planned.strategy)
    read = read_strategy(path)
    assert read == planned.strategy
    assert read.operators.keys() == read.placement.keys() == set(figure_1().pes)


REPORT = {
    "campaign": {"cases": [[["market"], None], [["vwap"], None], [["vwap", "agg"], 2.0]], "seed": 1},
    "choices": [{"name": "market", "chosen": True, "like": None}, {"name": "agg", "chosen": False, "like": "vwap"}],
    "scores": [
        {
            "score": "sum(gain)",
            "cases": [
                {"case": "market", "impact": 2.0, "recovery": 3},
                {"case": "vwap", "impact": 7.5},
                {"case": "vwap+agg (replica, 2 s)", "impact": 0.1},
            ],
        },
        {"score": "count(*)", "cases": []},
    ],
}


def test_impacts_come_from_an_assessments_report(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(REPORT))
    assert read_impact(path) == {"market": 2.0, "vwap": 7.5, "agg": 7.5}


def test_a_report_without_a_measured_impact_is_refused(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**REPORT, "scores": [{"score": "sum(gain)", "cases": [{"case": "vwap", "impact": None}]}]}))
    with pytest.raises(DocumentError) as caught:
        read_impact(path)
    assert "no impact was measured for case 'market'" in str(caught.value)
    assert "no impact was measured for case 'vwap'" in str(caught.value)
