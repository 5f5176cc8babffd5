"""The plan that an advice ends with."""

from dataclasses import replace

import pytest

from holdfast.advise.advice import Advice, weigh
from holdfast.advise.budget import Budget
from holdfast.advise.candidate import Candidate
from holdfast.advise.document import plan_document, spared
from holdfast.advise.loss import Loss
from holdfast.model.document import read_document, write_document
from holdfast.model.job import Job, Task
from holdfast.model.topology import TaskOperator, Topology
from holdfast.plan.ppa.document import PlanDocument
from holdfast.ui.reasons import plan_of

LINE = Topology(
    topology="line",
    operators={"read": TaskOperator(rate=10.0, parallelism=2), "count": TaskOperator(inputs={"read": "merge"})},
)
SINGLE = {"read": Loss("read", (2.0, 4.0)), "count": Loss("count", (60.0, 34.0))}
OVER = {"count": Loss("count (replica, 1 s)", (1.0, 3.0)), "read": Loss("read (replica, 1 s)", (1.0, 1.0))}
MEASURED = {loss.case: loss for loss in (*OVER.values(), *SINGLE.values())}


@pytest.fixture
def advice():
    return Advice(
        application="line",
        budget=Budget(replicas=1),
        outage_s=8.0,
        failover_s=1.0,
        single=SINGLE,
        weighed=(weigh(Candidate("measured", ("count",)), SINGLE, MEASURED, ("read", "count"), failover_s=1.0),),
        why={"read": "Leave it.", "count": "Protect it."},
        cpu={"read": 0.1, "count": 0.3},
        tasks={"read": 2, "count": 1},
        kept=frozenset({"measured"}),
        failing_over=OVER,
    )


def test_it_says_why_what_it_spares_what_is_lost_without_and_what_is_next(advice, tmp_path):
    write_document(tmp_path / "plan.json", plan_document(advice, LINE))
    plan = read_document(tmp_path / "plan.json", PlanDocument)
    (replica,) = plan.replicated
    assert replica.task == "count/0"
    assert replica.why == "Protect it. Its failure costs 2 with the replica and 47 without."
    assert plan.quality == pytest.approx(1 - 2.5 / 25)
    assert replica.quality_without == pytest.approx(0.0)
    assert (plan.next.start, plan.next.quality) == (("read/0", "read/1"), pytest.approx(1 - 1.5 / 25))
    assert plan.next.why.startswith(
        "a replica of read would leave 6.0% of the loss to be expected of single failures, for 25% more"
    )


def test_a_replica_that_spares_nothing_is_not_worth_less_than_nothing(advice):
    worse = replace(advice, failing_over={**OVER, "count": Loss("count (replica, 1 s)", (90.0, 90.0))})
    assert 0.0 <= spared(worse, without="count") <= 1.0


def test_the_page_says_it_in_the_words_of_the_advice(advice, tmp_path):
    write_document(tmp_path / "plan.json", plan_document(advice, LINE))
    job = Job(job="line", application="line.py", log="log", plan=str(tmp_path / "plan.json"))
    tasks = [Task(pe="read", task=0), Task(pe="read", task=1), Task(pe="count", task=0, replicas=2)]
    shown = plan_of(job, tasks)
    assert shown["said"] == (
        "1 of a budget of 1 replicas, chosen by 'advise'; it spares 90.0% of the loss to be expected of single failures."
    )
    assert shown["tasks"]["count/0"]["quality_without"] == pytest.approx(0.0)
    assert shown["next"]["start"] == ["read/0", "read/1"]
