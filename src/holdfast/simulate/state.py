"""What the compiled steps work on: the cluster as arrays that do not change, and the state that does.

PEs stand in topological order; replica j of PE i is number i * k + j. Edges into PEs stand in rows: those of PE i are
`first_edge[i]` to `first_edge[i + 1]`, and what belongs to a replica's end of an edge is indexed [j, edge]. A tail below the number
of sources is a source, any other a PE.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

UP, CRASHED, STALLED = 0, 1, 2
NONE, CHECKPOINT, SOURCE = 0, 1, 2
CRASH, STALL, RESUME, SLOW, STEADY, CONTROL_DOWN, CONTROL_UP, AWAY, HOG, FREE = range(10)
FAULT, DETECTED, TAKEN_OVER, RESTORED, REPLAYS, RECOVERED, CONFIGURED = range(7)
NEVER = -1

# Places in State.counters.
EVENTS, PENDING, DOWN, REPLAYING, CONFIGURATION, CONTROL, LIGHTER, LIGHTER_COUNT = range(8)

F = TypeVar("F", bound=Callable[..., object])


def inlined(function: F) -> F:
    """The same, put in where it is called. It takes single arrays: handing over a state of many costs more than a few comparisons,
    here too."""
    return cast(F, njit(inline="always", error_model="numpy")(function))


class ClusterArrays(NamedTuple):
    """The cluster and the application on it. Costs are CPU seconds a tuple, rooms tuples, capacities CPU seconds a step."""

    sources: int
    pes: int
    replicas: int
    first_edge: Ints
    tail: Ints
    selectivity: Floats
    cost: Floats
    room: Floats
    first_on_node: Ints
    on_node: Ints
    capacity: Floats
    scheme: Ints
    by_epoch: bool  # PEs take whole epochs, a job any number of them
    epoch: int  # its length in steps
    job_cost: Floats  # CPU seconds of a job beside its tuples


class Orders(NamedTuple):
    """What the activation controller goes by: the strategy and its configurations' rates, and its times in steps."""

    active: Flags  # [configuration, PE, replica]
    rates: Floats  # [configuration, source]
    every: int
    tolerance: float
    steady: int
    switch: int
    resync: int
    replace_dead: bool
    replace: int


class FailureArrays(NamedTuple):
    """How failures are noticed and made good. Times in steps, costs in CPU seconds."""

    detect: int
    restart: int
    restart_cost: float
    checkpoint_every: int
    checkpoint_cost: float
    checkpoint_tuple_cost: float
    load_tuple_cost: float
    window: float
    takeover: int
    sync: int
    resend: float  # steps per tuple


class FaultTimeline(NamedTuple):
    """Faults in the order of their steps. `replica` is -1 for the orchestrator, and a node's number where its CPU time is taken;
    `back` is the step of a return, or NEVER."""

    step: Ints
    kind: Ints
    replica: Ints
    back: Ints
    share: Floats


class State(NamedTuple):
    """Everything that changes from step to step."""

    # of replicas
    status: Ints
    active: Flags
    ready: Ints  # the step from which an active replica has its state
    switch_at: Ints  # the step at which `active` turns, or NEVER
    stopped: Ints
    noticed: Ints  # the step at which its crash was noticed, or NEVER
    back: Ints
    away: Flags  # its node is gone and no spare takes its place
    recovering: Flags
    limit: Floats  # the CPU seconds it can use in a step
    chores: Floats  # CPU seconds due that handle no tuple
    granted: Floats
    cpu: Floats
    span: Floats  # epochs of the job under way
    hogged: Ints  # of nodes: the processes of others that take CPU time
    # of replicas' ends of edges, [j, edge]
    queue: Floats
    replay: Floats
    need: Floats  # replay that upstream has yet to make again
    skip: Floats  # what upstream makes again before that, which is known already
    since: Floats  # processed since the last checkpoint
    taken: Floats
    worked: Floats
    dropped: Floats
    cleared: Floats
    replayed: Floats
    batch: Floats  # of the queue, what the job under way has left
    waiting: Floats  # epochs that no job has taken
    # of edges: tuples and epochs that came, and how far of the tuples somebody has put out
    reached: Floats
    closed: Floats
    done: Floats
    # of PEs
    primary: Ints
    holds_until: Ints  # a takeover is under way until this step
    held: Floats
    held_epochs: Floats
    recent: Floats  # tuples a step that came in, smoothed
    wanted: Flags
    # of streams: sources, then PEs
    emitted: Floats
    made: Floats
    ended: Floats  # epochs that what was emitted brings to an end
    published: Floats  # epochs put out so far
    regenerated: Floats
    remade: Floats
    window_rate: Floats
    counters: Ints
    events: Ints  # [event, (step, kind, PE, replica)]


class Ledger(NamedTuple):
    """What is written down, by interval. Of a PE: `arrived` and `processed` count a tuple once, `missed` are those that its
    primary did not take, `waited` sums over the steps what waits for it; the others sum over its replicas."""

    arrived: Floats
    processed: Floats
    missed: Floats
    waited: Floats
    output: Floats
    taken: Floats
    worked: Floats
    dropped: Floats
    cleared: Floats
    queued: Floats
    cpu: Floats  # [interval, node]
    configuration: Ints
