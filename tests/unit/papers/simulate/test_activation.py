"""The activation controller: configurations, replacements and handover."""

import numpy as np
import pytest

from holdfast.documents.fault_schedule import Schedule
from holdfast.planning.laar import Instance, static_replication
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.simulate import (
    Control,
    Deployment,
    FailureHandling,
    RateTrace,
    SimulationSettings,
    rates_by_probability,
    simulate,
    steady_rates,
)

from .pipeline import crash, pipeline


def test_controller_follows_load():
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    active = np.array([[[True, True], [True, True]], [[False, True], [True, False]]])
    deployment = Deployment.planned(descriptor, instance, active)
    outcome = simulate(deployment, rates_by_probability(descriptor, visits=1))
    changes = [(event.at_s, event.about["configuration"]) for event in outcome.history() if event.kind == "configuration"]
    assert [name for _, name in changes] == ["high"]
    assert 240 < changes[0][0] < 242
    assert outcome.internal_completeness > 0.98


def test_replacing_dead_replicas_keeps_completeness():
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    lone = static_replication(instance)
    lone[:, :, 1] = False
    deployment = Deployment.planned(descriptor, instance, lone)
    trace = steady_rates(descriptor, "low", seconds=60)
    kept, lost = (
        simulate(deployment, trace, schedule=crash("pe1.0"), settings=SimulationSettings(control=Control(replace_dead=replaces)))
        for replaces in (True, False)
    )
    assert kept.internal_completeness > 0.95
    assert lost.internal_completeness < 0.5


@pytest.mark.parametrize("scheme", ["none", "checkpoint"])
def test_queue_is_handed_over_between_replicas(scheme):
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    active = np.array([[[True, False], [False, True]], [[False, True], [True, False]]])  # low, high
    deployment = Deployment.planned(descriptor, instance, active)
    low, high = (steady_rates(descriptor, name, seconds=10).rates for name in ("low", "high"))
    trace = RateTrace(("source",), np.concatenate([low, 2 * high, low, low]))
    settings = SimulationSettings(
        queue_s=float("inf"), interval_s=0.05, drain_s=60, failure_handling=FailureHandling(scheme=scheme)
    )
    outcome = simulate(deployment, trace, settings=settings)
    assert [event.kind for event in outcome.history()] == ["configuration", "configuration"]
    assert outcome.ledger.queued.max() > 10
    assert outcome.internal_completeness == pytest.approx(1.0)
    assert outcome.ledger.worked[-1] == pytest.approx(outcome.ledger.processed.sum(axis=0))


def test_queue_of_dead_replacement_survives_new_configuration():
    deployment = pipeline(replicated=False)
    low, high = (steady_rates(deployment.descriptor, name, seconds=20).rates for name in ("low", "high"))
    trace = RateTrace(("source",), np.concatenate([low, high]))
    dead = (*crash("node1", what="node", at_s=15, back_after_s=60).faults, *crash("pe1.1", at_s=18).faults)
    handling = FailureHandling(scheme="checkpoint", detect_s=1.0, restart_s=4.0, spares=False)
    settings = SimulationSettings(drain_s=60, control=Control(replace_dead=True), failure_handling=handling)
    outcome = simulate(deployment, trace, schedule=Schedule(faults=dead), settings=settings)
    assert outcome.internal_completeness == pytest.approx(1.0)
    assert (outcome.ledger.processed.cumsum(axis=0) <= outcome.ledger.worked + 1e-6).all()


def test_replacement_stays_until_the_dead_replica_returns():
    descriptor = pipeline(replicated=False).descriptor
    instance = Instance.of(descriptor)
    lone = static_replication(instance)
    lone[:, :, 1] = False
    deployment = Deployment.planned(descriptor, instance, lone)
    low, high = (steady_rates(descriptor, name, seconds=30).rates for name in ("low", "high"))
    trace = RateTrace(("source",), np.concatenate([low, high, low]))
    settings = SimulationSettings(
        drain_s=10, control=Control(replace_dead=True), failure_handling=FailureHandling(scheme="checkpoint", spares=False)
    )
    outcome = simulate(deployment, trace, schedule=crash("node1", what="node", back_after_s=50), settings=settings)
    assert outcome.internal_completeness == pytest.approx(1.0)
    on_second = outcome.ledger.cpu[:, 1]
    assert on_second[25:69].min() > 0
    assert on_second[75:].max() == 0
