"""Compiled: the rate monitor and the activation controller (LAAR section 4.6)."""

from holdfast.compiled import compiled_step
from holdfast.planning.laar.activation_rule import choose_configuration
from holdfast_papers.simulate.recovery import replay_sources, start_rebuild
from holdfast_papers.simulate.replicas import clear_queues, copy_queues, is_working, record_event
from holdfast_papers.simulate.state import (
    CONFIGURATION,
    CONFIGURED,
    NEVER,
    NONE,
    PENDING,
    SOURCE,
    UP,
    ClusterArrays,
    ControllerArrays,
    FailureArrays,
    Flags,
    Floats,
    Ints,
    State,
    inlined,
)


@compiled_step
def follow_rates(controller: ControllerArrays, state: State, measured: Floats, t: int) -> None:
    """Choose the configuration for a new measurement, in tuples."""
    chosen = choose_configuration(state.rule, controller.expected, measured, controller.tolerance, controller.steady)
    if chosen != state.counters[CONFIGURATION]:
        state.counters[CONFIGURATION] = chosen
        record_event(state, t, CONFIGURED, chosen, 0)


@compiled_step
def send_commands(cluster: ClusterArrays, controller: ControllerArrays, state: State, t: int) -> None:
    """Send the commands that activate and deactivate replicas for the configuration.

    With `replace_dead`, a replica stays active if all replicas that the configuration activates are dead.
    """
    k, c = cluster.replicas, state.counters[CONFIGURATION]
    for i in range(cluster.pes):
        alive = False
        for j in range(k):
            if controller.active[c, i, j]:
                alive = alive or state.status[i * k + j] == UP
        for j in range(k):
            r = i * k + j
            wants = controller.active[c, i, j]
            stays = controller.replace_dead and not alive and state.active[r]
            if wants != state.active[r] and not stays:
                state.switch_step[r] = t + controller.switch
                state.counters[PENDING] = 1
            else:
                state.switch_step[r] = NEVER


@compiled_step
def replace_dead_replicas(cluster: ClusterArrays, controller: ControllerArrays, state: State, t: int) -> None:
    """Activate a live replica of each PE whose active ones are known to be dead; deactivate it when the strategy's work again."""
    k, c = cluster.replicas, state.counters[CONFIGURATION]
    for i in range(cluster.pes):
        alive, works = False, True
        for j in range(k):
            r = i * k + j
            if state.active[r]:
                alive = alive or state.status[r] == UP or state.notice_step[r] == NEVER
            else:
                alive = alive or state.switch_step[r] != NEVER
            if controller.active[c, i, j]:
                works = works and is_working(state.active, state.status, state.ready_step, r, t) and not state.recovering[r]
        for j in range(k):
            r = i * k + j
            if state.switch_step[r] != NEVER or state.status[r] != UP:
                continue
            if not alive and not state.active[r]:
                state.switch_step[r] = t + controller.replace
                state.counters[PENDING] = 1
                break
            if works and state.active[r] and not controller.active[c, i, j]:
                state.switch_step[r] = t
                state.counters[PENDING] = 1


@compiled_step
def activate_replicas(cluster: ClusterArrays, handling: FailureArrays, controller: ControllerArrays, state: State, t: int) -> None:
    """Activate the replicas whose commands have arrived."""
    sends = False
    for r in range(cluster.pes * cluster.replicas):
        if state.active[r] or state.switch_step[r] == NEVER or t < state.switch_step[r]:
            continue
        state.switch_step[r] = NEVER
        state.active[r] = True
        state.ready_step[r] = t + controller.resync
        inherit_from_dead_primary(cluster, handling, state, r, t)
        sends = sends or (state.recovering[r] and cluster.scheme[r // cluster.replicas] == SOURCE)
    if sends:
        replay_sources(cluster, handling, state)


@compiled_step
def synchronise_replicas(cluster: ClusterArrays, state: State, t: int) -> None:
    """Copy the primary's queues to replicas that get its state in this step, before any replica is deactivated."""
    k = cluster.replicas
    for r in range(cluster.pes * k):
        i, j = r // k, r % k
        p = state.primary[i]
        if t != state.ready_step[r] or t == 0 or not state.active[r] or state.recovering[r] or p < 0 or p == j:
            continue
        copy_queues(cluster, state, r, p)


@compiled_step
def deactivate_replicas(cluster: ClusterArrays, state: State, t: int) -> None:
    """Deactivate the replicas whose commands have arrived, once the newly active replicas of the PE have their state."""
    pending = 0
    for r in range(cluster.pes * cluster.replicas):
        if state.switch_step[r] == NEVER:
            continue
        if t < state.switch_step[r] or has_sibling_without_state(cluster.replicas, state.active, state.ready_step, r, t):
            pending = 1
            continue
        state.switch_step[r] = NEVER
        state.active[r] = False
        clear_queues(cluster, state, r)
    state.counters[PENDING] = pending


@inlined
def has_sibling_without_state(replicas: int, active: Flags, ready: Ints, r: int, t: int) -> bool:
    """Return whether another active replica of the same PE still has to get its state."""
    first, waits = r - r % replicas, False
    for other in range(first, first + replicas):
        waits = waits or (other != r and active[other] and t < ready[other])
    return bool(waits)


@compiled_step
def inherit_from_dead_primary(cluster: ClusterArrays, handling: FailureArrays, state: State, r: int, t: int) -> None:
    """Give an activated replica the inputs kept upstream for the dead primary and rebuild its state, if no other replica works."""
    i, j = r // cluster.replicas, r % cluster.replicas
    p = state.primary[i]
    if cluster.scheme[i] == NONE or p < 0 or p == j:
        return
    for other in range(cluster.replicas):
        if other != j and is_working(state.active, state.status, state.ready_step, i * cluster.replicas + other, t):
            return
    copy_queues(cluster, state, r, p)
    for e in range(cluster.first_edge[i], cluster.first_edge[i + 1]):
        state.since_checkpoint[j, e] = state.since_checkpoint[p, e]
    state.ready_step[r] = t
    start_rebuild(cluster, handling, state, r)
