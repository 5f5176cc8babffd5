"""Packing of lone replicas."""

import numpy as np

from holdfast.planning.laar import Instance
from holdfast.planning.laar.packing import cores, pack
from holdfast_papers.laar.generator import Ranges, generate

SMALL = Ranges(nodes=(2, 3), pes_per_node=(3, 5))


def small(seed):
    return Instance.of(generate(np.random.default_rng(seed), ranges=SMALL), sla=0.5)


def test_core_is_minimal_unpackable_set():
    instance = small(3)
    full = np.ones(instance.shape[1], dtype=bool)
    assert pack(instance, 1, full) is None
    sets = list(cores(instance, 1, full, rng=np.random.default_rng(0)))
    assert sets
    for core in sets:
        assert pack(instance, 1, core) is None
        for i in np.flatnonzero(core):
            less = core.copy()
            less[i] = False
            assert pack(instance, 1, less) is not None
