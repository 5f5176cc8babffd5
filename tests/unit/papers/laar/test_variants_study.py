"""Six replication variants: the pessimistic failures are the worst case."""

import numpy as np

from holdfast.planning.laar import Instance, greedy, static_replication
from holdfast_papers.laar.generator import generate
from holdfast_papers.laar.variants_study import RANGES, pessimistic
from holdfast_papers.simulate import Deployment, SimulationSettings, simulate, steady_rates


def test_pessimistic_survivor_is_the_most_idle_replica():
    descriptor = generate(np.random.default_rng([1, 0]), ranges=RANGES)
    instance = Instance.of(descriptor)
    active = greedy(instance)
    deployment = Deployment.planned(descriptor, instance, active)
    (fault,) = pessimistic(deployment, instance).faults
    for i, pe in enumerate(deployment.pes):
        (dead,) = [name for name in fault.target if name.rsplit(".", 1)[0] == pe]
        survivor = 1 - int(dead[-1])
        assert active[:, i, survivor].sum() <= active[:, i, 1 - survivor].sum()


def test_static_replication_survives_pessimistic_failures_at_low_load():
    descriptor = generate(np.random.default_rng([1, 1]), ranges=RANGES)
    instance = Instance.of(descriptor)
    deployment = Deployment.planned(descriptor, instance, static_replication(instance))
    how = SimulationSettings(drain_s=5)
    outcome = simulate(deployment, steady_rates(descriptor, "low"), schedule=pessimistic(deployment, instance), settings=how)
    assert outcome.internal_completeness > 0.97  # but for the second until the dead are noticed
