"""Compiled: the election of primaries when a primary died or was deactivated."""

from holdfast.compiled import compiled_step
from holdfast_papers.simulate.replicas import is_working, record_event
from holdfast_papers.simulate.state import NEVER, NONE, TAKEN_OVER, UP, ClusterArrays, FailureArrays, State


@compiled_step
def elect_primaries(cluster: ClusterArrays, handling: FailureArrays, state: State, t: int) -> None:
    """Elect the primary of each PE.

    A primary stays until it is deactivated or known to be dead; then the first working replica follows.

    A takeover resends what was emitted since the last synchronisation. It begins after the takeovers of PEs upstream (PPA section
    VI-A).
    """
    k = cluster.replicas
    for i in range(cluster.pes):
        p = state.primary[i]
        r = i * k + p
        dead = p >= 0 and state.status[r] != UP and state.notice_step[r] != NEVER
        # A primary that resynchronises or recovers is replaced by a replica that has its state.
        if p >= 0 and not dead and state.active[r] and t >= state.ready_step[r] and not state.recovering[r]:
            continue
        chosen = -1
        for j in range(k):
            if (
                chosen < 0
                and is_working(state.active, state.status, state.ready_step, i * k + j, t)
                and not state.recovering[i * k + j]
            ):
                chosen = j
        if chosen < 0:
            if p >= 0 and is_working(state.active, state.status, state.ready_step, r, t):
                continue
            for j in range(k):
                if chosen < 0 and is_working(state.active, state.status, state.ready_step, i * k + j, t):
                    chosen = j
            # Inputs kept upstream wait for the dead primary to return.
            if chosen < 0 and p >= 0 and state.active[r] and not (dead and cluster.scheme[i] == NONE):
                continue
            # They also wait for a dead successor of a deactivated primary.
            if chosen < 0 and cluster.scheme[i] != NONE:
                state.primary[i] = first_active(cluster, state, i)
                continue
        if chosen == p:
            continue
        state.primary[i] = chosen
        if dead and chosen >= 0 and not state.recovering[i * k + chosen]:
            begins = t
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                if cluster.tail[e] >= cluster.sources:
                    begins = max(begins, state.hold_until_step[cluster.tail[e] - cluster.sources])
            # The last synchronisation was before the primary died.
            since = state.stop_step[r] % handling.sync + t - state.stop_step[r] if handling.sync > 0 else 0
            state.hold_until_step[i] = (
                begins + handling.takeover + int(handling.resend * state.window_rate[cluster.sources + i] * since)
            )
            record_event(state, state.hold_until_step[i], TAKEN_OVER, i, chosen)


@compiled_step
def first_active(cluster: ClusterArrays, state: State, i: int) -> int:
    """Return the first active replica of a PE, dead or alive, or -1 if there is none."""
    for j in range(cluster.replicas):
        if state.active[i * cluster.replicas + j]:
            return j
    return -1
