"""Compiled: the immediate effect of a crash, a stall, a slow PE, a hog, or a crash of the orchestrator."""

import numpy as np

from holdfast.compiled import compiled_step
from holdfast_papers.simulate.replicas import record_event
from holdfast_papers.simulate.state import (
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
    NODE_LOST,
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
def inject_fault(cluster: ClusterArrays, state: State, timeline: FaultTimeline, at: int, t: int) -> None:
    """Inject fault number `at` of the timeline."""
    kind, r = timeline.kind[at], timeline.replica[at]
    if kind == CONTROL_DOWN:
        state.counters[CONTROL] = 0
        return
    if kind == CONTROL_UP:
        state.counters[CONTROL] = 1
        return
    if kind == HOG:
        state.hogs[r] += int(timeline.share[at])
        return
    if kind == FREE:
        state.hogs[r] -= int(timeline.share[at])
        return
    if kind in (SLOW, STEADY):
        if state.status[r] != CRASHED:  # a restarted replica is not slow
            state.limit[r] = timeline.share[at]
        return
    if kind == STALL:
        if state.status[r] == UP:
            state.status[r] = STALLED
            state.stop_step[r] = t
            state.notice_step[r] = NEVER
            state.counters[DOWN] += 1
        return
    if kind == RESUME:
        if state.status[r] == STALLED:
            if state.notice_step[r] != NEVER:
                record_event(state, t, RESTORED, r // cluster.replicas, r % cluster.replicas)
            state.status[r] = UP
            state.notice_step[r] = NEVER
            state.counters[DOWN] -= 1
        return
    if kind in (CRASH, NODE_LOST):
        i, j = r // cluster.replicas, r % cluster.replicas
        # Under scheme "none", and if its node is lost, a replica returns only when the fault ends.
        restarts, waited = cluster.scheme[i] != NONE, cluster.scheme[i] == NONE or state.node_lost[r]
        state.node_lost[r] = state.node_lost[r] or kind == NODE_LOST
        if state.status[r] == CRASHED:
            if kind == CRASH and restarts:
                return
            # With two faults the replica returns when both have ended.
            last = (
                max(state.return_step[r], timeline.back[at])
                if state.return_step[r] != NEVER and timeline.back[at] != NEVER
                else NEVER
            )
            state.return_step[r] = last if waited else timeline.back[at]
            return
        if state.status[r] == UP:
            state.counters[DOWN] += 1
        state.status[r] = CRASHED
        state.limit[r] = np.inf
        state.stop_step[r] = t
        state.notice_step[r] = NEVER
        state.return_step[r] = timeline.back[at]
        state.overhead[r] = 0.0
        state.recovering[r] = False
        for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
            state.replay[j, e] = 0.0
            state.awaited[j, e] = 0.0
            state.skip[j, e] = 0.0
            state.batch[j, e] = 0.0
            state.waiting[j, e] += state.job_epochs[r]
            if cluster.scheme[i] == NONE:
                state.cleared[j, e] += state.queue[j, e]
                state.queue[j, e] = 0.0
                state.waiting[j, e] = 0.0
        state.job_epochs[r] = 0.0
        record_event(state, t, FAULT, i, j)
