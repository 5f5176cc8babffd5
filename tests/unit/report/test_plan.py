"""The page of a plan: who has a replica, in which order, why, for how much, and what more would buy."""

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
    return plan_page(plan, MEASURE, worth=budget_curve(MEASURE, planned=plan.budget), **more)


@pytest.fixture(scope="module")
def text() -> str:
    return page_of(planned())


def rows(text):
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]


def test_it_says_what_is_protected_and_promised(text):
    assert "4 of 6 tasks have an active replica (budget 4, planner frontier): of a$, b." in text
    assert "Output fidelity 0.800 is left when all other tasks fail; no plan of this budget is better." in text
    assert ["output fidelity", "0.800", "0.000", "1.000"] in rows(text)
    assert ["internal completeness", "0.800", "0.000", "1.000"] in rows(text)


def test_it_says_what_that_costs(text):
    assert ["replicas", "4", "0", "6"] in rows(text)
    assert ["tuples a second that they take in", "16,000", "0", "20,000"] in rows(text)
    assert ["share of full replication", "80%", "0%", "100%"] in rows(text)


def test_replicas_stand_in_the_order_of_choice_with_their_reasons(text):
    why = [row for row in rows(text) if len(row) == 4 and row[3].startswith("without")]
    assert [(row[0], row[1]) for row in why] == [("2", "a$/0"), ("2", "b/0"), ("4", "a$/1"), ("4", "b/1")]
    assert why[0][2:] == ["0.300", "without a$/0 output fidelity would fall from 0.800 to 0.300; it feeds b/0"]


def test_where_the_order_of_choice_is_unknown_the_costliest_loss_comes_first():
    worth = budget_curve(MEASURE, planned=0)
    text = plan_page(planned(), MEASURE, worth=worth)
    assert "The costliest losses first." in text and "from budget" not in text
    assert [row[0] for row in rows(text) if len(row) == 3 and row[2].startswith("without")] == ["a$/0", "b/0", "a$/1", "b/1"]


def test_it_says_and_draws_what_the_next_unit_buys(text):
    assert "Next: one more replica buys nothing by itself; 2 more buy output fidelity +0.200 (to 1.000)" in text
    assert "the next unit" in text and "this plan (frontier)" in text and "Output fidelity against budget" in text
    assert "More replicas buy nothing." in page_of(planned(budget=6))


def test_operators_are_listed_with_the_tasks_that_have_a_replica(text):
    assert ["a$", "3", "2", "10,000", "0, 1"] in rows(text)


def test_planners_are_compared_where_there_are_several():
    others = [planned("frontier"), planned("greedy")]
    text = page_of(others[0], others=others)
    assert "Planners compared" in text and any(row[0] == "greedy" and row[3] == "-" for row in rows(text) if len(row) == 4)


def test_moves_away_from_the_plan_in_force_are_told():
    changes = Changes(stop=("b/2",), start=("a$/1",), current_quality=0.5, best_quality=0.8, move_worth=0.005)
    text = page_of(planned().model_copy(update={"changes": changes}))
    assert "Start a$/1; stop b/2." in text and "now worth 0.500, the best one 0.800; a start must bring 0.005" in text


def test_a_budget_of_nothing_has_a_page_too():
    text = page_of(planned(budget=0))
    assert "No task has a replica: the budget is 0." in text


def test_the_page_needs_nothing_from_elsewhere_and_escapes_names(text):
    assert not re.search(r'(src|href)="(?!#)', text) and "<script" not in text
    assert "<title>A plan for lanes&lt;1&gt;</title>" in text and "lanes<1>" not in text


def test_operators_that_are_left_out_are_said_to_be():
    chain = {
        f"o{k:03}": TaskOperator(parallelism=1, **({"inputs": {f"o{k - 1:03}": "one-to-one"}} if k else {"rate": 1.0}))
        for k in range(130)
    }
    topology = Topology(topology="chain", operators=chain)
    measure = output_fidelity(topology)
    document = plan_document(PLANNERS["greedy"].plan(measure, 2), topology)
    assert "And 10 more, in the topology." in plan_page(document, measure, worth=budget_curve(measure, planned=2))
