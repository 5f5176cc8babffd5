"""Sets that fail together, and how the objectives are held against them."""

import pytest

from holdfast.advise.loss import Loss
from holdfast.advise.objectives import Foretold, Planned, agreement, failure_sets, foretell, worse
from holdfast.model.topology import TaskOperator, Topology

LINE = Topology(
    topology="line",
    operators={
        "read": TaskOperator(rate=10.0),
        "count": TaskOperator(inputs={"read": "one-to-one"}),
        "sum": TaskOperator(inputs={"count": "one-to-one"}),
    },
)
SINGLE = {name: Loss(name, (impact,)) for name, impact in {"read": 1.0, "count": 9.0, "sum": 2.0}.items()}


def test_sets_differ_have_two_members_at_least_and_follow_from_the_seed():
    sets = failure_sets(["read", "count", "sum"], count=10, seed=1)
    assert sorted(sets) == sorted({("read", "count"), ("read", "sum"), ("count", "sum"), ("read", "count", "sum")})
    many = [f"o{n}" for n in range(8)]
    assert failure_sets(many, count=5, seed=1) == failure_sets(many, count=5, seed=1) != failure_sets(many, count=5, seed=2)


def test_a_lost_source_loses_everything_whatever_else_survives():
    seen = foretell(LINE, SINGLE, ("read", "sum"), measured=3.0)
    assert seen.foretold["of"] == pytest.approx(1.0)
    assert seen.foretold["alone"] == 2.0
    assert seen.measured == 3.0


def test_agreement_is_that_of_the_orders():
    seen = [Foretold((str(n),), {"of": -n, "ic": 1.0, "criticality": n * n, "alone": n}, float(n)) for n in range(5)]
    assert agreement(seen) == pytest.approx({"criticality": 1.0, "ic": 0.0, "of": -1.0, "alone": 1.0})


def test_worse_names_the_budgets_at_which_measured_plans_lose_more():
    def plans(budget: int, **lost: float) -> list[Planned]:
        return [Planned(budget, objective, (), value) for objective, value in lost.items()]

    same = plans(1, measured=9.0, criticality=5.1, of=5.0, ic=7.0)
    behind = plans(2, measured=9.0, criticality=6.0, of=5.0, ic=7.0)
    assert worse(same + behind) == ["with 2 replicas the plans from measured impacts lose 6, the others 5"]
