"""From a descriptor to a strategy."""

import numpy as np
import pytest

from holdfast.documents.descriptor import Input, Pe
from holdfast.errors import HoldfastError
from holdfast.planning.laar import (
    Exhaustive,
    InfeasibleError,
    Instance,
    Outcome,
    Solution,
    infeasible_error,
    plan_strategy,
    solver_named,
)
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.laar.generator import Ranges, generate

SMALL = Ranges(nodes=(2, 3), pes_per_node=(3, 5))


def small(seed):
    return Instance.of(generate(np.random.default_rng(seed), ranges=SMALL), sla=0.5)


class Helpless:
    """A solver that finds out nothing."""

    name = "milp"

    def solve(self, instance, *, seconds=60.0):
        return Solution(self.name, Outcome.TMO, seconds)


def test_unknown_solver_error_lists_names():
    with pytest.raises(HoldfastError, match="no solver 'cplex'; solvers are: milp, exhaustive"):
        solver_named("cplex")


def test_exhaustive_solver_refuses_large_instances():
    with pytest.raises(HoldfastError, match="takes at most 2000000; use milp"):
        Exhaustive().solve(small(1))


def test_time_limit_includes_the_explanation(monkeypatch):
    granted = []

    def recorded(instance, *, seconds):
        granted.append(seconds)
        return infeasible_error(instance, seconds=seconds)

    monkeypatch.setattr("holdfast.planning.laar.planner.infeasible_error", recorded)
    with pytest.raises(InfeasibleError):
        plan_strategy(figure_1(), sla=0.9, seconds=9.0)
    assert granted[0] <= 9.0


def test_most_complete_strategy_replaces_failed_search():
    planned = plan_strategy(figure_1(), sla=0.6, solver=Helpless(), seconds=10.0)
    assert planned.solution.outcome is Outcome.SOL
    assert planned.strategy.internal_completeness == pytest.approx(2 / 3)
    assert planned.strategy.breaks == ()


def test_fallback_strategy_has_no_useless_replica(monkeypatch):
    monkeypatch.setattr("holdfast.planning.laar.explanation.most_complete", lambda instance, *, seconds: (None, 1.0))
    descriptor = generate(np.random.default_rng(4), ranges=Ranges(nodes=(3, 3), pes_per_node=(4, 4), replicas=3))
    planned = plan_strategy(descriptor, sla=0.1, solver=Helpless(), seconds=1.0)
    assert set(planned.active.sum(axis=2).ravel()) == {1, 3}
    assert planned.strategy.breaks == ()


def test_application_without_tuples_meets_any_sla():
    silent = figure_1(sla=0.9)
    rates = tuple(rate.model_copy(update={"rate": 0.0}) for rate in silent.sources["source"].rates)
    silent = silent.model_copy(update={"sources": {"source": silent.sources["source"].model_copy(update={"rates": rates})}})
    planned = plan_strategy(silent)
    assert (planned.strategy.sla, planned.strategy.internal_completeness, planned.strategy.cost) == (0.9, 1.0, 0.0)
    assert "more would add nothing, since nothing arrives" in planned.why()[-2]


def test_overflowing_rates_are_an_error():
    edge = Input(selectivity=1e200, cost=1e200)
    bare = figure_1()
    pes = {"pe1": Pe(inputs={"source": edge}), "pe2": Pe(inputs={"pe1": edge})}
    with pytest.raises(HoldfastError, match="rates of 'figure-1' grow beyond what can be counted"):
        Instance.of(bare.model_copy(update={"pes": pes}))
