"""Laws of the cluster simulator: tuples balance under any faults, and without faults it agrees with the planner."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.documents.descriptor import Input
from holdfast.documents.fault_schedule import RandomFaults, Schedule, ScheduledFault
from holdfast.planning.laar import Instance, cost, expected_rates, node_load, static_replication
from holdfast_papers.laar.generator import Ranges, generate
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

SMALL = Ranges(nodes=(2, 3), pes_per_node=(2, 4))


def deployed(seed: int, *, share_active: float = 1.0, even: bool = False) -> Deployment:
    """Return an application drawn by seed. If `even`, all inputs of a PE have the same selectivity, so output determines input."""
    rng = np.random.default_rng(seed)
    descriptor = generate(rng, ranges=SMALL)
    if even:
        pes = {name: pe.model_copy(update={"inputs": evened(pe.inputs)}) for name, pe in descriptor.pes.items()}
        descriptor = descriptor.model_copy(update={"pes": pes})
    instance = Instance.of(descriptor)
    active = static_replication(instance)
    active[:, :, 1] &= rng.random(active[:, :, 1].shape) < share_active
    return Deployment.planned(descriptor, instance, active)


def evened(inputs: Mapping[str, Input]) -> dict[str, Input]:
    mean = sum(edge.selectivity for edge in inputs.values()) / len(inputs)
    return {tail: edge.model_copy(update={"selectivity": mean}) for tail, edge in inputs.items()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0, 1),
    scheme=st.sampled_from(["none", "checkpoint", "source"]),
    faults=st.integers(0, 8),
    replace_dead=st.booleans(),
    spares=st.booleans(),
    back=st.floats(0.1, 20),
    epoch_s=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_tuples_balance_at_every_pe_and_step(seed, share, scheme, faults, replace_dead, spares, back, epoch_s):
    scheme = "checkpoint" if epoch_s else scheme
    deployment = deployed(seed, share_active=share, even=True)
    rng = np.random.default_rng(seed + 1)
    rates = rng.uniform(0, 25, (40, 1))
    schedule = Schedule(
        seed=seed,
        random=RandomFaults(count=faults, to_s=40, what=("pe", "host", "node", "orchestrator"), back_after_s=back),
        faults=(
            ScheduledFault(at_s=5, kind="stall", what="pe", target=(deployment.pes[0],), for_s=3),
            ScheduledFault(at_s=9, kind="hog", what="node", target=(next(iter(deployment.descriptor.nodes)),), for_s=4),
        ),
    )
    settings = SimulationSettings(
        interval_s=0.05,
        epoch_s=epoch_s,
        job_s=0.02,
        control=Control(replace_dead=replace_dead),
        failure_handling=FailureHandling(
            scheme=scheme,
            spares=spares,
            restart_cost_s=0.3,
            checkpoint_s=3,
            checkpoint_tuple_s=1e-3,
            load_tuple_s=1e-3,
            window_s=4,
            sync_s=1,
            resend_s=1e-3,
        ),
    )
    trace = RateTrace(("source",), rates)
    outcome = simulate(deployment, trace, schedule=schedule, settings=settings, rng=np.random.default_rng(seed))
    assert outcome.imbalance.max() < 1e-9
    for part in (outcome.ledger.queued, outcome.state.replay, outcome.state.awaited, outcome.ledger.missed):
        assert part.min() >= -1e-9
    # No tuple counts twice, even after takeovers.
    assert (outcome.ledger.processed.cumsum(axis=0) <= outcome.ledger.arrived.cumsum(axis=0) + 1e-6).all()
    # Some replica has worked on each processed tuple.
    assert (outcome.ledger.processed.cumsum(axis=0) <= outcome.ledger.worked + 1e-6).all()
    # Processed tuples were emitted by their selectivity or wait for a takeover to end; consumers receive what was emitted.
    selectivity = np.array([next(iter(deployment.descriptor.pes[pe].inputs.values())).selectivity for pe in deployment.pes])
    emitted = outcome.ledger.processed.cumsum(axis=0) * selectivity
    assert (outcome.ledger.output.cumsum(axis=0) <= emitted + 1e-6).all()
    assert outcome.ledger.output.sum(axis=0) + outcome.state.held == pytest.approx(emitted[-1], abs=1e-6)
    arrivals = trace.arrivals(settings.step_s, rng=np.random.default_rng(seed), epoch_s=epoch_s)
    sent = {"source": arrivals[:, 0]} | {pe: np.roll(outcome.ledger.output[:, i], 1) for i, pe in enumerate(deployment.pes)}
    for i, pe in enumerate(deployment.pes):
        got = sum(sent[tail] for tail in deployment.descriptor.pes[pe].inputs)
        assert outcome.ledger.arrived[1:, i] == pytest.approx(got[1:], abs=1e-9)
    room = outcome.cluster.room.max() * outcome.cluster.replicas * 20
    assert scheme != "none" or outcome.ledger.queued.max() <= room
    capacity = outcome.cluster.capacity
    assert (outcome.ledger.cpu <= capacity * (1 + 1e-9)).all()


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scheme=st.sampled_from(["none", "checkpoint"]),
    epoch_s=st.sampled_from([0.0, 1.0]),
    every_s=st.sampled_from([0.1, 1.0]),
    resync_s=st.sampled_from([0.0, 0.5, 2.0]),
)
def test_handover_without_faults_loses_and_repeats_nothing(seed, scheme, epoch_s, every_s, resync_s):
    rng = np.random.default_rng(seed)
    descriptor = generate(rng, ranges=SMALL)
    instance = Instance.of(descriptor)
    active = np.zeros_like(static_replication(instance))
    first = rng.random(active.shape[:2]) < 0.5  # differs between configurations
    active[:, :, 0], active[:, :, 1] = first, ~first
    deployment = Deployment.planned(descriptor, instance, active)
    rates = rng.choice(deployment.rates[:, 0], (30, 1)) * rng.uniform(0.9, 1.0, (30, 1))
    settings = SimulationSettings(
        queue_s=float("inf"),
        epoch_s=epoch_s,
        control=Control(every_s=every_s, steady=1, resync_s=resync_s),
        failure_handling=FailureHandling(scheme="checkpoint" if epoch_s else scheme),
    )
    outcome = simulate(deployment, RateTrace(("source",), rates), settings=settings)
    worked, waits = outcome.ledger.worked[-1], outcome.ledger.queued[-1]
    assert outcome.missed < 1e-6
    assert worked + waits == pytest.approx(outcome.ledger.arrived.sum(axis=0), rel=1e-9, abs=1e-6)
    if not epoch_s:  # with epochs, tuples count when their job is done
        assert outcome.ledger.processed.sum(axis=0) == pytest.approx(worked, rel=1e-9, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_rates_and_load_match_the_planner(seed):
    deployment = deployed(seed)
    descriptor = deployment.descriptor
    low = descriptor.input_configurations[0]
    outcome = simulate(deployment, steady_rates(descriptor, low.name, seconds=30))
    expected = expected_rates(descriptor, low)
    assert outcome.ledger.output[-1] == pytest.approx([expected[pe] for pe in deployment.pes])
    assert outcome.dropped == 0
    instance = Instance.of(descriptor)
    assert outcome.ledger.cpu[-1] == pytest.approx(node_load(instance, deployment.active)[0])


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), epoch_s=st.sampled_from([0.5, 1.0, 2.0]))
def test_epochs_lose_nothing_and_every_job_costs_cpu(seed, epoch_s):
    deployment = deployed(seed)
    nodes = {name: node.model_copy(update={"cores": 4.0}) for name, node in deployment.descriptor.nodes.items()}
    descriptor = deployment.descriptor.model_copy(update={"nodes": nodes})
    instance = Instance.of(descriptor)
    roomy = Deployment.planned(descriptor, instance, deployment.active)
    settings = SimulationSettings(
        epoch_s=epoch_s, job_s=0.01, drain_s=30, failure_handling=FailureHandling(scheme="checkpoint", checkpoint_s=1000)
    )
    outcome = simulate(roomy, rates_by_probability(descriptor, seconds=60), settings=settings)
    assert outcome.internal_completeness == pytest.approx(1.0)
    jobs = len(roomy.pes) * roomy.replicas * round(90 / epoch_s)
    tuples = cost(instance, roomy.active) * 60 / descriptor.contract.billing_period_s
    assert outcome.cpu_s.sum() == pytest.approx(tuples + 0.01 * jobs, rel=0.02)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_cpu_time_and_completeness_match_the_planner(seed):
    rng = np.random.default_rng(seed)
    descriptor = generate(rng, ranges=SMALL)
    roomy = descriptor.model_copy(
        update={"nodes": {name: node.model_copy(update={"cores": 4.0}) for name, node in descriptor.nodes.items()}}
    )
    instance = Instance.of(roomy)
    deployment = Deployment.planned(roomy, instance, static_replication(instance))
    outcome = simulate(deployment, rates_by_probability(roomy), settings=SimulationSettings(drain_s=5))
    assert outcome.internal_completeness == pytest.approx(1.0)
    assert outcome.cpu_s.sum() == pytest.approx(cost(instance, deployment.active), rel=1e-6)


def test_same_seed_gives_same_run():
    one, two = (simulate(deployed(3), rates_by_probability(deployed(3).descriptor), rng=np.random.default_rng(2)) for _ in range(2))
    assert (one.ledger.output == two.ledger.output).all()
