"""The baselines NR, SR and GRD."""

import numpy as np
import pytest

from holdfast.documents.descriptor import DescriptorNode, DescriptorSink, Input, Pe
from holdfast.errors import HoldfastError
from holdfast.planning.laar import Instance, Milp, Outcome, baseline, greedy, node_load, non_replicated, violations
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.laar.generator import Ranges, generate

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


def test_greedy_removes_every_redundant_replica_of_an_overloaded_node():
    instance = small(3)
    active = greedy(instance)
    assert active[0].all()
    assert not active[1].all()
    over = node_load(instance, active)[1] > instance.limit
    for node in np.flatnonzero(over):  # nothing redundant is left there
        assert (active[1].sum(axis=1)[(active[1] & (instance.node_of == node)).any(axis=1)] == 1).all()


def planned(pes, *, cores):
    """Return PEs as {name: (input, cost)}, replicated on 'node1' with the given cores and on the large 'node2'."""
    inputs = {name: {before: Input(selectivity=1, cost=cost)} for name, (before, cost) in pes.items()}
    changes = {
        "pes": {name: Pe(operators=(name,), inputs=inputs[name]) for name in pes},
        "sinks": {"sink": DescriptorSink(inputs=tuple(pes))},
        "nodes": {"node1": DescriptorNode(cores=cores), "node2": DescriptorNode(cores=8)},
        "placement": dict.fromkeys(pes, ("node1", "node2")),
    }
    return Instance.of(figure_1().model_copy(update=changes))


def test_greedy_deactivates_upstream_replicas_before_heavier_ones_downstream():
    # At High the replicas use 1.68 cores of 'node1', without that of 'up' 1.6.
    active = greedy(planned({"up": ("source", 0.01), "down": ("up", 0.2)}, cores=1.65))
    assert active.tolist() == [[[True, True], [True, True]], [[False, True], [True, True]]]


def test_greedy_deactivates_the_heaviest_of_equally_upstream_replicas():
    active = greedy(planned({"a": ("source", 0.05), "b": ("source", 0.1)}, cores=1.1))
    assert active.sum(axis=2).tolist() == [[2, 2], [2, 1]]


def test_baselines_have_their_names_of_the_paper():
    instance = Instance.of(figure_1())
    assert baseline("SR", instance).all()
    assert baseline("GRD", instance).sum() == 6
    assert baseline("NR", instance).sum() == 4
    with pytest.raises(HoldfastError, match="no baseline 'XX'; baselines are: NR, SR, GRD"):
        baseline("XX", instance)
