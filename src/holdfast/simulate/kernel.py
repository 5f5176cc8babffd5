"""The compiled step: tuples arrive, nodes share their CPU time, replicas work, primaries' output goes on.

A step's output arrives downstream one step later. Tuples are divisible: a replica that gets half the CPU time it asks for handles
half of what waits. Where PEs go by the epoch, as `holdfast run` has them, what waits is a job: all epochs that every input has
brought, whose output leaves when all of it is done.
"""

import numpy as np

from holdfast.compiled import compiled, compiled_step
from holdfast.simulate.activation import choose, command, stand_in, synchronise, turn_off, turn_on
from holdfast.simulate.fault_effects import strike
from holdfast.simulate.recovery import checkpoint, recover, settle
from holdfast.simulate.replicas import lives, serves
from holdfast.simulate.state import (
    CONFIGURATION,
    CONTROL,
    CRASHED,
    DOWN,
    NONE,
    PENDING,
    REPLAYING,
    UP,
    ClusterArrays,
    FailureArrays,
    FaultTimeline,
    Floats,
    Ledger,
    Orders,
    State,
)
from holdfast.simulate.takeover import elect

SMOOTHING_STEPS = 100


@compiled_step
def accept(plant: ClusterArrays, state: State, t: int, ledger: Ledger, at: int) -> None:
    """What was put out in the last step joins the queues; a full queue drops it (LAAR section 5.2)."""
    k = plant.replicas
    for i in range(plant.pes):
        p = state.primary[i]
        coming, kept = 0.0, 0.0
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            came, epochs = state.emitted[plant.tail[e]], state.ended[plant.tail[e]]
            coming += came
            state.reached[e] += came
            state.closed[e] += epochs
            ledger.waited[at, i] += state.queue[p, e] if p >= 0 else 0.0
            for j in range(k):
                r = i * k + j
                if not state.active[r]:
                    continue
                if state.status[r] == CRASHED or t < state.ready[r]:
                    state.taken[j, e] += came
                    if plant.scheme[i] == NONE or t < state.ready[r]:
                        state.cleared[j, e] += came
                    else:
                        state.queue[j, e] += came  # upstream keeps it
                        state.waiting[j, e] += epochs
                        kept += came if j == max(p, 0) else 0.0
                    continue
                room = came if plant.scheme[i] != NONE else max(0.0, plant.room[e] - state.queue[j, e])
                taken = min(came, room)
                state.taken[j, e] += came
                state.queue[j, e] += taken
                state.waiting[j, e] += epochs
                state.dropped[j, e] += came - taken
                if j == p and state.status[r] != CRASHED:
                    kept += taken
        ledger.arrived[at, i] += coming
        ledger.missed[at, i] += max(0.0, coming - kept)
        if lives(plant.replicas, state.primary, state.status, i):
            state.recent[i] += (coming - state.recent[i]) / SMOOTHING_STEPS


@compiled_step
def resend(plant: ClusterArrays, state: State) -> None:
    """What was made again reaches those who wait for it."""
    for i in range(plant.pes):
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            again = state.regenerated[plant.tail[e]]
            if again > 0:
                for j in range(plant.replicas):
                    known = min(again, state.skip[j, e])
                    state.skip[j, e] -= known
                    moved = min(again - known, state.need[j, e])
                    state.need[j, e] -= moved
                    state.replay[j, e] += moved


@compiled_step
def begin(plant: ClusterArrays, state: State, t: int) -> None:
    """Replicas that have no job take one: all epochs that every input has brought, and what there is to replay."""
    k = plant.replicas
    for i in range(plant.pes):
        for j in range(k):
            r = i * k + j
            if state.span[r] > 0 or not serves(state.active, state.status, state.ready, r, t):
                continue
            epochs, lacks = np.inf, 0.0
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                epochs = min(epochs, state.waiting[j, e])
                lacks += state.need[j, e]
            if epochs < 0.5 or (state.recovering[r] and lacks > 0):
                continue
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                state.batch[j, e] = state.queue[j, e] * min(1.0, epochs / state.waiting[j, e])
                state.waiting[j, e] -= epochs
            state.span[r] = epochs
            state.chores[r] += plant.job_cost[i]


