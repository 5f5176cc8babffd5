"""Plans in words, as documents and as pictures."""

import pytest

from holdfast.errors import DocumentError, HoldfastError
from holdfast.model.document import check_document, document_text, parse_document
from holdfast.model.topology import TaskOperator, Topology
from holdfast.plan.ppa import Dynamic, Frontier, Greedy, output_fidelity
from holdfast.plan.ppa.document import PlanDocument, plan_document
from holdfast.plan.ppa.explain import next_unit, reasons
from holdfast.plan.ppa.plot import budgets, curves, draw

LANES = Topology(
    topology="lanes",
    operators={
        "a": TaskOperator(parallelism=3, rates=(5.0, 3.0, 2.0)),
        "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"}),
    },
)
OF = output_fidelity(LANES)


def test_each_replica_says_what_its_loss_would_cost_and_whom_it_works_with():
    found = reasons(OF, Frontier().plan(OF, 4))
    assert [reason.why for reason in found] == [
        "without a/0 output fidelity would fall from 0.800 to 0.300; it feeds b/0",
        "without a/1 output fidelity would fall from 0.800 to 0.500; it feeds b/1",
        "without b/0 output fidelity would fall from 0.800 to 0.300; it reads a/0",
        "without b/1 output fidelity would fall from 0.800 to 0.500; it reads a/1",
    ]
    assert [reason.quality_without for reason in found] == pytest.approx([0.3, 0.5, 0.3, 0.5])


def test_a_replica_that_adds_nothing_says_so():
    plan = Greedy().plan(OF, 3)
    assert plan.tasks == ("a/0", "a/1", "b/0")
    assert reasons(OF, plan)[1].why == ("a/1 adds nothing to output fidelity: no complete tree of replicas runs through it")


def test_the_next_unit_of_budget_that_buys_something_is_named():
    step = next_unit(OF, Frontier().plan(OF, 2), Frontier())
    assert step is not None
    assert (step.replicas, step.start, step.stop) == (2, ("a/1", "b/1"), ())
    assert step.why == ("one more replica buys nothing by itself; 2 more buy output fidelity +0.300 (to 0.800): replicate a/1, b/1")
    single = next_unit(OF, Frontier().plan(OF, 3), Frontier())
    assert single is not None and single.why.startswith("one more replica buys output fidelity +0.300")


def test_where_everything_is_replicated_there_is_no_next_unit():
    assert next_unit(OF, Frontier().plan(OF, 6), Frontier()) is None


def test_a_plan_survives_as_a_document():
    plan = Frontier().plan(OF, 4)
    document = plan_document(plan, OF.topology, reasons=reasons(OF, plan), next_unit=next_unit(OF, plan, Frontier()))
    again = parse_document(document_text(document, json_text=True), PlanDocument, json_text=True)
    assert again == document
    assert again.tasks == plan.tasks
    assert again.proven and again.bound == pytest.approx(0.8)


def test_a_plan_document_with_too_many_or_repeated_tasks_is_refused():
    with pytest.raises(DocumentError) as caught:
        check_document(
            {"topology": "t", "budget": 1, "quality": 2, "replicated": [{"task": "a"}, {"task": "b"}, {"task": "a"}]},
            PlanDocument,
        )
    assert list(caught.value.problems) == [
        "quality: wanted a number from 0 to 1, got 2.0",
        "replicated[2]: task 'a' stands twice; keep one",
        "replicated: has 2 tasks, more than the budget of 1",
    ]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_quality_against_budget_is_drawn_for_several_planners(tmp_path, suffix):
    path = tmp_path / "new" / f"quality.{suffix}"
    draw(path, OF, curves(OF, [Frontier(), Greedy()]))
    head = path.read_bytes()[:400]
    assert head.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in head or b"<?xml" in head


def test_a_line_ends_where_its_planner_gives_up():
    lines = curves(OF, [Dynamic(most_plans=3), Greedy()])
    assert 0 < len(lines["dynamic"]) < len(lines["greedy"]) == len(budgets(6))


def test_a_picture_in_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(HoldfastError, match=r"wants a suffix of .svg, .png, .pdf; got '.bmp'"):
        draw(tmp_path / "x.bmp", OF, {})
