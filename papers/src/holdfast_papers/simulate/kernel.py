"""The compiled time step of the cluster simulator. `run_steps` is the loop; the other functions are its phases.

In each step tuples arrive, nodes share their CPU time among replicas, replicas process tuples, and the output of primaries is
emitted. It arrives downstream one step later. Tuples are divisible: a replica with half the CPU time that it needs processes
half of its queue. With epochs, a replica processes jobs: all epochs that are complete on every input. A job's output leaves
when the whole job is done.
"""

import numpy as np

from holdfast.compiled import compiled, compiled_step
from holdfast_papers.simulate.activation import (
    activate_replicas,
    deactivate_replicas,
    follow_rates,
    replace_dead_replicas,
    send_commands,
    synchronise_replicas,
)
from holdfast_papers.simulate.fault_effects import inject_fault
from holdfast_papers.simulate.recovery import detect_and_restore, finish_recoveries, write_checkpoints
from holdfast_papers.simulate.replicas import has_live_primary, is_working
from holdfast_papers.simulate.state import (
    CONFIGURATION,
    CONTROL,
    CRASHED,
    DOWN,
    NONE,
    PENDING,
    REPLAYING,
    UP,
    ClusterArrays,
    ControllerArrays,
    FailureArrays,
    FaultTimeline,
    Floats,
    Ledger,
    State,
)
from holdfast_papers.simulate.takeover import elect_primaries

SMOOTHING_STEPS = 100


@compiled_step
def enqueue_arrivals(cluster: ClusterArrays, state: State, t: int, ledger: Ledger, at: int) -> None:
    """Append the tuples emitted in the last step to the queues. A full queue drops them (LAAR section 5.2)."""
    k = cluster.replicas
    for i in range(cluster.pes):
        p = state.primary[i]
        arrivals, accepted = 0.0, 0.0
        for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
            new_tuples, epochs = state.emitted[cluster.tail[e]], state.ended[cluster.tail[e]]
            arrivals += new_tuples
            state.reached[e] += new_tuples
            state.closed[e] += epochs
            ledger.waited[at, i] += state.queue[p, e] if p >= 0 else 0.0
            for j in range(k):
                r = i * k + j
                if not state.active[r]:
                    continue
                if state.status[r] == CRASHED or t < state.ready_step[r]:
                    state.taken[j, e] += new_tuples
                    if cluster.scheme[i] == NONE or t < state.ready_step[r]:
                        state.cleared[j, e] += new_tuples
                    else:
                        state.queue[j, e] += new_tuples  # upstream keeps it for the replica
                        state.waiting[j, e] += epochs
                        accepted += new_tuples if j == max(p, 0) else 0.0
                    continue
                room = new_tuples if cluster.scheme[i] != NONE else max(0.0, cluster.room[e] - state.queue[j, e])
                room_taken = min(new_tuples, room)
                state.taken[j, e] += new_tuples
                state.queue[j, e] += room_taken
                state.waiting[j, e] += epochs
                state.dropped[j, e] += new_tuples - room_taken
                if j == p and state.status[r] != CRASHED:
                    accepted += room_taken
        ledger.arrived[at, i] += arrivals
        ledger.missed[at, i] += max(0.0, arrivals - accepted)
        if has_live_primary(cluster.replicas, state.primary, state.status, i):
            state.recent_input[i] += (arrivals - state.recent_input[i]) / SMOOTHING_STEPS


@compiled_step
def deliver_replays(cluster: ClusterArrays, state: State) -> None:
    """Pass replayed tuples to the replicas that wait for them."""
    for i in range(cluster.pes):
        for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
            again = state.replay_emitted[cluster.tail[e]]
            if again > 0:
                for j in range(cluster.replicas):
                    skipped = min(again, state.skip[j, e])
                    state.skip[j, e] -= skipped
                    moved = min(again - skipped, state.awaited[j, e])
                    state.awaited[j, e] -= moved
                    state.replay[j, e] += moved


@compiled_step
def start_jobs(cluster: ClusterArrays, state: State, t: int) -> None:
    """Start a job on each idle replica: all epochs that are complete on every input, and all tuples to replay."""
    k = cluster.replicas
    for i in range(cluster.pes):
        for j in range(k):
            r = i * k + j
            if state.job_epochs[r] > 0 or not is_working(state.active, state.status, state.ready_step, r, t):
                continue
            epochs, lacks = np.inf, 0.0
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                epochs = min(epochs, state.waiting[j, e])
                lacks += state.awaited[j, e]
            if epochs < 0.5 or (state.recovering[r] and lacks > 0):
                continue
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                state.batch[j, e] = state.queue[j, e] * min(1.0, epochs / state.waiting[j, e])
                state.waiting[j, e] -= epochs
            state.job_epochs[r] = epochs
            state.overhead[r] += cluster.job_cost[i]


