"""Explanations and documents of plans."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.documents.document import check_document, document_text, parse_document
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import DocumentError
from holdfast.planning.ppa import Frontier, Greedy, output_fidelity
from holdfast.planning.ppa.explanation import next_unit, reasons
from holdfast.planning.ppa.plan_document import PlanDocument, plan_document
from holdfast_papers.ppa.generator import Ranges, generate

LANES = Topology(
    topology="lanes",
    operators={
        "a": TaskOperator(parallelism=3, rates=(5.0, 3.0, 2.0)),
        "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"}),
    },
)
OF = output_fidelity(LANES)


def test_reason_names_loss_and_neighbours():
    explanations = reasons(OF, Frontier().plan(OF, 4))
    assert [reason.why for reason in explanations] == [
        "without a/0 output fidelity would fall from 0.800 to 0.300; it feeds b/0",
        "without a/1 output fidelity would fall from 0.800 to 0.500; it feeds b/1",
        "without b/0 output fidelity would fall from 0.800 to 0.300; it reads a/0",
        "without b/1 output fidelity would fall from 0.800 to 0.500; it reads a/1",
    ]
    assert [reason.quality_without for reason in explanations] == pytest.approx([0.3, 0.5, 0.3, 0.5])


def test_useless_replica_is_explained():
    plan = Greedy().plan(OF, 3)
    assert plan.tasks == ("a/0", "a/1", "b/0")
    assert reasons(OF, plan)[1].why == ("a/1 adds nothing to output fidelity: no complete tree of replicas runs through it")


def test_next_useful_budget_is_named():
    step = next_unit(OF, Frontier().plan(OF, 2), Frontier())
    assert step is not None
    assert (step.replicas, step.start, step.stop) == (2, ("a/1", "b/1"), ())
    assert step.why == ("one more replica buys nothing by itself; 2 more buy output fidelity +0.300 (to 0.800): replicate a/1, b/1")
    single = next_unit(OF, Frontier().plan(OF, 3), Frontier())  # a third replica would add nothing, so the plan has two
    assert single is not None and single.why.startswith("a budget of 4 in place of 3 buys output fidelity +0.300")


def test_next_unit_extends_a_plan_of_another_planner():
    """Greedy's plan of four has a/0, a/1, a/2 and b/0: b/1 would complete a second lane, though greedy may choose another task."""
    wide = Topology(
        topology="wide",
        operators={
            "a": TaskOperator(parallelism=3, rates=(5.0, 3.0, 2.0)),
            "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"}),
            "c": TaskOperator(inputs={"b": "full"}),
        },
    )
    m = output_fidelity(wide)
    plan = Greedy().plan(m, 4)
    assert plan.tasks == ("a/0", "a/1", "b/0", "c/0")
    step = next_unit(m, plan, Greedy())
    assert step is not None
    assert (step.replicas, step.start, step.stop) == (1, ("b/1",), ())
    assert step.why == "one more replica buys output fidelity +0.300 (to 0.800): replicate b/1"


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0, 0.9), planner=st.sampled_from([Greedy(), Frontier(evaluations=500)]))
def test_next_unit_has_the_stated_quality(seed, share, planner):
    t = generate(np.random.default_rng(seed), ranges=Ranges(operators=(2, 4), parallelism=(1, 3), zipf=0.5))
    m = output_fidelity(t)
    plan = planner.plan(m, int(share * len(t.tasks)))
    step = next_unit(m, plan, planner)
    if step is None:
        assert plan.quality == pytest.approx(1.0)
        return
    then = (set(plan.tasks) - set(step.stop)) | set(step.start)
    assert len(then) <= plan.budget + step.replicas
    assert m.of(t.number[task] for task in then) == pytest.approx(step.quality)
    assert step.quality > plan.quality
    if step.replicas > 1 and len(plan.tasks) == plan.budget:
        one_more = [m.of({t.number[x] for x in plan.tasks} | {n}) for n in range(len(t.tasks))]
        assert max(one_more) == pytest.approx(plan.quality)


def test_unused_budget_is_not_counted_as_replicas():
    step = next_unit(OF, Frontier().plan(OF, 1), Frontier())
    assert step is not None and step.replicas == 1
    assert step.why == "a budget of 2 in place of 1 buys output fidelity +0.500 (to 0.500): replicate a/0, b/0"


def test_full_replication_has_no_next_unit():
    assert next_unit(OF, Frontier().plan(OF, 6), Frontier()) is None


def test_plan_round_trip():
    plan = Frontier().plan(OF, 4)
    document = plan_document(plan, OF.topology, reasons=reasons(OF, plan), next_unit=next_unit(OF, plan, Frontier()))
    again = parse_document(document_text(document, json_text=True), PlanDocument, json_text=True)
    assert again == document
    assert again.tasks == plan.tasks
    assert again.proven and again.bound == pytest.approx(0.8)


def test_too_many_or_repeated_tasks_are_errors():
    with pytest.raises(DocumentError) as caught:
        check_document(
            {"topology": "t", "budget": 1, "quality": 2, "replicated": [{"task": "a"}, {"task": "b"}, {"task": "a"}]},
            PlanDocument,
        )
    assert list(caught.value.errors) == [
        "quality: wanted a number from 0 to 1, got 2.0",
        "replicated[2]: task 'a' is listed twice; keep one",
        "replicated: has 2 tasks, more than the budget of 1",
    ]
