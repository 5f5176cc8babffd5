"""One simulation: a deployment, the rates of its sources and a fault schedule in; what became of every tuple out."""

from __future__ import annotations

import numpy as np

from holdfast.documents.fault_schedule import Schedule
from holdfast.errors import HoldfastError
from holdfast.simulate.deployment import Deployment
from holdfast.simulate.faults import drawn_faults, troubles
from holdfast.simulate.kernel import play
from holdfast.simulate.outcome import SimulationOutcome
from holdfast.simulate.rates import RateTrace
from holdfast.simulate.settings import SimulationSettings
from holdfast.simulate.state import AWAY, CONFIGURATION, CONTROL, CRASH, EVENTS, NEVER, ClusterArrays, FailureArrays, Ledger, State

MAX_EVENTS, MAX_STEPS = 5_000_000, 50_000_000


def simulate(
    deployment: Deployment,
    trace: RateTrace,
    *,
    schedule: Schedule | None = None,
    settings: SimulationSettings | None = None,
    rng: np.random.Generator | None = None,
) -> SimulationOutcome:
    """Run the trace through the deployment while the schedule's faults strike. With an rng tuples arrive at random (Poisson).

    The pipeline of LAAR's Figure 1 at its Low rate, with both replicas of both PEs active:

    >>> from holdfast.planning.laar import Instance, static_replication
    >>> from holdfast.planning.laar.examples import figure_1
    >>> from holdfast.simulate.rates import steady_rates
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
    plant, orders = deployment.plant(settings), deployment.orders(settings)
    faults = drawn_faults(schedule or Schedule(), deployment.places)
    struck = troubles(faults, deployment.places, settings)
    arrivals = trace.arrivals(settings.step_s, drain_s=settings.drain_s, rng=rng, epoch_s=settings.epoch_s)
    per_interval = max(1, settings.steps(settings.interval_s))
    begins = deployment.configuration_for(trace.rates[0])
    watches = steps // orders.every
    room = min(MAX_EVENTS, 8 * int(np.isin(struck.kind, (CRASH, AWAY)).sum()) + 4 * len(struck.kind) + watches + 16)
    state = _fresh(plant, orders.active[begins], settings, events=room)
    state.counters[CONFIGURATION] = begins
    ledger = _blank(plant, intervals=-(-steps // per_interval))
    play(plant, orders, _care(settings), struck, state, ledger, arrivals, per_interval)
    if state.counters[EVENTS] > len(state.events):
        raise HoldfastError(
            f"the simulation has {state.counters[EVENTS]} events, wanted at most {len(state.events)}; give fewer faults"
        )
    return SimulationOutcome(
        deployment, settings, plant, state, ledger, source_tuples=arrivals.sum(axis=0), steps=steps, faults=faults
    )


def _care(settings: SimulationSettings) -> FailureArrays:
    care = settings.care
    return FailureArrays(
        detect=settings.steps(care.detect_s),
        restart=settings.steps(care.restart_s),
        restart_cost=care.restart_cost_s,
        checkpoint_every=max(1, settings.steps(care.checkpoint_s)),
        checkpoint_cost=care.checkpoint_cost_s,
        checkpoint_tuple_cost=care.checkpoint_tuple_s,
        load_tuple_cost=care.load_tuple_s,
        window=care.window_s / settings.step_s,
        takeover=settings.steps(care.takeover_s),
        sync=settings.steps(care.sync_s),
        resend=care.resend_s / settings.step_s,
    )


def _fresh(
    plant: ClusterArrays, active: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], settings: SimulationSettings, *, events: int
) -> State:
    n, k, edges, streams = plant.pes, plant.replicas, len(plant.tail), plant.sources + plant.pes
    r = n * k

    def never() -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.full(r, NEVER, dtype=np.int64)

    def ends() -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.zeros((k, edges))

    counters = np.zeros(8, dtype=np.int64)
    counters[CONTROL] = 1
    return State(
        status=np.zeros(r, dtype=np.int64),
        active=active.ravel().copy(),
        ready=np.zeros(r, dtype=np.int64),
        switch_at=never(),
        stopped=never(),
        noticed=never(),
        back=never(),
        away=np.zeros(r, dtype=np.bool_),
        recovering=np.zeros(r, dtype=np.bool_),
        limit=np.full(r, np.inf),
        chores=np.zeros(r),
        granted=np.zeros(r),
        cpu=np.zeros(r),
        span=np.zeros(r),
        hogged=np.zeros(len(plant.capacity), dtype=np.int64),
        queue=ends(),
        replay=ends(),
        need=ends(),
        skip=ends(),
        since=ends(),
        taken=ends(),
        worked=ends(),
        dropped=ends(),
        cleared=ends(),
        replayed=ends(),
        batch=ends(),
        waiting=ends(),
        reached=np.zeros(edges),
        closed=np.zeros(edges),
        done=np.zeros(edges),
        primary=active.argmax(axis=1).astype(np.int64),
        holds_until=np.zeros(n, dtype=np.int64),
        held=np.zeros(n),
        held_epochs=np.zeros(n),
        recent=np.zeros(n),
        wanted=np.zeros(n, dtype=np.bool_),
        emitted=np.zeros(streams),
        made=np.zeros(streams),
        ended=np.zeros(streams),
        published=np.zeros(streams),
        regenerated=np.zeros(streams),
        remade=np.zeros(streams),
        window_rate=np.zeros(streams),
        counters=counters,
        events=np.zeros((events, 4), dtype=np.int64),
    )


def _blank(plant: ClusterArrays, *, intervals: int) -> Ledger:
    names = ("arrived", "processed", "missed", "waited", "output", "taken", "worked", "dropped", "cleared", "queued")
    return Ledger(
        **{name: np.zeros((intervals, plant.pes)) for name in names},
        cpu=np.zeros((intervals, len(plant.capacity))),
        configuration=np.zeros(intervals, dtype=np.int64),
    )
