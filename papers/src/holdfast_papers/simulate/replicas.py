"""Compiled functions on single replicas, shared by the other parts of the step."""

from holdfast.compiled import compiled_step
from holdfast_papers.simulate.state import EVENTS, UP, ClusterArrays, Flags, Ints, State, inlined


@compiled_step
def record_event(state: State, step: int, kind: int, pe: int, replica: int) -> None:
    """Append an event. If the table is full, only count it."""
    at = state.counters[EVENTS]
    if at < len(state.events):
        state.events[at, 0], state.events[at, 1], state.events[at, 2], state.events[at, 3] = step, kind, pe, replica
    state.counters[EVENTS] = at + 1


@inlined
def is_working(active: Flags, status: Ints, ready: Ints, r: int, t: int) -> bool:
    """Return whether a replica is active and alive and has its state."""
    return bool(active[r] and status[r] == UP and t >= ready[r])


@inlined
def has_live_primary(replicas: int, primary: Ints, status: Ints, i: int) -> bool:
    """Return whether a PE's primary is alive. While it is not, the PE's smoothed rates keep their last values."""
    p = primary[i]
    return bool(p >= 0 and status[i * replicas + p] == UP)


@compiled_step
def clear_queues(cluster: ClusterArrays, state: State, r: int) -> None:
    """Empty a replica's queues and cancel its job, replay and recovery."""
    i, j = r // cluster.replicas, r % cluster.replicas
    for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
        state.cleared[j, e] += state.queue[j, e]
        state.queue[j, e] = 0.0
        state.replay[j, e] = 0.0
        state.awaited[j, e] = 0.0
        state.skip[j, e] = 0.0
        state.batch[j, e] = 0.0
        state.waiting[j, e] = 0.0
    state.job_epochs[r] = 0.0
    state.overhead[r] = 0.0
    state.recovering[r] = False


@compiled_step
def copy_queues(cluster: ClusterArrays, state: State, r: int, p: int) -> None:
    """Copy the queues of replica p of the same PE, including the epochs of its running job, to a replica with empty queues."""
    i, j = r // cluster.replicas, r % cluster.replicas
    for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
        state.taken[j, e] += state.queue[p, e]
        state.queue[j, e] += state.queue[p, e]
        state.waiting[j, e] = state.waiting[p, e] + state.job_epochs[i * cluster.replicas + p]
