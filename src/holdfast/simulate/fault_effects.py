"""The compiled step's faults: what a crash, a stall, a slow PE, a hog or an orchestrator's death does at once."""

import numpy as np

from holdfast.compiled import compiled_step
from holdfast.simulate.replicas import note
from holdfast.simulate.state import (
    AWAY,
    CONTROL,
    CONTROL_DOWN,
    CONTROL_UP,
    CRASH,
    CRASHED,
    DOWN,
    FAULT,
    FREE,
    HOG,
    NEVER,
    NONE,
    RESTORED,
    RESUME,
    SLOW,
    STALL,
    STALLED,
    STEADY,
    UP,
    ClusterArrays,
    FaultTimeline,
    State,
)


@compiled_step
def strike(plant: ClusterArrays, state: State, troubles: FaultTimeline, at: int, t: int) -> None:
    """One fault."""
    kind, r = troubles.kind[at], troubles.replica[at]
    if kind == CONTROL_DOWN:
        state.counters[CONTROL] = 0
        return
    if kind == CONTROL_UP:
        state.counters[CONTROL] = 1
        return
    if kind == HOG:
        state.hogged[r] += int(troubles.share[at])
        return
    if kind == FREE:
        state.hogged[r] -= int(troubles.share[at])
        return
    if kind in (SLOW, STEADY):
        if state.status[r] != CRASHED:  # who is started again is not slow
            state.limit[r] = troubles.share[at]
        return
    if kind == STALL:
        if state.status[r] == UP:
            state.status[r] = STALLED
            state.stopped[r] = t
            state.noticed[r] = NEVER
            state.counters[DOWN] += 1
        return
    if kind == RESUME:
        if state.status[r] == STALLED:
            if state.noticed[r] != NEVER:
                note(state, t, RESTORED, r // plant.replicas, r % plant.replicas)
            state.status[r] = UP
            state.noticed[r] = NEVER
            state.counters[DOWN] -= 1
        return
    if kind in (CRASH, AWAY):
        i, j = r // plant.replicas, r % plant.replicas
        # A crash is made good by a restart, unless nothing is; only the node's return is waited for.
        restarts, waited = plant.scheme[i] != NONE, plant.scheme[i] == NONE or state.away[r]
        state.away[r] = state.away[r] or kind == AWAY
        if state.status[r] == CRASHED:
            if kind == CRASH and restarts:
                return
            # Two reasons to be gone: it is back when neither is left.
            last = max(state.back[r], troubles.back[at]) if state.back[r] != NEVER and troubles.back[at] != NEVER else NEVER
            state.back[r] = last if waited else troubles.back[at]
            return
        if state.status[r] == UP:
            state.counters[DOWN] += 1
        state.status[r] = CRASHED
        state.limit[r] = np.inf
        state.stopped[r] = t
        state.noticed[r] = NEVER
        state.back[r] = troubles.back[at]
        state.chores[r] = 0.0
        state.recovering[r] = False
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            state.replay[j, e] = 0.0
            state.need[j, e] = 0.0
            state.skip[j, e] = 0.0
            state.batch[j, e] = 0.0
            state.waiting[j, e] += state.span[r]
            if plant.scheme[i] == NONE:
                state.cleared[j, e] += state.queue[j, e]
                state.queue[j, e] = 0.0
                state.waiting[j, e] = 0.0
        state.span[r] = 0.0
        note(state, t, FAULT, i, j)
