"""The compiled step's control: the rate monitor's verdict, and replicas switched on and off (LAAR section 4.6)."""

from holdfast.compiled import compiled_step
from holdfast.simulate.recovery import rebuild, replay_sources
from holdfast.simulate.replicas import clear, copy, note, serves
from holdfast.simulate.state import (
    CONFIGURATION,
    CONFIGURED,
    LIGHTER,
    LIGHTER_COUNT,
    NEVER,
    NONE,
    PENDING,
    SOURCE,
    UP,
    ClusterArrays,
    FailureArrays,
    Flags,
    Floats,
    Ints,
    Orders,
    State,
    inlined,
)


@compiled_step
def choose(orders: Orders, state: State, measured: Floats, t: int) -> None:
    """The rate monitor's verdict: a heavier configuration is taken at once, a lighter one when it has lasted (LAAR section 4.6)."""
    best, best_short, best_far = 0, -1.0, 0.0
    for c in range(orders.rates.shape[0]):
        short, far = 0.0, 0.0
        for s in range(orders.rates.shape[1]):
            over = measured[s] / (1.0 + orders.tolerance) - orders.rates[c, s]
            short += max(0.0, over) ** 2
            far += (measured[s] - orders.rates[c, s]) ** 2
        if best_short < 0 or short < best_short or (short == best_short and far < best_far):
            best, best_short, best_far = c, short, far
    current = state.counters[CONFIGURATION]
    if best == current:
        state.counters[LIGHTER_COUNT] = 0
        return
    if current >= 0:
        exceeds = False
        for s in range(orders.rates.shape[1]):
            if measured[s] / (1.0 + orders.tolerance) > orders.rates[current, s]:
                exceeds = True
        if not exceeds:
            state.counters[LIGHTER_COUNT] = state.counters[LIGHTER_COUNT] + 1 if state.counters[LIGHTER] == best else 1
            state.counters[LIGHTER] = best
            if state.counters[LIGHTER_COUNT] < orders.steady:
                return
    state.counters[CONFIGURATION] = best
    state.counters[LIGHTER_COUNT] = 0
    note(state, t, CONFIGURED, best, 0)


@compiled_step
def command(plant: ClusterArrays, orders: Orders, state: State, t: int) -> None:
    """Send activations and deactivations for the configuration.

    Where the dead are replaced, one that stands in for all that the configuration wants stays.
    """
    k, c = plant.replicas, state.counters[CONFIGURATION]
    for i in range(plant.pes):
        lives = False
        for j in range(k):
            if orders.active[c, i, j]:
                lives = lives or state.status[i * k + j] == UP
        for j in range(k):
            r = i * k + j
            wants = orders.active[c, i, j]
            stays = orders.replace_dead and not lives and state.active[r]
            if wants != state.active[r] and not stays:
                state.switch_at[r] = t + orders.switch
                state.counters[PENDING] = 1
            else:
                state.switch_at[r] = NEVER


@compiled_step
def stand_in(plant: ClusterArrays, orders: Orders, state: State, t: int) -> None:
    """Activate a living replica of each PE whose active ones are all known to be dead; let it go when the strategy's work again."""
    k, c = plant.replicas, state.counters[CONFIGURATION]
    for i in range(plant.pes):
        lives, works = False, True
        for j in range(k):
            r = i * k + j
            if state.active[r]:
                lives = lives or state.status[r] == UP or state.noticed[r] == NEVER
            else:
                lives = lives or state.switch_at[r] != NEVER
            if orders.active[c, i, j]:
                works = works and serves(state.active, state.status, state.ready, r, t) and not state.recovering[r]
        for j in range(k):
            r = i * k + j
            if state.switch_at[r] != NEVER or state.status[r] != UP:
                continue
            if not lives and not state.active[r]:
                state.switch_at[r] = t + orders.replace
                state.counters[PENDING] = 1
                break
            if works and state.active[r] and not orders.active[c, i, j]:
                state.switch_at[r] = t
                state.counters[PENDING] = 1


@compiled_step
def turn_on(plant: ClusterArrays, care: FailureArrays, orders: Orders, state: State, t: int) -> None:
    """Activate the replicas whose commands have arrived."""
    sends = False
    for r in range(plant.pes * plant.replicas):
        if state.active[r] or state.switch_at[r] == NEVER or t < state.switch_at[r]:
            continue
        state.switch_at[r] = NEVER
        state.active[r] = True
        state.ready[r] = t + orders.resync
        inherit(plant, care, state, r, t)
        sends = sends or (state.recovering[r] and plant.scheme[r // plant.replicas] == SOURCE)
    if sends:
        replay_sources(plant, care, state)


@compiled_step
def synchronise(plant: ClusterArrays, state: State, t: int) -> None:
    """Replicas that have the primary's state from this step on get what waits there too, before anybody is let go."""
    k = plant.replicas
    for r in range(plant.pes * k):
        i, j = r // k, r % k
        p = state.primary[i]
        if t != state.ready[r] or t == 0 or not state.active[r] or state.recovering[r] or p < 0 or p == j:
            continue
        copy(plant, state, r, p)


@compiled_step
def turn_off(plant: ClusterArrays, state: State, t: int) -> None:
    """Let the replicas go whose commands have arrived, each when those of its PE that come have their state."""
    left = 0
    for r in range(plant.pes * plant.replicas):
        if state.switch_at[r] == NEVER:
            continue
        if t < state.switch_at[r] or awaits(plant.replicas, state.active, state.ready, r, t):
            left = 1
            continue
        state.switch_at[r] = NEVER
        state.active[r] = False
        clear(plant, state, r)
    state.counters[PENDING] = left


@inlined
def awaits(replicas: int, active: Flags, ready: Ints, r: int, t: int) -> bool:
    """Whether another active replica of the same PE has yet to get its state."""
    first, found = r - r % replicas, False
    for other in range(first, first + replicas):
        found = found or (other != r and active[other] and t < ready[other])
    return bool(found)


@compiled_step
def inherit(plant: ClusterArrays, care: FailureArrays, state: State, r: int, t: int) -> None:
    """A replica that is activated where no other works gets what is kept upstream for the dead primary, and rebuilds its state."""
    i, j = r // plant.replicas, r % plant.replicas
    p = state.primary[i]
    if plant.scheme[i] == NONE or p < 0 or p == j:
        return
    for other in range(plant.replicas):
        if other != j and serves(state.active, state.status, state.ready, i * plant.replicas + other, t):
            return
    copy(plant, state, r, p)
    for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
        state.since[j, e] = state.since[p, e]
    state.ready[r] = t
    rebuild(plant, care, state, r)
