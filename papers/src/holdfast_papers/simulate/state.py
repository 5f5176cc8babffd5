"""The arrays that the compiled steps of the cluster simulator read and write.

`ClusterArrays`, `ControllerArrays`, `FailureArrays` and `FaultTimeline` are constant during a run; `State` and `Ledger` change.

PEs are numbered in topological order. Replica j of PE i has number i * k + j, where k is the number of replicas per PE. The edges
into PE i have the numbers `first_edge[i]` to `first_edge[i + 1]`; `tail` is the stream that an edge reads. Streams are numbered
sources first, then PEs. An array of replicas' inputs is indexed [j, edge].
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdfast.planning.laar.activation_rule import RuleState

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

UP, CRASHED, STALLED = 0, 1, 2
NONE, CHECKPOINT, SOURCE = 0, 1, 2
CRASH, STALL, RESUME, SLOW, STEADY, CONTROL_DOWN, CONTROL_UP, NODE_LOST, HOG, FREE = range(10)
FAULT, DETECTED, TAKEN_OVER, RESTORED, REPLAYS, RECOVERED, CONFIGURED = range(7)
NEVER = -1

# Indices of State.counters.
EVENTS, PENDING, DOWN, REPLAYING, CONFIGURATION, CONTROL = range(6)

F = TypeVar("F", bound=Callable[..., object])


def inlined(function: F) -> F:
    """Compile a function so that numba inlines it. Pass it single arrays: passing a whole State costs more than the call."""
    return cast(F, njit(inline="always", error_model="numpy")(function))


class ClusterArrays(NamedTuple):
    """The cluster and the application. `cost` is in CPU seconds per tuple, `room` in tuples, `capacity` in CPU seconds per step."""

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
    by_epoch: bool  # PEs process whole epochs; a job takes any number of them
    epoch: int  # length of an epoch in steps
    job_cost: Floats  # CPU seconds of a job in addition to its tuples


class ControllerArrays(NamedTuple):
    """The activation controller's strategy, the rates of its configurations, and its settings with times in steps."""

    active: Flags  # [configuration, PE, replica]
    expected: Floats  # tuples of a measurement, [configuration, source]
    every: int
    tolerance: float
    steady: int
    switch: int
    resync: int
    replace_dead: bool
    replace: int


class FailureArrays(NamedTuple):
    """The settings of FailureHandling, with times in steps and costs in CPU seconds."""

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
    """The faults in order of their steps.

    `replica` is the replica's number, -1 for the orchestrator, or the node's number for a hog. `back` is the step at which a
    crashed replica returns, or NEVER. `share` is the CPU limit of a slow replica, or the number of processes of a hog.
    """

    step: Ints
    kind: Ints
    replica: Ints
    back: Ints
    share: Floats


class State(NamedTuple):
    """Everything that changes from step to step. Values named `..._step` are step numbers, or NEVER."""

    # of replicas
    status: Ints
    active: Flags
    ready_step: Ints  # from this step on an active replica has its state
    switch_step: Ints  # at this step `active` flips
    stop_step: Ints
    notice_step: Ints  # when the orchestrator detected the crash or stall
    return_step: Ints
    node_lost: Flags  # its node is lost and no spare replaces it
    recovering: Flags
    limit: Floats  # CPU seconds that it can use per step
    overhead: Floats  # CPU seconds of pending work that processes no tuple
    granted: Floats
    cpu: Floats
    job_epochs: Floats  # epochs of the running job
    hogs: Ints  # of nodes: foreign processes that take CPU time
    # of replicas' inputs, [j, edge]
    queue: Floats
    replay: Floats
    awaited: Floats  # tuples to replay that upstream has yet to produce again
    skip: Floats  # tuples that upstream replays first and this replica already has
    since_checkpoint: Floats  # tuples processed since the last checkpoint
    taken: Floats
    worked: Floats
    dropped: Floats
    cleared: Floats
    replayed: Floats
    batch: Floats  # tuples of the queue that the running job has yet to process
    waiting: Floats  # epochs that no job has taken yet
    # of edges: tuples and epochs that arrived, and how many of the tuples the PE's output covers
    reached: Floats
    closed: Floats
    output_position: Floats
    # of PEs
    primary: Ints
    hold_until_step: Ints  # a takeover lasts until this step
    held: Floats
    held_epochs: Floats
    recent_input: Floats  # smoothed input in tuples per step
    needs_replay: Flags
    # of streams: sources, then PEs
    emitted: Floats
    output: Floats
    ended: Floats  # epochs that end with the emitted tuples
    published: Floats  # epochs emitted so far
    replay_emitted: Floats
    replay_output: Floats
    window_rate: Floats
    counters: Ints
    rule: RuleState  # of the activation controller
    events: Ints  # [event, (step, kind, PE, replica)]


class Ledger(NamedTuple):
    """Totals per interval and PE.

    `arrived` and `processed` count each tuple once. `missed` counts tuples that the primary did not accept. `waited` sums the
    length of the primary's queues over all steps. The other values are sums over replicas since the start.
    """

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