@compiled_step
def share(plant: ClusterArrays, state: State, t: int) -> None:
    """Each node's CPU time among its replicas, max-min fair: none gets more than it asks for while another lacks its even share."""
    due = state.batch if plant.by_epoch else state.queue
    for h in range(len(plant.capacity)):
        first, end = plant.first_on_node[h], plant.first_on_node[h + 1]
        total = 0.0
        for n in range(first, end):
            r = plant.on_node[n]
            state.granted[r] = 0.0
            if not serves(state.active, state.status, state.ready, r, t):
                continue
            i, j = r // plant.replicas, r % plant.replicas
            asks = state.chores[r]
            waits = state.recovering[r] and not plant.by_epoch
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                asks += plant.cost[e] * (state.replay[j, e] + (0.0 if waits else due[j, e]))
            state.granted[r] = min(asks, state.limit[r])
            total += state.granted[r]
        others = state.hogged[h]  # they take all they can get
        if total <= plant.capacity[h] and others == 0:
            continue
        even = plant.capacity[h] / (end - first + others)
        while True:  # those who ask for less than the even share leave the rest more
            left, greedy = plant.capacity[h], others
            for n in range(first, end):
                asks = state.granted[plant.on_node[n]]
                if asks <= even:
                    left -= asks
                else:
                    greedy += 1
            if greedy == 0 or left <= even * greedy * (1 + 1e-12):
                break
            even = left / greedy
        for n in range(first, end):
            r = plant.on_node[n]
            state.granted[r] = min(state.granted[r], even)


@compiled_step
def work(plant: ClusterArrays, state: State, t: int, ledger: Ledger, at: int) -> None:
    """Replicas use what they were granted. The primary's output goes on; that of one which stands in for a primary whose death is
    not yet known is held back until it takes over, and lost where outputs are not kept."""
    k = plant.replicas
    due = state.batch if plant.by_epoch else state.queue
    for i in range(plant.pes):
        p = state.primary[i]
        gone = p >= 0 and state.status[i * k + p] != UP
        worker = p
        if gone and plant.scheme[i] != NONE:
            for j in range(k - 1, -1, -1):
                if j != p and serves(state.active, state.status, state.ready, i * k + j, t) and not state.recovering[i * k + j]:
                    worker = j
        stream = plant.sources + i
        for j in range(k):
            r = i * k + j
            if state.granted[r] <= 0:
                continue
            budget = state.granted[r]
            state.cpu[r] += budget
            done = min(budget, state.chores[r])
            state.chores[r] -= done
            if state.chores[r] < 1e-12:
                state.chores[r] = 0.0
            budget -= done
            waiting = 0.0
            waits = state.recovering[r] and not plant.by_epoch
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                waiting += plant.cost[e] * (state.replay[j, e] + (0.0 if waits else due[j, e]))
            part = 1.0 if budget >= waiting * (1 - 1e-12) else budget / waiting
            # A job's output leaves when all of it is done.
            leaves = not plant.by_epoch or (part == 1.0 and state.chores[r] == 0 and state.span[r] > 0)
            out, again, processed, epochs = 0.0, 0.0, 0.0, np.inf
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                if state.replay[j, e] > 0:
                    handled = state.replay[j, e] * part
                    state.replay[j, e] -= handled
                    state.replayed[j, e] += handled
                    again += plant.selectivity[e] * handled
                handled = 0.0 if waits else due[j, e] * part
                state.queue[j, e] -= handled
                if plant.by_epoch:
                    state.batch[j, e] -= handled
                state.worked[j, e] += handled
                state.since[j, e] += handled
                if j == worker and leaves:
                    # What another replica had put out before is a duplicate. What it had not, though this one was past it, is
                    # sent from the outputs that are kept; where none are, it is lost.
                    fresh = max(0.0, state.reached[e] - state.queue[j, e] - state.done[e])
                    if plant.scheme[i] == NONE:
                        fresh = min(fresh, handled)
                    state.done[e] = max(state.done[e], state.reached[e] - state.queue[j, e])
                    processed += fresh
                    out += plant.selectivity[e] * fresh
                    epochs = min(epochs, state.closed[e] - state.waiting[j, e])
            if j == worker:
                ledger.processed[at, i] += processed
                state.remade[stream] += again
                state.held[i] += out
                if leaves and plant.by_epoch:
                    state.held_epochs[i] += max(0.0, epochs - state.published[stream])
                    state.published[stream] = max(state.published[stream], epochs)
            if leaves:
                state.span[r] = 0.0
        if worker >= 0 and worker == p and not gone and t >= state.holds_until[i]:
            state.made[stream] += state.held[i]
            state.ended[stream] += state.held_epochs[i]
            state.held[i] = 0.0
            state.held_epochs[i] = 0.0
        ledger.output[at, i] += state.made[stream]