@compiled_step
def share_cpu(cluster: ClusterArrays, state: State, t: int) -> None:
    """Divide each node's CPU time among its replicas by max-min fairness: none exceeds an even share while others need theirs."""
    due = state.batch if cluster.by_epoch else state.queue
    for h in range(len(cluster.capacity)):
        first, end = cluster.first_on_node[h], cluster.first_on_node[h + 1]
        total = 0.0
        for n in range(first, end):
            r = cluster.on_node[n]
            state.granted[r] = 0.0
            if not is_working(state.active, state.status, state.ready_step, r, t):
                continue
            i, j = r // cluster.replicas, r % cluster.replicas
            asks = state.overhead[r]
            waits = state.recovering[r] and not cluster.by_epoch
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                asks += cluster.cost[e] * (state.replay[j, e] + (0.0 if waits else due[j, e]))
            state.granted[r] = min(asks, state.limit[r])
            total += state.granted[r]
        others = state.hogs[h]  # foreign processes use all CPU time that they get
        if total <= cluster.capacity[h] and others == 0:
            continue
        even = cluster.capacity[h] / (end - first + others)
        while True:  # replicas that need less than the even share leave more to the others
            remaining, greedy = cluster.capacity[h], others
            for n in range(first, end):
                asks = state.granted[cluster.on_node[n]]
                if asks <= even:
                    remaining -= asks
                else:
                    greedy += 1
            if greedy == 0 or remaining <= even * greedy * (1 + 1e-12):
                break
            even = remaining / greedy
        for n in range(first, end):
            r = cluster.on_node[n]
            state.granted[r] = min(state.granted[r], even)


@compiled_step
def process_tuples(cluster: ClusterArrays, state: State, t: int, ledger: Ledger, at: int) -> None:
    """Let replicas process tuples with the CPU time they were granted, and emit the output of primaries.

    While the death of a primary is undetected, the output of the secondary that will replace it is held back until the takeover.
    Under scheme "none" that output is lost.
    """
    k = cluster.replicas
    due = state.batch if cluster.by_epoch else state.queue
    for i in range(cluster.pes):
        p = state.primary[i]
        primary_down = p >= 0 and state.status[i * k + p] != UP
        worker = p
        if primary_down and cluster.scheme[i] != NONE:
            for j in range(k - 1, -1, -1):
                if (
                    j != p
                    and is_working(state.active, state.status, state.ready_step, i * k + j, t)
                    and not state.recovering[i * k + j]
                ):
                    worker = j
        stream = cluster.sources + i
        for j in range(k):
            r = i * k + j
            if state.granted[r] <= 0:
                continue
            budget = state.granted[r]
            state.cpu[r] += budget
            payment = min(budget, state.overhead[r])
            state.overhead[r] -= payment
            if state.overhead[r] < 1e-12:
                state.overhead[r] = 0.0
            budget -= payment
            waiting = 0.0
            waits = state.recovering[r] and not cluster.by_epoch
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                waiting += cluster.cost[e] * (state.replay[j, e] + (0.0 if waits else due[j, e]))
            part = 1.0 if budget >= waiting * (1 - 1e-12) else budget / waiting
            # The output of a job leaves when the whole job is done.
            leaves = not cluster.by_epoch or (part == 1.0 and state.overhead[r] == 0 and state.job_epochs[r] > 0)
            out, again, processed, epochs = 0.0, 0.0, 0.0, np.inf
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                if state.replay[j, e] > 0:
                    handled = state.replay[j, e] * part
                    state.replay[j, e] -= handled
                    state.replayed[j, e] += handled
                    again += cluster.selectivity[e] * handled
                handled = 0.0 if waits else due[j, e] * part
                state.queue[j, e] -= handled
                if cluster.by_epoch:
                    state.batch[j, e] -= handled
                state.worked[j, e] += handled
                state.since_checkpoint[j, e] += handled
                if j == worker and leaves:
                    # Tuples that another replica has emitted are duplicates. Tuples that this replica has processed and no replica
                    # has emitted are sent from the kept outputs; under scheme "none" they are lost.
                    fresh = max(0.0, state.reached[e] - state.queue[j, e] - state.output_position[e])
                    if cluster.scheme[i] == NONE:
                        fresh = min(fresh, handled)
                    state.output_position[e] = max(state.output_position[e], state.reached[e] - state.queue[j, e])
                    processed += fresh
                    out += cluster.selectivity[e] * fresh
                    epochs = min(epochs, state.closed[e] - state.waiting[j, e])
            if j == worker:
                ledger.processed[at, i] += processed
                state.replay_output[stream] += again
                state.held[i] += out
                if leaves and cluster.by_epoch:
                    state.held_epochs[i] += max(0.0, epochs - state.published[stream])
                    state.published[stream] = max(state.published[stream], epochs)
            if leaves:
                state.job_epochs[r] = 0.0
        if worker >= 0 and worker == p and not primary_down and t >= state.hold_until_step[i]:
            state.output[stream] += state.held[i]
            state.ended[stream] += state.held_epochs[i]
            state.held[i] = 0.0
            state.held_epochs[i] = 0.0
        ledger.output[at, i] += state.output[stream]


