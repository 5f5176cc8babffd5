"""What the compiled steps ask of single replicas and do to them, whatever the reason."""

from holdfast.compiled import compiled_step
from holdfast.simulate.state import EVENTS, UP, ClusterArrays, Flags, Ints, State, inlined


@compiled_step
def note(state: State, step: int, kind: int, pe: int, replica: int) -> None:
    """Write an event down; those beyond the room for them are only counted."""
    at = state.counters[EVENTS]
    if at < len(state.events):
        state.events[at, 0], state.events[at, 1], state.events[at, 2], state.events[at, 3] = step, kind, pe, replica
    state.counters[EVENTS] = at + 1


@inlined
def serves(active: Flags, status: Ints, ready: Ints, r: int, t: int) -> bool:
    """Whether a replica works: active, alive and with its state."""
    return bool(active[r] and status[r] == UP and t >= ready[r])


@inlined
def lives(replicas: int, primary: Ints, status: Ints, i: int) -> bool:
    """Whether a PE's primary is alive: while it is not, its rates and the size of its state are those of before."""
    p = primary[i]
    return bool(p >= 0 and status[i * replicas + p] == UP)


@compiled_step
def clear(plant: ClusterArrays, state: State, r: int) -> None:
    """Forget what waits in a replica's queues."""
    i, j = r // plant.replicas, r % plant.replicas
    for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
        state.cleared[j, e] += state.queue[j, e]
        state.queue[j, e] = 0.0
        state.replay[j, e] = 0.0
        state.need[j, e] = 0.0
        state.skip[j, e] = 0.0
        state.batch[j, e] = 0.0
        state.waiting[j, e] = 0.0
    state.span[r] = 0.0
    state.chores[r] = 0.0
    state.recovering[r] = False


@compiled_step
def copy(plant: ClusterArrays, state: State, r: int, p: int) -> None:
    """A replica whose queues are empty gets what waits at replica p of the same PE, the epochs of a job under way too."""
    i, j = r // plant.replicas, r % plant.replicas
    for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
        state.taken[j, e] += state.queue[p, e]
        state.queue[j, e] += state.queue[p, e]
        state.waiting[j, e] = state.waiting[p, e] + state.span[i * plant.replicas + p]
