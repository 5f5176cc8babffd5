"""`simulate`: runs a deployment in the cluster simulator, with the rates of its sources and a fault schedule."""

from __future__ import annotations

import numpy as np

from holdfast.documents import Schedule
from holdfast.errors import HoldfastError
from holdfast.planning.laar.activation_rule import initial_state
from holdfast_papers.simulate.deployment import Deployment
from holdfast_papers.simulate.faults import drawn_faults, fault_timeline
from holdfast_papers.simulate.kernel import run_steps
from holdfast_papers.simulate.outcome import SimulationOutcome
from holdfast_papers.simulate.rates import RateTrace
from holdfast_papers.simulate.settings import SimulationSettings
from holdfast_papers.simulate.state import (
    CONFIGURATION,
    CONTROL,
    CRASH,
    EVENTS,
    NEVER,
    NODE_LOST,
    ClusterArrays,
    ControllerArrays,
    FailureArrays,
    Ledger,
    State,
)

MAX_EVENTS, MAX_STEPS = 5_000_000, 50_000_000


def simulate(
    deployment: Deployment,
    trace: RateTrace,
    *,
    schedule: Schedule | None = None,
    settings: SimulationSettings | None = None,
    rng: np.random.Generator | None = None,
) -> SimulationOutcome:
    """Simulate the deployment with a rate trace and a fault schedule. With an rng, tuples arrive at random (Poisson).

    The pipeline of LAAR's Figure 1 at its Low rate, with both replicas of both PEs active:

    >>> from holdfast.planning.laar import Instance, static_replication
    >>> from holdfast.planning.laar.examples import figure_1
    >>> from holdfast_papers.simulate.rates import steady_rates
    >>> descriptor = figure_1()
    >>> instance = Instance.of(descriptor)
    >>> deployment = Deployment.planned(descriptor, instance, static_replication(instance))
    >>> outcome = simulate(deployment, steady_rates(descriptor, "low", seconds=60), settings=SimulationSettings(drain_s=1))
    >>> round(outcome.internal_completeness, 6), round(float(outcome.cpu_s.sum()), 6)
    (1.0, 96.0)
    """
    settings = settings or SimulationSettings()
    if tuple(trace.sources) != tuple(deployment.descriptor.sources):
        raise HoldfastError(
            f"the rate trace is of sources {', '.join(trace.sources)}; "
            f"'{deployment.descriptor.application}' reads {', '.join(deployment.descriptor.sources)}"
        )
    steps = settings.steps(trace.seconds) + settings.steps(settings.drain_s)
    if not 0 < steps <= MAX_STEPS:
        raise HoldfastError(
            f"a trace of {trace.seconds:g} s and {settings.drain_s:g} s after it have {steps:,} steps of {settings.step_s:g} s, "
            f"wanted 1 to {MAX_STEPS:,}; give another --step or a trace of another length"
        )
    if settings.steps(settings.epoch_s) > steps:
        raise HoldfastError(
            f"a trace of {trace.seconds:g} s and {settings.drain_s:g} s after it have no whole epoch of {settings.epoch_s:g} s; "
            "give a shorter --epoch or a longer trace"
        )
    cluster, controller = deployment.cluster_arrays(settings), deployment.controller_arrays(settings)
    faults = drawn_faults(schedule or Schedule(), deployment.fault_targets)
    timeline = fault_timeline(faults, deployment.fault_targets, settings)
    arrivals = trace.arrivals(settings.step_s, drain_s=settings.drain_s, rng=rng, epoch_s=settings.epoch_s)
    per_interval = max(1, settings.steps(settings.interval_s))
    configuration = deployment.configuration_for(trace.rates[0])
    room = min(
        MAX_EVENTS,
        8 * int(np.isin(timeline.kind, (CRASH, NODE_LOST)).sum()) + 4 * len(timeline.kind) + steps // controller.every + 16,
    )
    state = _initial_state(cluster, controller, configuration, events=room)
    ledger = _empty_ledger(cluster, intervals=-(-steps // per_interval))
    run_steps(cluster, controller, _failure_arrays(settings), timeline, state, ledger, arrivals, per_interval)
    if state.counters[EVENTS] > len(state.events):
        raise HoldfastError(
            f"the simulation has {state.counters[EVENTS]} events, wanted at most {len(state.events)}; give fewer faults"
        )
    return SimulationOutcome(
        deployment, settings, cluster, state, ledger, source_tuples=arrivals.sum(axis=0), steps=steps, faults=faults
    )


def _failure_arrays(settings: SimulationSettings) -> FailureArrays:
    handling = settings.failure_handling
    return FailureArrays(
        detect=settings.steps(handling.detect_s),
        restart=settings.steps(handling.restart_s),
        restart_cost=handling.restart_cost_s,
        checkpoint_every=max(1, settings.steps(handling.checkpoint_s)),
        checkpoint_cost=handling.checkpoint_cost_s,
        checkpoint_tuple_cost=handling.checkpoint_tuple_s,
        load_tuple_cost=handling.load_tuple_s,
        window=handling.window_s / settings.step_s,
        takeover=settings.steps(handling.takeover_s),
        sync=settings.steps(handling.sync_s),
        resend=handling.resend_s / settings.step_s,
    )


def _initial_state(cluster: ClusterArrays, controller: ControllerArrays, configuration: int, *, events: int) -> State:
    active = controller.active[configuration]
    n, k, edges, streams = cluster.pes, cluster.replicas, len(cluster.tail), cluster.sources + cluster.pes
    r = n * k

    def never() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.full(r, NEVER, dtype=np.int64)

    def per_edge() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.zeros((k, edges))

    counters = np.zeros(6, dtype=np.int64)
    counters[CONTROL], counters[CONFIGURATION] = 1, configuration
    return State(
        status=np.zeros(r, dtype=np.int64),
        active=active.ravel().copy(),
        ready_step=np.zeros(r, dtype=np.int64),
        switch_step=never(),
        stop_step=never(),
        notice_step=never(),
        return_step=never(),
        node_lost=np.zeros(r, dtype=np.bool_),
        recovering=np.zeros(r, dtype=np.bool_),
        limit=np.full(r, np.inf),
        overhead=np.zeros(r),
        granted=np.zeros(r),
        cpu=np.zeros(r),
        job_epochs=np.zeros(r),
        hogs=np.zeros(len(cluster.capacity), dtype=np.int64),
        queue=per_edge(),
        replay=per_edge(),
        awaited=per_edge(),
        skip=per_edge(),
        since_checkpoint=per_edge(),
        taken=per_edge(),
        worked=per_edge(),
        dropped=per_edge(),
        cleared=per_edge(),
        replayed=per_edge(),
        batch=per_edge(),
        waiting=per_edge(),
        reached=np.zeros(edges),
        closed=np.zeros(edges),
        output_position=np.zeros(edges),
        primary=active.argmax(axis=1).astype(np.int64),
        hold_until_step=np.zeros(n, dtype=np.int64),
        held=np.zeros(n),
        held_epochs=np.zeros(n),
        recent_input=np.zeros(n),
        needs_replay=np.zeros(n, dtype=np.bool_),
        emitted=np.zeros(streams),
        output=np.zeros(streams),
        ended=np.zeros(streams),
        published=np.zeros(streams),
        replay_emitted=np.zeros(streams),
        replay_output=np.zeros(streams),
        window_rate=np.zeros(streams),
        counters=counters,
        rule=initial_state(controller.expected, configuration),
        events=np.zeros((events, 4), dtype=np.int64),
    )


def _empty_ledger(cluster: ClusterArrays, *, intervals: int) -> Ledger:
    names = ("arrived", "processed", "missed", "waited", "output", "taken", "worked", "dropped", "cleared", "queued")
    return Ledger(
        **{name: np.zeros((intervals, cluster.pes)) for name in names},
        cpu=np.zeros((intervals, len(cluster.capacity))),
        configuration=np.zeros(intervals, dtype=np.int64),
    )
