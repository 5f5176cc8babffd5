"""Strategies under failure models other than the pessimistic one."""

from itertools import product

import numpy as np
import pytest

from holdfast.planning.laar import FailureModelSolver, Independent, Instance, NodeCrash, Outcome, Pessimistic, cost, violations
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.laar.generator import Ranges, generate

SMALL = Ranges(nodes=(2, 3), pes_per_node=(3, 5))


def small(seed):
    return Instance.of(generate(np.random.default_rng(seed), ranges=SMALL), sla=0.5)


def brute_force(instance, model):
    """The least cost of a strategy that fits and meets the SLA under the model; None if there is none."""
    sets = [bits for bits in product((False, True), repeat=instance.shape[2]) if any(bits)]
    costs = []
    for chosen in product(sets, repeat=instance.shape[0] * instance.shape[1]):
        active = np.array(chosen).reshape(instance.shape)
        if not any(violations(instance, active, failure=model)):
            costs.append(cost(instance, active))
    return min(costs, default=None)


@pytest.mark.parametrize("model", [Independent(0.1), NodeCrash(), NodeCrash("node1"), Pessimistic()])
@pytest.mark.parametrize("sla", [0.3, 0.6, 0.9, 0.99])
def test_small_instances_are_optimal_under_any_failure_model(model, sla):
    instance = Instance.of(figure_1(sla=sla))
    least = brute_force(instance, model)
    solution = FailureModelSolver(model).solve(instance)
    assert solution.outcome is (Outcome.NUL if least is None else Outcome.BST)
    assert solution.cost == (None if least is None else pytest.approx(least))


@pytest.mark.parametrize("model", [Independent(0.05), NodeCrash()])
def test_larger_applications_meet_sla_under_chosen_model(model):
    instance = small(3).at(0.7)
    solution = FailureModelSolver(model, most=0).solve(instance, seconds=20.0)
    assert solution.active is not None and solution.outcome is Outcome.SOL
    assert not list(violations(instance, solution.active, failure=model))
    assert solution.bound <= solution.cost