@compiled_step
def grant_free(cluster: ClusterArrays, state: State, t: int) -> None:
    """Grant a negligible CPU time to replicas whose pending tuples or epochs cost nothing, so that they process them."""
    for r in range(cluster.pes * cluster.replicas):
        if state.granted[r] <= 0 and is_working(state.active, state.status, state.ready_step, r, t):
            if state.job_epochs[r] > 0:
                state.granted[r] = 1e-300
            i, j = r // cluster.replicas, r % cluster.replicas
            for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
                if cluster.cost[e] == 0 and state.queue[j, e] + state.replay[j, e] > 0:
                    state.granted[r] = 1e-300


@compiled_step
def close_interval(cluster: ClusterArrays, state: State, ledger: Ledger, at: int) -> None:
    """Write the totals at the end of an interval to the ledger: sums over replicas since the start, and queue lengths."""
    k = cluster.replicas
    for i in range(cluster.pes):
        for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
            for j in range(k):
                ledger.taken[at, i] += state.taken[j, e]
                ledger.worked[at, i] += state.worked[j, e]
                ledger.dropped[at, i] += state.dropped[j, e]
                ledger.cleared[at, i] += state.cleared[j, e]
                ledger.queued[at, i] += state.queue[j, e]
    ledger.configuration[at] = state.counters[CONFIGURATION]


@compiled
def run_steps(
    cluster: ClusterArrays,
    controller: ControllerArrays,
    handling: FailureArrays,
    timeline: FaultTimeline,
    state: State,
    ledger: Ledger,
    arrivals: Floats,
    per_interval: int,
) -> None:
    """Run all steps. `arrivals[step, source]` is in tuples. The results are in `state` and `ledger`."""
    steps, next_fault = arrivals.shape[0], 0
    checkpoints = handling.checkpoint_every > 0 and (cluster.scheme == 1).any()
    free = cluster.by_epoch or (cluster.cost == 0).any()
    measured = state.window_rate[: cluster.sources] * 0.0
    for t in range(steps):
        at = t // per_interval
        while next_fault < len(timeline.step) and timeline.step[next_fault] <= t:
            inject_fault(cluster, state, timeline, next_fault, t)
            next_fault += 1
        if state.counters[DOWN] > 0:
            detect_and_restore(cluster, handling, controller, state, t)
        monitors = (t + 1) % controller.every == 0
        if controller.replace_dead and state.counters[CONTROL] == 1 and (state.counters[DOWN] > 0 or monitors):
            replace_dead_replicas(cluster, controller, state, t)
        for s in range(cluster.sources):
            state.emitted[s] = arrivals[t, s]
            state.ended[s] = 1.0 if cluster.by_epoch and (t + 1) % cluster.epoch == 0 else 0.0
            measured[s] += arrivals[t, s]
        if monitors:
            before = state.counters[CONFIGURATION]
            if state.counters[CONTROL] == 1 and controller.expected.shape[0] > 1:
                follow_rates(controller, state, measured, t)
                if state.counters[CONFIGURATION] != before:
                    send_commands(cluster, controller, state, t)
            measured[:] = 0.0
        if state.counters[PENDING] > 0:
            activate_replicas(cluster, handling, controller, state, t)
        synchronise_replicas(cluster, state, t)
        if state.counters[PENDING] > 0:
            deactivate_replicas(cluster, state, t)
        elect_primaries(cluster, handling, state, t)
        for s in range(len(state.emitted)):
            if s < cluster.sources or has_live_primary(cluster.replicas, state.primary, state.status, s - cluster.sources):
                state.window_rate[s] += (state.emitted[s] - state.window_rate[s]) / SMOOTHING_STEPS
        enqueue_arrivals(cluster, state, t, ledger, at)
        if state.counters[REPLAYING] > 0:
            deliver_replays(cluster, state)
        if checkpoints:
            write_checkpoints(cluster, handling, state, t)
        if cluster.by_epoch:
            start_jobs(cluster, state, t)
        share_cpu(cluster, state, t)
        if free:
            grant_free(cluster, state, t)
        for h in range(len(cluster.capacity)):
            for n in range(cluster.first_on_node[h], cluster.first_on_node[h + 1]):
                ledger.cpu[at, h] += state.granted[cluster.on_node[n]]
        for s in range(cluster.sources, len(state.output)):
            state.output[s] = 0.0
            state.replay_output[s] = 0.0
            state.ended[s] = 0.0
        process_tuples(cluster, state, t, ledger, at)
        if state.counters[REPLAYING] > 0:
            finish_recoveries(cluster, state, t)
        for s in range(cluster.sources, len(state.output)):
            state.emitted[s] = state.output[s]
            state.replay_emitted[s] = state.replay_output[s]
        if (t + 1) % per_interval == 0 or t == steps - 1:
            close_interval(cluster, state, ledger, at)
