"""Strategies of the data center."""

import numpy as np
import pytest

from holdfast.planning.laar import Instance, node_load
from holdfast_papers.internet.data_center import Scale, build, generated_profile
from holdfast_papers.internet.plans import VARIANTS, strategy

SMALL = Scale(applications=6, racks=3, nodes=4)


@pytest.fixture(scope="module")
def world():
    return build(SMALL, generated_profile(np.random.default_rng(1)))


def test_strategies_fit_the_nodes_and_use_different_racks(world):
    assert (world.node_of[:, 0] // SMALL.nodes != world.node_of[:, 1] // SMALL.nodes).all()
    strategies = {variant: strategy(world, variant) for variant in VARIANTS}
    instance = Instance.of(world.descriptor, placement=dict(zip(world.descriptor.topological_order, _nodes(world), strict=True)))
    for name in ("NR", "LAAR", "combined"):
        assert strategies[name].any(axis=2).all()
        assert (node_load(instance, strategies[name]) <= 16.0).all(), name
    assert node_load(instance, strategies["SR"])[-1].sum() == pytest.approx(SMALL.overload * 16.0 * SMALL.machines)
    replicated = strategies["PPA"][0].all(axis=1)
    assert 0 < replicated.sum() <= 0.5 * SMALL.applications * SMALL.pes
    # What is replicated makes output by itself: whatever a replicated PE reads is replicated too, in part at least.
    order = world.descriptor.topological_order
    chosen = {pe for pe, twice in zip(order, replicated, strict=True) if twice}
    for pe in chosen:
        upstream = [up for up in world.descriptor.pes[pe].inputs if up in world.descriptor.pes]
        assert not upstream or chosen & set(upstream), pe


def _nodes(world):
    names = list(world.descriptor.nodes)
    return [tuple(names[h] for h in nodes) for nodes in world.node_of]
