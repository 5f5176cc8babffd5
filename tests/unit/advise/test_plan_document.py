"""The plan document of an advice."""

from dataclasses import replace

import pytest

from holdfast.advise.advice import Advice, measured_plan
from holdfast.advise.budget import Budget, Prices
from holdfast.advise.candidates import Candidate
from holdfast.advise.losses import Loss
from holdfast.advise.plan_document import plan_document, spared_share
from holdfast.documents.document import read_document, write_document
from holdfast.documents.job import Job, Task
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.planning.ppa.plan_document import PlanDocument
from holdfast.ui.replica_reasons import describe_plan

LINE = Topology(
    topology="line",
    operators={"read": TaskOperator(rate=10.0, parallelism=2), "count": TaskOperator(inputs={"read": "merge"})},
)
SINGLE = {"read": Loss("read", (2.0, 4.0)), "count": Loss("count", (60.0, 34.0))}
OVER = {"count": Loss("count (replica, 1 s)", (1.0, 3.0)), "read": Loss("read (replica, 1 s)", (1.0, 1.0))}
MEASURED = {loss.case: loss for loss in (*OVER.values(), *SINGLE.values())}


def weighed(*protected, units=None):
    units = units or {"read": ("read",), "count": ("count",)}
    return measured_plan(Candidate("measured", protected), SINGLE, MEASURED, units=units, failover_s=1.0, completeness=0.0)


@pytest.fixture
def advice():
    return Advice(
        application="line",
        budget=Budget(replicas=1),
        outage_s=8.0,
        failover_s=1.0,
        single=SINGLE,
        plans=(weighed("count"),),
        because={"read": "it is small", "count": "it is large"},
        prices=Prices({"read": 2, "count": 1}, {"read": 0.1, "count": 0.3}),
        units={"read": ("read",), "count": ("count",)},
        reaching_goal=frozenset({"measured"}),
        failing_over=OVER,
    )


def test_plan_has_reasons_qualities_and_the_next_unit(advice, tmp_path):
    write_document(tmp_path / "plan.json", plan_document(advice, LINE))
    plan = read_document(tmp_path / "plan.json", PlanDocument)
    (replica,) = plan.replicated
    assert replica.task == "count/0"
    assert replica.why == (
        "Protect it: its failure costs 47 s of output without a replica and 2 s with one; its replica takes 75% of "
        "full replication's CPU. Measured: it is large."
    )
    assert [omitted.task for omitted in plan.unreplicated] == ["read/0", "read/1"]
    assert {omitted.why for omitted in plan.unreplicated} == {advice.why("read")} == {advice.document()["operators"][1]["why"]}
    assert plan.quality == pytest.approx(1 - 2.5 / 25)
    assert replica.quality_without == pytest.approx(0.0)
    assert (plan.next.start, plan.next.quality) == (("read/0", "read/1"), pytest.approx(1 - 1.5 / 25))
    assert plan.next.why.startswith("2 replicas of read would leave 6.0% of the expected loss of single failures, for 25% more")


def test_unspent_budget_is_kept_in_the_plan(advice):
    assert plan_document(replace(advice, budget=Budget(replicas=2)), LINE).budget == 2
    assert plan_document(replace(advice, budget=Budget(share=0.5)), LINE).budget == 1


def test_costliest_unit_comes_first(advice):
    plan = plan_document(replace(advice, plans=(weighed("count", "read"),)), LINE)
    assert plan.tasks == ("count/0", "read/0", "read/1")


def test_pe_is_protected_with_all_its_operators(advice):
    both = {"read": ("read",), "count": ("count", "sum")}
    fused = Topology(
        topology="line", operators={**LINE.operators, "sum": TaskOperator(inputs={"count": "one-to-one"}, parallelism=1)}
    )
    plan = plan_document(replace(advice, units=both), fused)
    assert plan.tasks == ("count/0", "sum/0")
    assert replace(advice, units=both).document()["cost"]["replicas"] == 1


def test_useless_replica_has_no_negative_quality(advice):
    worse = replace(advice, failing_over={**OVER, "count": Loss("count (replica, 1 s)", (90.0, 90.0))})
    assert 0.0 <= spared_share(worse, without="count") <= 1.0


def test_job_page_shows_the_reasons_of_the_advice(advice, tmp_path):
    write_document(tmp_path / "plan.json", plan_document(advice, LINE))
    job = Job(job="line", application="line.py", log="log", plan=str(tmp_path / "plan.json"))
    tasks = [Task(pe="read", task=0), Task(pe="read", task=1), Task(pe="count", task=0, replicas=2)]
    shown = describe_plan(job, tasks)
    assert shown["summary"] == (
        "'advise' uses 1 of a budget of 1 replicas; it avoids 90.0% of the expected loss from single failures."
    )
    assert shown["tasks"]["count/0"]["quality_without"] == pytest.approx(0.0)
    assert shown["tasks"]["read/0"] == {"planned": False, "why": [advice.why("read")], "quality_without": None}
    assert shown["next"]["start"] == ["read/0", "read/1"]
