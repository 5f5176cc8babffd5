"""The compiled step's recovery: checkpoints, crashes that are noticed, and state that is made again.

A replica that is back replays what the PE had processed since its checkpoint, or what the sources send again. What is kept upstream
is there to be replayed at once (`replay`); what was lost upstream too has to be made again there first (`need`).
"""

from holdfast.compiled import compiled_step
from holdfast.simulate.replicas import clear, note, serves
from holdfast.simulate.state import (
    CHECKPOINT,
    CONTROL,
    CRASHED,
    DETECTED,
    DOWN,
    NEVER,
    NONE,
    RECOVERED,
    REPLAYING,
    REPLAYS,
    RESTORED,
    SOURCE,
    STALLED,
    UP,
    ClusterArrays,
    FailureArrays,
    Orders,
    State,
)


@compiled_step
def checkpoint(plant: ClusterArrays, care: FailureArrays, state: State, t: int) -> None:
    """Replicas whose turn it is write their state: CPU time due, and nothing left to replay from before."""
    for i in range(plant.pes):
        if plant.scheme[i] != CHECKPOINT or (t + i * 7919) % care.checkpoint_every != 0:
            continue
        for j in range(plant.replicas):
            r = i * plant.replicas + j
            if serves(state.active, state.status, state.ready, r, t) and not state.recovering[r]:
                state.chores[r] += care.checkpoint_cost + care.checkpoint_tuple_cost * care.window * state.recent[i]
                for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                    state.since[j, e] = 0.0


@compiled_step
def recover(plant: ClusterArrays, care: FailureArrays, orders: Orders, state: State, t: int) -> None:
    """Notice crashes whose heartbeats have been missed long enough, and bring back what can be brought back."""
    sends = False
    for r in range(plant.pes * plant.replicas):
        if state.status[r] == UP:
            continue
        i = r // plant.replicas
        if state.noticed[r] == NEVER and state.counters[CONTROL] == 1 and t >= state.stopped[r] + care.detect:
            state.noticed[r] = t
            note(state, t, DETECTED, i, r % plant.replicas)
        if state.status[r] == STALLED:
            continue
        told = state.noticed[r] != NEVER and t >= state.noticed[r] + care.restart
        again = plant.scheme[i] != NONE and told and not state.away[r]
        if again or (state.back[r] != NEVER and t >= state.back[r]):
            restore(plant, care, orders, state, r, t)
            sends = sends or plant.scheme[i] == SOURCE
    if sends:
        replay_sources(plant, care, state)


@compiled_step
def restore(plant: ClusterArrays, care: FailureArrays, orders: Orders, state: State, r: int, t: int) -> None:
    """A crashed replica is back: from a living one, from its checkpoint, by replay from the sources, or with nothing."""
    k = plant.replicas
    i, j = r // k, r % k
    state.status[r] = UP
    state.noticed[r] = NEVER
    state.back[r] = NEVER
    state.away[r] = False
    state.counters[DOWN] -= 1
    state.ready[r] = t
    living = not state.active[r]  # an idle replica has no state to rebuild
    for other in range(k):
        if other != j and serves(state.active, state.status, state.ready, i * k + other, t):
            living = True
    if living or plant.scheme[i] == NONE:
        clear(plant, state, r)
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            state.since[j, e] = 0.0
        state.ready[r] = t + orders.resync
        note(state, t, RESTORED, i, j)
    else:
        rebuild(plant, care, state, r)
        note(state, t, REPLAYS, i, j)
    if state.active[r]:
        state.chores[r] += care.restart_cost


@compiled_step
def rebuild(plant: ClusterArrays, care: FailureArrays, state: State, r: int) -> None:
    """Begin to make a replica's state again from what the PE processed since its checkpoint, or from the sources."""
    i, j = r // plant.replicas, r % plant.replicas
    state.recovering[r] = True
    state.counters[REPLAYING] = 1
    if plant.scheme[i] == SOURCE:
        state.wanted[i] = True
        return
    state.chores[r] += care.load_tuple_cost * care.window * state.recent[i]
    for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
        u = plant.tail[e] - plant.sources
        again = outstanding(plant, state, u) if u >= 0 else 0.0
        waits = min(state.since[j, e], again)
        state.need[j, e] = waits
        state.skip[j, e] = again - waits if waits > 0 else 0.0  # upstream begins at its own checkpoint, which may be older
        state.replay[j, e] = state.since[j, e] - waits


@compiled_step
def outstanding(plant: ClusterArrays, state: State, u: int) -> float:
    """The tuples that a PE has yet to make again: what it replays, or will replay once it is back."""
    j = state.primary[u]
    if j < 0:
        j = 0
    r = u * plant.replicas + j
    total = 0.0
    for e in range(plant.first_edge[u], plant.first_edge[u + 1]):
        if state.status[r] == CRASHED:
            total += plant.selectivity[e] * state.since[j, e]
        else:
            total += plant.selectivity[e] * (state.replay[j, e] + state.need[j, e])
    return total


@compiled_step
def replay_sources(plant: ClusterArrays, care: FailureArrays, state: State) -> None:
    """The sources send the last window again, through everything upstream of the PEs that lost theirs (Storm, PPA section VI-A)."""
    for i in range(plant.pes - 1, -1, -1):
        if not state.wanted[i]:
            continue
        state.wanted[i] = False
        j = state.primary[i] if state.primary[i] >= 0 else 0
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            again = care.window * state.window_rate[plant.tail[e]]
            if plant.tail[e] < plant.sources:
                state.replay[j, e] = max(state.replay[j, e], again)
            else:
                state.need[j, e] = max(state.need[j, e], again)
                state.wanted[plant.tail[e] - plant.sources] = True


@compiled_step
def settle(plant: ClusterArrays, state: State, t: int) -> None:
    """End recoveries that have nothing left to replay, and waits for tuples that nobody makes again."""
    k, busy = plant.replicas, 0
    for i in range(plant.pes):
        for j in range(k):
            r = i * k + j
            left, waits = 0.0, 0.0
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                u = plant.tail[e] - plant.sources
                # Asked last: while a node is away for hours few wait, and handing the state over takes its time.
                if state.need[j, e] > 0 and u >= 0 and state.remade[plant.tail[e]] <= 0 and outstanding(plant, state, u) <= 1e-9:
                    state.need[j, e] = 0.0
                    state.skip[j, e] = 0.0
                if state.replay[j, e] < 1e-9:
                    state.replay[j, e] = 0.0
                left += state.replay[j, e]
                waits += state.need[j, e]
            if left + waits > 0 or state.status[r] == CRASHED:
                busy = 1
            elif state.recovering[r] and state.chores[r] <= 0 and state.span[r] == 0:
                state.recovering[r] = False
                note(state, t, RECOVERED, i, j)
            elif state.recovering[r]:
                busy = 1
    state.counters[REPLAYING] = busy
