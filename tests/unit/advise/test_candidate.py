"""Plans to choose from, and budgets that cannot be."""

import pytest

from holdfast.advise.budget import Budget
from holdfast.advise.candidate import candidates, completeness, least_budget, whole_operators
from holdfast.errors import HoldfastError
from holdfast.model.topology import TaskOperator, Topology

LINE = Topology(
    topology="line",
    operators={
        "read": TaskOperator(parallelism=2, rate=10.0),
        "count": TaskOperator(parallelism=4, inputs={"read": "split"}),
        "sum": TaskOperator(parallelism=1, inputs={"count": "merge"}),
    },
)
IMPACT = {"read": 1.0, "count": 50.0, "sum": 3.0}
CPU = {"read": 1.0, "count": 6.0, "sum": 3.0}


def of_budget(budget, impact=IMPACT):
    return candidates(whole_operators(LINE), impact, budget, CPU)


def test_operators_become_single_tasks_with_the_rates_they_had():
    whole = whole_operators(LINE)
    assert whole.tasks == ("read/0", "count/0", "sum/0")
    assert whole.rates.tolist() == [10.0, 10.0, 10.0]


def test_the_costliest_are_protected_first_and_ties_go_by_name():
    assert of_budget(Budget(replicas=2))[0].protected == ("count", "sum")
    assert of_budget(Budget(replicas=1), dict.fromkeys(IMPACT, 1.0))[0].protected == ("count",)


def test_there_is_a_plan_by_every_objective():
    plans = of_budget(Budget(replicas=3))
    assert [plan.objective for plan in plans] == ["measured", "criticality", "of", "ic"]
    assert {plan.protected for plan in plans} == {("count", "read", "sum")}


def test_a_share_of_the_cpu_buys_what_saves_most_for_it():
    plans = of_budget(Budget(share=0.7))
    assert plans[0].protected == ("count", "read")  # count alone is worth most; with sum it would take 90 %
    assert all(sum(CPU[name] for name in plan.protected) <= 7.0 for plan in plans)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0", "got 0; with a budget of nothing there is nothing to advise"),
        ("0%", "got 0%; with a budget of nothing there is nothing to advise"),
        ("4", "wanted 1 to 3 replicas"),
        ("5%", "5% of the CPU of full replication pays for no replica; the cheapest, of read, takes 10.0%"),
        ("101%", "up to 100%"),
        ("-1", "wanted a number of replicas, such as 3"),
        ("half", "got 'half'"),
    ],
)
def test_a_budget_that_cannot_be_is_refused(text, said):
    with pytest.raises(HoldfastError, match=said):
        Budget.of(text).check(CPU)


def test_completeness_is_that_of_what_lives():
    whole = whole_operators(LINE)
    assert completeness(whole, ["count", "read", "sum"]) == pytest.approx(1.0)
    assert completeness(whole, ["count", "sum"]) == 0.0


def test_the_least_budget_for_a_completeness_is_found():
    whole = whole_operators(LINE)
    assert least_budget(whole, 1.0) == 3
    assert least_budget(whole, 0.3) == 1
