"""Plans to choose from, and budgets that cannot be."""

import pytest

from holdfast.advise.candidate import candidates, least_budget, whole_operators
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


def test_operators_become_single_tasks_with_the_rates_they_had():
    whole = whole_operators(LINE)
    assert whole.tasks == ("read/0", "count/0", "sum/0")
    assert whole.rates.tolist() == [10.0, 10.0, 10.0]


def test_the_costliest_are_protected_first_and_ties_go_by_name():
    whole = whole_operators(LINE)
    assert candidates(whole, IMPACT, 2)[0].protected == ("count", "sum")
    assert candidates(whole, dict.fromkeys(IMPACT, 1.0), 1)[0].protected == ("count",)


def test_there_is_a_plan_by_every_objective():
    plans = candidates(whole_operators(LINE), IMPACT, 3)
    assert [plan.objective for plan in plans] == ["measured", "criticality", "of", "ic"]
    assert {plan.protected for plan in plans} == {("count", "read", "sum")}


@pytest.mark.parametrize(
    ("budget", "said"), [(0, "got 0; with a budget of nothing there is nothing to advise"), (4, "wanted 1 to 3")]
)
def test_a_budget_that_cannot_be_is_refused(budget, said):
    with pytest.raises(HoldfastError, match=said):
        candidates(whole_operators(LINE), IMPACT, budget)


def test_the_least_budget_for_a_completeness_is_found():
    whole = whole_operators(LINE)
    assert least_budget(whole, 1.0) == 3
    assert least_budget(whole, 0.3) == 1
