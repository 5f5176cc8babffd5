"""The compiled half of a step that is about lives: faults, detection, recovery, and replicas switched on and off."""

from holdfast.compiled import compiled
from holdfast.simulate.state import (
    AWAY,
    CHECKPOINT,
    CONFIGURATION,
    CONFIGURED,
    CONTROL,
    CONTROL_DOWN,
    CONTROL_UP,
    CRASH,
    CRASHED,
    DETECTED,
    DOWN,
    EVENTS,
    FAULT,
    FREE,
    HOG,
    LIGHTER,
    LIGHTER_COUNT,
    NEVER,
    NONE,
    PENDING,
    RECOVERED,
    REPLAYING,
    RESTORED,
    RESUME,
    SLOW,
    SOURCE,
    STALL,
    STALLED,
    STEADY,
    TAKEN_OVER,
    UP,
    Care,
    Floats,
    Orders,
    Plant,
    State,
    Troubles,
    inlined,
)


@compiled
def note(state: State, step: int, kind: int, pe: int, replica: int) -> None:
    """Write an event down; those beyond the room for them are only counted."""
    at = state.counters[EVENTS]
    if at < len(state.events):
        state.events[at, 0], state.events[at, 1], state.events[at, 2], state.events[at, 3] = step, kind, pe, replica
    state.counters[EVENTS] = at + 1


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


@inlined
def serves(state: State, r: int, t: int) -> bool:
    """Whether a replica works: active, alive and with its state."""
    return bool(state.active[r] and state.status[r] == UP and t >= state.ready[r])


@compiled
def strike(plant: Plant, state: State, troubles: Troubles, at: int, t: int) -> None:
    """One fault."""
    kind, r = troubles.kind[at], troubles.replica[at]
    if kind == CONTROL_DOWN:
        state.counters[CONTROL] = 0
        return
    if kind == CONTROL_UP:
        state.counters[CONTROL] = 1
        return
    if kind == HOG:
        state.hogged[r] += int(troubles.share[at])
        return
    if kind == FREE:
        state.hogged[r] -= int(troubles.share[at])
        return
    if kind in (SLOW, STEADY):
        state.limit[r] = troubles.share[at]
        return
    if kind == STALL:
        if state.status[r] == UP:
            state.status[r] = STALLED
            state.stopped[r] = t
            state.noticed[r] = NEVER
            state.counters[DOWN] += 1
        return
    if kind == RESUME:
        if state.status[r] == STALLED:
            state.status[r] = UP
            state.noticed[r] = NEVER
            state.counters[DOWN] -= 1
        return
    if kind in (CRASH, AWAY):
        i, j = r // plant.replicas, r % plant.replicas
        # A crash is made good by a restart, unless nothing is; only the host's return is waited for.
        restarts, waited = plant.scheme[i] != NONE, plant.scheme[i] == NONE or state.away[r]
        state.away[r] = state.away[r] or kind == AWAY
        if state.status[r] == CRASHED:
            if kind == CRASH and restarts:
                return
            # Two reasons to be gone: it is back when neither is left.
            last = max(state.back[r], troubles.back[at]) if state.back[r] != NEVER and troubles.back[at] != NEVER else NEVER
            state.back[r] = last if waited else troubles.back[at]
            return
        if state.status[r] == UP:
            state.counters[DOWN] += 1
        state.status[r] = CRASHED
        state.stopped[r] = t
        state.noticed[r] = NEVER
        state.back[r] = troubles.back[at]
        state.chores[r] = 0.0
        state.recovering[r] = False
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            state.replay[j, e] = 0.0
            state.need[j, e] = 0.0
            state.skip[j, e] = 0.0
            state.batch[j, e] = 0.0
            state.waiting[j, e] += state.span[r]
            if plant.scheme[i] == NONE:
                state.cleared[j, e] += state.queue[j, e]
                state.queue[j, e] = 0.0
                state.waiting[j, e] = 0.0
        state.span[r] = 0.0
        note(state, t, FAULT, i, j)


@compiled
def outstanding(plant: Plant, state: State, u: int) -> float:
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


@compiled
def restore(plant: Plant, care: Care, orders: Orders, state: State, r: int, t: int) -> None:
    """A crashed replica is back: from a living one, from its checkpoint, by replay from the sources, or with nothing."""
    k = plant.replicas
    i, j = r // k, r % k
    state.status[r] = UP
    state.noticed[r] = NEVER
    state.back[r] = NEVER
    state.away[r] = False
    state.counters[DOWN] -= 1
    state.ready[r] = t
    note(state, t, RESTORED, i, j)
    living = not state.active[r]  # an idle replica has no state to rebuild
    for other in range(k):
        if other != j and serves(state, i * k + other, t):
            living = True
    if living or plant.scheme[i] == NONE:
        clear(plant, state, r)
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            state.since[j, e] = 0.0
        state.ready[r] = t + orders.resync
        return
    rebuild(plant, care, state, r)


@compiled
def rebuild(plant: Plant, care: Care, state: State, r: int) -> None:
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


@compiled
def replay_sources(plant: Plant, care: Care, state: State) -> None:
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


@compiled
def recover(plant: Plant, care: Care, orders: Orders, state: State, t: int) -> None:
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
def elect(plant: Plant, care: Care, state: State, t: int) -> None:
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
            if chosen < 0 and serves(state, i * k + j, t) and not state.recovering[i * k + j]:
                chosen = j
        if chosen < 0:
            if p >= 0 and serves(state, r, t):
                continue
            for j in range(k):
                if chosen < 0 and serves(state, i * k + j, t):
                    chosen = j
            # What is kept upstream for a dead primary waits for it.
            if chosen < 0 and p >= 0 and state.active[r] and not (dead and plant.scheme[i] == NONE):
                continue
        if chosen == p:
            continue
        state.primary[i] = chosen
        if dead and chosen >= 0 and not state.recovering[i * k + chosen]:
            begins = t
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                if plant.tail[e] >= plant.sources:
                    begins = max(begins, state.holds_until[plant.tail[e] - plant.sources])
            buffered = state.window_rate[plant.sources + i] * (t % care.sync if care.sync > 0 else 0)
            state.holds_until[i] = begins + care.takeover + int(care.resend * buffered)
            note(state, state.holds_until[i], TAKEN_OVER, i, chosen)


@compiled
def settle(plant: Plant, state: State, t: int) -> None:
    """End recoveries that have nothing left to replay, and waits for tuples that nobody makes again."""
    k, busy = plant.replicas, 0
    for i in range(plant.pes):
        for j in range(k):
            r = i * k + j
            left, waits = 0.0, 0.0
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                u = plant.tail[e] - plant.sources
                # Asked last: while a host is away for hours few wait, and handing the state over takes its time.
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


@compiled
def checkpoint(plant: Plant, care: Care, state: State, t: int) -> None:
    """Replicas whose turn it is write their state: CPU time due, and nothing left to replay from before."""
    for i in range(plant.pes):
        if plant.scheme[i] != CHECKPOINT or (t + i * 7919) % care.checkpoint_every != 0:
            continue
        for j in range(plant.replicas):
            r = i * plant.replicas + j
            if serves(state, r, t) and not state.recovering[r]:
                state.chores[r] += care.checkpoint_cost + care.checkpoint_tuple_cost * care.window * state.recent[i]
                for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                    state.since[j, e] = 0.0
