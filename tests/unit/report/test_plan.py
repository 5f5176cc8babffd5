"""The page of a plan: which tasks have a replica and why, what it costs, and what more budget would buy."""

import re

import pytest

from holdfast.documents.topology import TaskOperator, Topology
from holdfast.planning.ppa import PLANNERS, output_fidelity
from holdfast.planning.ppa.budget_curve import budget_curve
from holdfast.planning.ppa.explanation import next_unit, reasons
from holdfast.planning.ppa.plan_document import Changes, plan_document
from holdfast.report.plan import plan_page

LANES = Topology(
    topology="lanes<1>",
    operators={
        "a$": TaskOperator(parallelism=3, rates=(5000.0, 3000.0, 2000.0)),
        "b": TaskOperator(parallelism=3, inputs={"a$": "one-to-one"}),
    },
)
MEASURE = output_fidelity(LANES)


def planned(name="frontier", budget=4):
    planner = PLANNERS[name]
    plan = planner.plan(MEASURE, budget)
    return plan_document(plan, LANES, reasons=reasons(MEASURE, plan), next_unit=next_unit(MEASURE, plan, planner))


def page_of(plan, **more):
    return plan_page(plan, MEASURE, curve=budget_curve(MEASURE, planned=plan.budget), **more)


@pytest.fixture(scope="module")
def text() -> str:
    return page_of(planned())


def rows(text):
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]


def test_page_shows_protection_and_quality(text):
    assert "4 of 6 tasks have an active replica (budget 4, planner frontier): of a$, b." in text
    assert "Output fidelity 0.800 is left when all other tasks fail; no plan of this budget is better." in text
    assert ["output fidelity", "0.800", "0.000", "1.000"] in rows(text)
    assert ["internal completeness", "0.800", "0.000", "1.000"] in rows(text)


def test_page_shows_cost(text):
    assert ["replicas", "4", "0", "6"] in rows(text)
    assert ["input tuples per second of the replicas", "16,000", "0", "20,000"] in rows(text)
    assert ["share of full replication", "80%", "0%", "100%"] in rows(text)


def test_replicas_are_in_order_of_choice_with_reasons(text):
    why = [row for row in rows(text) if len(row) == 4 and row[3].startswith("without")]
    assert [(row[0], row[1]) for row in why] == [("2", "a$/0"), ("2", "b/0"), ("4", "a$/1"), ("4", "b/1")]
    assert why[0][2:] == ["0.300", "without a$/0 output fidelity would fall from 0.800 to 0.300; it feeds b/0"]


def test_costliest_loss_comes_first_without_order():
    worth = budget_curve(MEASURE, planned=0)
    text = plan_page(planned(), MEASURE, curve=worth)
    assert "The costliest losses first." in text and "from budget" not in text
    assert [row[0] for row in rows(text) if len(row) == 3 and row[2].startswith("without")] == ["a$/0", "b/0", "a$/1", "b/1"]


def test_page_shows_the_next_unit(text):
    assert "Next: one more replica buys nothing by itself; 2 more buy output fidelity +0.200 (to 1.000)" in text
    assert "the next unit" in text and "this plan (frontier)" in text and "Output fidelity against budget" in text
    assert "More replicas buy nothing." in page_of(planned(budget=6))


def test_operators_are_listed_with_replicated_tasks(text):
    assert ["a$", "3", "2", "10,000", "0, 1"] in rows(text)


def test_several_planners_are_compared():
    others = [planned("frontier"), planned("greedy")]
    text = page_of(others[0], others=others)
    assert "Planners compared" in text and any(row[0] == "greedy" and row[3] == "-" for row in rows(text) if len(row) == 4)


def test_changes_to_the_current_plan_are_shown():
    changes = Changes(stop=("b/2",), start=("a$/1",), current_quality=0.5, best_quality=0.8, move_worth=0.005)
    text = page_of(planned().model_copy(update={"changes": changes}))
    assert "Start a$/1; stop b/2." in text and "now has quality 0.500, the best 0.800; a start must add 0.005" in text


def test_page_of_a_zero_budget():
    text = page_of(planned(budget=0))
    assert "No task has a replica: the budget is 0." in text


def test_page_says_that_no_bound_is_known():
    text = page_of(planned().model_copy(update={"proven": False, "bound": None}))
    assert "is left when all other tasks fail; no bound is known." in text


def test_page_is_self_contained_and_escapes_names(text):
    assert not re.search(r'(src|href)="(?!#)', text) and "<script" not in text
    assert "<title>A plan for lanes&lt;1&gt;</title>" in text and "lanes<1>" not in text


def test_omitted_operators_are_counted():
    chain = {
        f"o{k:03}": TaskOperator(parallelism=1, **({"inputs": {f"o{k - 1:03}": "one-to-one"}} if k else {"rate": 1.0}))
        for k in range(130)
    }
    topology = Topology(topology="chain", operators=chain)
    measure = output_fidelity(topology)
    document = plan_document(PLANNERS["greedy"].plan(measure, 2), topology)
    assert "And 10 more, in the topology." in plan_page(document, measure, curve=budget_curve(measure, planned=2))
