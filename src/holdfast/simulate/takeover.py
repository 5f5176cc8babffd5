"""The compiled step's primaries: who takes over from one that is dead or let go."""

from holdfast.compiled import compiled_step
from holdfast.simulate.replicas import note, serves
from holdfast.simulate.state import NEVER, NONE, TAKEN_OVER, UP, ClusterArrays, FailureArrays, State


@compiled_step
def elect(plant: ClusterArrays, care: FailureArrays, state: State, t: int) -> None:
    """The primary of each PE: it stays until it is deactivated or known to be dead, then the first that works takes over.

    A takeover sends what was put out since the last synchronisation; where the PEs upstream are taken over too it waits for theirs
    (PPA section VI-A).
    """
    k = plant.replicas
    for i in range(plant.pes):
        p = state.primary[i]
        r = i * k + p
        dead = p >= 0 and state.status[r] != UP and state.noticed[r] != NEVER
        # A replica that resynchronises, or is being recovered, gives way to one that has its state.
        if p >= 0 and not dead and state.active[r] and t >= state.ready[r] and not state.recovering[r]:
            continue
        chosen = -1
        for j in range(k):
            if chosen < 0 and serves(state.active, state.status, state.ready, i * k + j, t) and not state.recovering[i * k + j]:
                chosen = j
        if chosen < 0:
            if p >= 0 and serves(state.active, state.status, state.ready, r, t):
                continue
            for j in range(k):
                if chosen < 0 and serves(state.active, state.status, state.ready, i * k + j, t):
                    chosen = j
            # What is kept upstream for a dead primary waits for it.
            if chosen < 0 and p >= 0 and state.active[r] and not (dead and plant.scheme[i] == NONE):
                continue
            # So it does for one that was to follow a primary which was let go, and died.
            if chosen < 0 and plant.scheme[i] != NONE:
                state.primary[i] = first_active(plant, state, i)
                continue
        if chosen == p:
            continue
        state.primary[i] = chosen
        if dead and chosen >= 0 and not state.recovering[i * k + chosen]:
            begins = t
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                if plant.tail[e] >= plant.sources:
                    begins = max(begins, state.holds_until[plant.tail[e] - plant.sources])
            # Synchronised for the last time before it died.
            since = state.stopped[r] % care.sync + t - state.stopped[r] if care.sync > 0 else 0
            state.holds_until[i] = begins + care.takeover + int(care.resend * state.window_rate[plant.sources + i] * since)
            note(state, state.holds_until[i], TAKEN_OVER, i, chosen)


@compiled_step
def first_active(plant: ClusterArrays, state: State, i: int) -> int:
    """The first active replica of a PE, dead or alive; -1 if there is none."""
    for j in range(plant.replicas):
        if state.active[i * plant.replicas + j]:
            return j
    return -1
