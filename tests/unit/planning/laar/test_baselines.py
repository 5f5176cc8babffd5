"""The baselines NR, SR and GRD."""

import numpy as np
import pytest

from holdfast.errors import HoldfastError
from holdfast.planning.laar import (
    Instance,
    Milp,
    Outcome,
    Ranges,
    baseline,
    generate,
    greedy,
    node_load,
    non_replicated,
    violations,
)
from holdfast.planning.laar.examples import figure_1

SMALL = Ranges(nodes=(2, 3), pes_per_node=(3, 5))


def small(seed):
    return Instance.of(generate(np.random.default_rng(seed), ranges=SMALL), sla=0.5)


def test_nr_has_one_replica_per_pe_and_never_overloads():
    for seed in range(3):
        instance = small(seed)
        if Milp().solve(instance.at(0.0)).outcome is Outcome.NUL:
            continue
        active = non_replicated(instance)
        assert (active.sum(axis=2) == 1).all() and (active[0] == active[1]).all()
        assert not list(violations(instance, active, sla=False))


def test_greedy_removes_heaviest_replica_of_fullest_node():
    instance = small(3)
    active = greedy(instance)
    assert active[0].all()
    assert not active[1].all()
    over = node_load(instance, active)[1] > instance.limit
    for node in np.flatnonzero(over):  # nothing redundant is left there
        assert (active[1].sum(axis=1)[(active[1] & (instance.node_of == node)).any(axis=1)] == 1).all()


def test_baselines_have_their_names_of_the_paper():
    instance = Instance.of(figure_1())
    assert baseline("SR", instance).all()
    assert baseline("GRD", instance).sum() == 6
    assert baseline("NR", instance).sum() == 4
    with pytest.raises(HoldfastError, match="no baseline 'XX'; baselines are: NR, SR, GRD"):
        baseline("XX", instance)
