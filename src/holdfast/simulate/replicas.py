"""What the compiled steps ask of single replicas and do to them, whatever the reason."""

from holdfast.compiled import compiled
from holdfast.simulate.state import EVENTS, UP, Plant, State, inlined


@compiled
def note(state: State, step: int, kind: int, pe: int, replica: int) -> None:
    """Write an event down; those beyond the room for them are only counted."""
    at = state.counters[EVENTS]
    if at < len(state.events):
        state.events[at, 0], state.events[at, 1], state.events[at, 2], state.events[at, 3] = step, kind, pe, replica
    state.counters[EVENTS] = at + 1


@inlined
def serves(state: State, r: int, t: int) -> bool:
    """Whether a replica works: active, alive and with its state."""
    return bool(state.active[r] and state.status[r] == UP and t >= state.ready[r])


@compiled
def clear(plant: Plant, state: State, r: int) -> None:
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