@compiled_step
def grant_free(plant: ClusterArrays, state: State, t: int) -> None:
    """Replicas that have only tuples or epochs which cost nothing work too: they are granted next to nothing."""
    for r in range(plant.pes * plant.replicas):
        if state.granted[r] <= 0 and serves(state.active, state.status, state.ready, r, t):
            if state.span[r] > 0:
                state.granted[r] = 1e-300
            i, j = r // plant.replicas, r % plant.replicas
            for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
                if plant.cost[e] == 0 and state.queue[j, e] + state.replay[j, e] > 0:
                    state.granted[r] = 1e-300


@compiled_step
def close(plant: ClusterArrays, state: State, ledger: Ledger, at: int) -> None:
    """Write down what an interval leaves: the sums over replicas so far, and what waits."""
    k = plant.replicas
    for i in range(plant.pes):
        for e in range(plant.first_edge[i], plant.first_edge[i + 1]):
            for j in range(k):
                ledger.taken[at, i] += state.taken[j, e]
                ledger.worked[at, i] += state.worked[j, e]
                ledger.dropped[at, i] += state.dropped[j, e]
                ledger.cleared[at, i] += state.cleared[j, e]
                ledger.queued[at, i] += state.queue[j, e]
    ledger.configuration[at] = state.counters[CONFIGURATION]


@compiled
def play(
    plant: ClusterArrays,
    orders: Orders,
    care: FailureArrays,
    troubles: FaultTimeline,
    state: State,
    ledger: Ledger,
    arrivals: Floats,
    per_interval: int,
) -> None:
    """Run all steps; `arrivals[step, source]` are tuples. The state and the ledger hold the outcome."""
    steps, next_fault = arrivals.shape[0], 0
    checkpoints = care.checkpoint_every > 0 and (plant.scheme == 1).any()
    free = plant.by_epoch or (plant.cost == 0).any()
    measured = state.window_rate[: plant.sources] * 0.0
    for t in range(steps):
        at = t // per_interval
        while next_fault < len(troubles.step) and troubles.step[next_fault] <= t:
            strike(plant, state, troubles, next_fault, t)
            next_fault += 1
        if state.counters[DOWN] > 0:
            recover(plant, care, orders, state, t)
        if orders.replace_dead and state.counters[CONTROL] == 1 and (state.counters[DOWN] > 0 or (t + 1) % orders.every == 0):
            stand_in(plant, orders, state, t)
        for s in range(plant.sources):
            state.emitted[s] = arrivals[t, s]
            state.ended[s] = 1.0 if plant.by_epoch and (t + 1) % plant.epoch == 0 else 0.0
            measured[s] += arrivals[t, s]
        if (t + 1) % orders.every == 0:
            before = state.counters[CONFIGURATION]
            if state.counters[CONTROL] == 1 and orders.rates.shape[0] > 1:
                for s in range(plant.sources):
                    measured[s] /= orders.every
                choose(orders, state, measured, t)
                if state.counters[CONFIGURATION] != before:
                    command(plant, orders, state, t)
            measured[:] = 0.0
        if state.counters[PENDING] > 0:
            turn_on(plant, care, orders, state, t)
        synchronise(plant, state, t)
        if state.counters[PENDING] > 0:
            turn_off(plant, state, t)
        elect(plant, care, state, t)
        for s in range(len(state.emitted)):
            if s < plant.sources or lives(plant.replicas, state.primary, state.status, s - plant.sources):
                state.window_rate[s] += (state.emitted[s] - state.window_rate[s]) / SMOOTHING_STEPS
        accept(plant, state, t, ledger, at)
        if state.counters[REPLAYING] > 0:
            resend(plant, state)
        if checkpoints:
            checkpoint(plant, care, state, t)
        if plant.by_epoch:
            begin(plant, state, t)
        share(plant, state, t)
        if free:
            grant_free(plant, state, t)
        for h in range(len(plant.capacity)):
            for n in range(plant.first_on_node[h], plant.first_on_node[h + 1]):
                ledger.cpu[at, h] += state.granted[plant.on_node[n]]
        for s in range(plant.sources, len(state.made)):
            state.made[s] = 0.0
            state.remade[s] = 0.0
            state.ended[s] = 0.0
        work(plant, state, t, ledger, at)
        if state.counters[REPLAYING] > 0:
            settle(plant, state, t)
        for s in range(plant.sources, len(state.made)):
            state.emitted[s] = state.made[s]
            state.regenerated[s] = state.remade[s]
        if (t + 1) % per_interval == 0 or t == steps - 1:
            close(plant, state, ledger, at)
