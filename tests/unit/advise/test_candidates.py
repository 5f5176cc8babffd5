"""Candidate plans, and invalid budgets."""

import pytest

from holdfast.advise.budget import Budget, Prices
from holdfast.advise.candidates import candidate_plans, completeness, least_budget
from holdfast.advise.protection_units import tasks_of, whole_units
from holdfast.app import App
from holdfast.app.task_topology import topology_of
from holdfast.errors import HoldfastError


def line():
    """read, of 2 tasks, feeds count, of 4, which feeds sum."""
    app = App("line")
    read = app.source("read", "seq long, key string", key="key", parallelism=2)
    count = app.operator(inputs=read, name="count", key="key", parallelism=4, partitioning={"read": "split"})(lambda read: read)
    app.sink("out", app.operator(inputs=count, name="sum")(lambda count: count))
    return app.graph()


WHOLE = whole_units(topology_of(line(), name="line", rates={"read": 10.0, "count": 10.0, "sum": 10.0}), line())
IMPACT = {"read": 1.0, "count": 50.0, "sum": 3.0}
PRICES = Prices(tasks_of(line()), {"read": 1.0, "count": 6.0, "sum": 3.0})


def of_budget(budget, impact=IMPACT, prices=PRICES):
    return candidate_plans(WHOLE, impact, budget, prices)


def test_operators_become_single_tasks_with_the_rates_they_had():
    assert WHOLE.tasks == ("read/0", "count/0", "sum/0")
    assert WHOLE.rates.tolist() == [10.0, 10.0, 10.0]


def test_budget_of_replicas_counts_tasks():
    assert PRICES.tasks == {"read": 2, "count": 4, "sum": 1}
    assert of_budget(Budget(replicas=1))[0].protected == ("sum",), "the one task that a single replica protects"
    assert of_budget(Budget(replicas=4))[0].protected == ("count",)
    assert of_budget(Budget(replicas=5))[0].protected == ("count", "sum")
    for replicas in range(1, 8):
        plans = of_budget(Budget(replicas=replicas))
        assert all(sum(PRICES.tasks[name] for name in plan.protected) <= replicas for plan in plans)


def test_costliest_units_are_protected_first():
    even = Prices(dict.fromkeys(IMPACT, 1), PRICES.cpu)
    assert of_budget(Budget(replicas=2), prices=even)[0].protected == ("count", "sum")
    assert of_budget(Budget(replicas=1), dict.fromkeys(IMPACT, 1.0), even)[0].protected == ("count",)


def test_every_objective_has_a_plan():
    plans = of_budget(Budget(replicas=7))
    assert [plan.objective for plan in plans] == ["measured", "criticality", "of", "ic"]
    assert {plan.protected for plan in plans} == {("count", "sum", "read")}


def test_share_of_cpu_buys_the_most_valuable_set():
    plans = of_budget(Budget(share=0.7))
    assert plans[0].protected == ("count", "read")  # count alone is worth most; with sum it would take 90 %
    assert all(sum(PRICES.cpu[name] for name in plan.protected) <= 7.0 for plan in plans)


def test_replicas_are_spent_completely_unlike_a_cpu_share():
    nothing_in_read = {**IMPACT, "read": 0.0}
    assert of_budget(Budget(replicas=7), nothing_in_read)[0].protected == ("count", "sum", "read")
    assert of_budget(Budget(share=1.0), nothing_in_read)[0].protected == ("count", "sum")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "got 0; a budget must be above 0"),
        ("0%", "got 0%; a budget must be above 0"),
        ("8", r"expected 1 to 7 replicas \(the application has 7 tasks\), got 8"),
        ("5%", "5% of the CPU of full replication buys no replica; the cheapest, of read, takes 10.0%"),
        ("101%", "up to 100%"),
        ("-1", "expected a number of replicas, such as 3"),
        ("half", "got 'half'"),
    ],
)
def test_invalid_budget_is_rejected(text, message):
    with pytest.raises(HoldfastError, match=message):
        Budget.of(text).check(PRICES)


def test_budget_below_every_units_tasks_is_rejected():
    with pytest.raises(
        HoldfastError, match=r"expected 2 to 6 replicas \(the application has 6 tasks, and no operator or source has f"
    ):
        Budget(replicas=1).check(Prices({"read": 2, "count": 4}, {}))


@pytest.mark.parametrize(("budget", "takes"), [(Budget(replicas=3), "4"), (Budget(share=0.5), "60.0%")])
def test_budget_without_effect_is_rejected_with_a_larger_one(budget, takes):
    with pytest.raises(HoldfastError, match=f"no replica of anything whose failure changes .* of these, count, takes {takes}"):
        budget.check_worth({"read": 0.0, "count": 50.0, "sum": 0.0}, PRICES)
    budget.check_worth(IMPACT, PRICES)


def test_completeness_counts_surviving_units():
    assert completeness(WHOLE, ["count", "read", "sum"]) == pytest.approx(1.0)
    assert completeness(WHOLE, ["count", "sum"]) == 0.0


def test_least_budget_for_a_completeness_is_in_replicas():
    assert least_budget(WHOLE, 1.0, PRICES.tasks) == 7
    assert least_budget(WHOLE, 0.3, PRICES.tasks) == 2
    assert least_budget(WHOLE, 0.3, dict.fromkeys(IMPACT, 1)) == 1
