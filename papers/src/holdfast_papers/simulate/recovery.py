"""Compiled: checkpoints, the detection of crashes, and the recovery of state.

A restored replica replays what the PE had processed since its checkpoint, or what the sources send again. It replays tuples
that are kept upstream at once (`replay`). Tuples that were lost upstream too must be produced there again first (`awaited`).
"""

from holdfast.compiled import compiled_step
from holdfast_papers.simulate.replicas import clear_queues, is_working, record_event
from holdfast_papers.simulate.state import (
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
    ControllerArrays,
    FailureArrays,
    State,
)


@compiled_step
def write_checkpoints(cluster: ClusterArrays, handling: FailureArrays, state: State, t: int) -> None:
    """Write the checkpoints that are due: they cost CPU time, and later replays start from them."""
    for i in range(cluster.pes):
        if cluster.scheme[i] != CHECKPOINT or (t + i * 7919) % handling.checkpoint_every != 0:
            continue
        for j in range(cluster.replicas):
            r = i * cluster.replicas + j
            if is_working(state.active, state.status, state.ready_step, r, t) and not state.recovering[r]:
                state.overhead[r] += (
                    handling.checkpoint_cost + handling.checkpoint_tuple_cost * handling.window * state.recent_input[i]
                )
                for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                    state.since_checkpoint[j, e] = 0.0


@compiled_step
def detect_and_restore(cluster: ClusterArrays, handling: FailureArrays, controller: ControllerArrays, state: State, t: int) -> None:
    """Detect crashes after the detection time, and restore the replicas that can return."""
    sends = False
    for r in range(cluster.pes * cluster.replicas):
        if state.status[r] == UP:
            continue
        i = r // cluster.replicas
        if state.notice_step[r] == NEVER and state.counters[CONTROL] == 1 and t >= state.stop_step[r] + handling.detect:
            state.notice_step[r] = t
            record_event(state, t, DETECTED, i, r % cluster.replicas)
        if state.status[r] == STALLED:
            continue
        restart_due = state.notice_step[r] != NEVER and t >= state.notice_step[r] + handling.restart
        again = cluster.scheme[i] != NONE and restart_due and not state.node_lost[r]
        if again or (state.return_step[r] != NEVER and t >= state.return_step[r]):
            restore_replica(cluster, handling, controller, state, r, t)
            sends = sends or cluster.scheme[i] == SOURCE
    if sends:
        replay_sources(cluster, handling, state)


@compiled_step
def restore_replica(
    cluster: ClusterArrays, handling: FailureArrays, controller: ControllerArrays, state: State, r: int, t: int
) -> None:
    """Bring a crashed replica back: from a live one, from its checkpoint, by replay from the sources, or without state."""
    k = cluster.replicas
    i, j = r // k, r % k
    state.status[r] = UP
    state.notice_step[r] = NEVER
    state.return_step[r] = NEVER
    state.node_lost[r] = False
    state.counters[DOWN] -= 1
    state.ready_step[r] = t
    needs_no_replay = not state.active[r]  # an idle replica has no state to rebuild
    for other in range(k):
        if other != j and is_working(state.active, state.status, state.ready_step, i * k + other, t):
            needs_no_replay = True
    if needs_no_replay or cluster.scheme[i] == NONE:
        clear_queues(cluster, state, r)
        for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
            state.since_checkpoint[j, e] = 0.0
        state.ready_step[r] = t + controller.resync
        record_event(state, t, RESTORED, i, j)
    else:
        start_rebuild(cluster, handling, state, r)
        record_event(state, t, REPLAYS, i, j)
    if state.active[r]:
        state.overhead[r] += handling.restart_cost


@compiled_step
def start_rebuild(cluster: ClusterArrays, handling: FailureArrays, state: State, r: int) -> None:
    """Start to rebuild a replica's state from what the PE processed since its checkpoint, or from the sources."""
    i, j = r // cluster.replicas, r % cluster.replicas
    state.recovering[r] = True
    state.counters[REPLAYING] = 1
    if cluster.scheme[i] == SOURCE:
        state.needs_replay[i] = True
        return
    state.overhead[r] += handling.load_tuple_cost * handling.window * state.recent_input[i]
    for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
        u = cluster.tail[e] - cluster.sources
        again = tuples_to_replay(cluster, state, u) if u >= 0 else 0.0
        waits = min(state.since_checkpoint[j, e], again)
        state.awaited[j, e] = waits
        state.skip[j, e] = again - waits if waits > 0 else 0.0  # upstream replays from its own checkpoint, which may be older
        state.replay[j, e] = state.since_checkpoint[j, e] - waits


@compiled_step
def tuples_to_replay(cluster: ClusterArrays, state: State, u: int) -> float:
    """Return the tuples that a PE has yet to produce again: what it replays, or will replay when it is restored."""
    j = state.primary[u]
    if j < 0:
        j = 0
    r = u * cluster.replicas + j
    total = 0.0
    for e in range(cluster.first_edge[u], cluster.first_edge[u + 1]):
        if state.status[r] == CRASHED:
            total += cluster.selectivity[e] * state.since_checkpoint[j, e]
        else:
            total += cluster.selectivity[e] * (state.replay[j, e] + state.awaited[j, e])
    return total


@compiled_step
def replay_sources(cluster: ClusterArrays, handling: FailureArrays, state: State) -> None:
    """Let the sources send the last window again, through all PEs upstream of those that lost state (Storm, PPA section VI-A)."""
    for i in range(cluster.pes - 1, -1, -1):
        if not state.needs_replay[i]:
            continue
        state.needs_replay[i] = False
        j = state.primary[i] if state.primary[i] >= 0 else 0
        for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
            again = handling.window * state.window_rate[cluster.tail[e]]
            if cluster.tail[e] < cluster.sources:
                state.replay[j, e] = max(state.replay[j, e], again)
            else:
                state.awaited[j, e] = max(state.awaited[j, e], again)
                state.needs_replay[cluster.tail[e] - cluster.sources] = True


@compiled_step
def finish_recoveries(cluster: ClusterArrays, state: State, t: int) -> None:
    """End recoveries that have replayed everything, and stop waiting for tuples that no PE will produce again."""
    k, busy = cluster.replicas, 0
    for i in range(cluster.pes):
        for j in range(k):
            r = i * k + j
            replay, waits = 0.0, 0.0
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                u = cluster.tail[e] - cluster.sources
                waits_for_pe = state.awaited[j, e] > 0 and u >= 0 and state.replay_output[cluster.tail[e]] <= 0
                # The call comes last: passing the whole state is slow, and few replicas wait.
                if waits_for_pe and tuples_to_replay(cluster, state, u) <= 1e-9:
                    state.awaited[j, e] = 0.0
                    state.skip[j, e] = 0.0
                if state.replay[j, e] < 1e-9:
                    state.replay[j, e] = 0.0
                replay += state.replay[j, e]
                waits += state.awaited[j, e]
            if replay + waits > 0 or state.status[r] == CRASHED:
                busy = 1
            elif state.recovering[r] and state.overhead[r] <= 0 and state.job_epochs[r] == 0:
                state.recovering[r] = False
                record_event(state, t, RECOVERED, i, j)
            elif state.recovering[r]:
                busy = 1
    state.counters[REPLAYING] = busy
