"""The compiled step's control: the rate monitor's verdict, and replicas switched on and off (LAAR section 4.6)."""

from holdfast.compiled import compiled
from holdfast.simulate.recovery import rebuild, replay_sources
from holdfast.simulate.replicas import clear, note, serves
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
    Care,
    Floats,
    Orders,
    Plant,
    State,
)


@compiled
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


@compiled
def command(plant: Plant, orders: Orders, state: State, t: int) -> None:
    """Send activations and deactivations for the configuration; a replica goes only when the one that comes has its state.

    Where the dead are replaced, one that stands in for all that the configuration wants stays.
    """
    k, c = plant.replicas, state.counters[CONFIGURATION]
    for i in range(plant.pes):
        comes, lives = False, False
        for j in range(k):
            if orders.active[c, i, j]:
                comes = comes or not state.active[i * k + j]
                lives = lives or state.status[i * k + j] == UP
        for j in range(k):
            r = i * k + j
            wants = orders.active[c, i, j]
            stays = orders.replace_dead and not lives and state.active[r] and state.status[r] == UP
            if wants != state.active[r] and not stays:
                state.switch_at[r] = t + orders.switch + (orders.resync if comes and not wants else 0)
                state.counters[PENDING] = 1
            else:
                state.switch_at[r] = NEVER


@compiled
def stand_in(plant: Plant, orders: Orders, state: State, t: int) -> None:
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
                works = works and serves(state, r, t) and not state.recovering[r]
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


@compiled
def switch(plant: Plant, care: Care, orders: Orders, state: State, t: int) -> None:
    """Turn the replicas whose commands have arrived on or off."""
    left, sends = 0, False
    for r in range(plant.pes * plant.replicas):
        if state.switch_at[r] == NEVER:
            continue
        if t < state.switch_at[r]:
            left = 1
            continue
        state.switch_at[r] = NEVER
        state.active[r] = not state.active[r]
        if state.active[r]:
            state.ready[r] = t + orders.resync
            inherit(plant, care, state, r, t)
            sends = sends or (state.recovering[r] and plant.scheme[r // plant.replicas] == SOURCE)
        else:
            clear(plant, state, r)
    if sends:
        replay_sources(plant, care, state)
    state.counters[PENDING] = left


@compiled
def inherit(plant: Plant, care: Care, state: State, r: int, t: int) -> None:
    """A replica that is activated where no other works gets what is kept upstream for the dead primary, and rebuilds its state."""
    i, j = r // plant.replicas, r % plant.replicas
    p = state.primary[i]
    if plant.scheme[i] == NONE or p < 0 or p == j:
        return
    for other in range(plant.replicas):
        if other != j and serves(state, i * plant.replicas + other, t):
            return
    for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
        state.taken[j, e] += state.queue[p, e]
        state.queue[j, e] += state.queue[p, e]
        state.cleared[p, e] += state.queue[p, e]
        state.queue[p, e] = 0.0
        state.waiting[j, e] = state.waiting[p, e]
        state.waiting[p, e] = 0.0
        state.since[j, e] = state.since[p, e]
        state.since[p, e] = 0.0
    state.ready[r] = t
    rebuild(plant, care, state, r)
