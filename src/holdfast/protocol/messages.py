"""The messages between the orchestrator, the node controllers and the PE hosts.

The orchestrator sends a node the desired state, not commands: an assignment lists every replica that the node should run. The node
starts what is missing and stops what is not listed. So a message that is lost, duplicated or late does no harm, and a new
orchestrator need not know what the previous one sent.

Orchestrator and nodes may have different versions while a cluster is updated. A receiver ignores fields that it does not know, and
a new field has a default. Whatever else changes needs a new PROTOCOL.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, FailFast, Field

from holdfast.documents.document import Part

PROTOCOL, OLDEST_PROTOCOL = 1, 1
"""The version of these messages, and the oldest version of the other side that this one understands."""

SLOTS = "replicas"
"""The label that limits the replicas of a node. Without it, the limit follows from the cores."""

NODE_HEADER = "x-holdfast-node"
"""The header with the node's name. A node that calls too often is refused before the body is read, and the path of a registration
does not contain the name."""

NOT_LEADER = 421
"""The HTTP status (Misdirected Request) of an orchestrator that is not the leader. It has not carried out the call."""

State = Literal["starting", "running", "idle", "finished", "failed"]
"""The state of a replica, as its PE host reports it."""

MAX_REASON = 4000
"""The longest error text in characters. A beat with a stack trace of megabytes would be refused, and sent again forever."""
LARGEST = 2**53
"""The largest integer that every JSON reader represents exactly."""


def _printable(text: str) -> str:
    """Return a node's text shortened and without control characters, which could move a terminal's cursor.

    >>> _printable("no such \x1b[2Jfile\\n")
    'no such \ufffd[2Jfile\\n'
    """
    short = text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]} ..."
    return short if short.isprintable() else "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in short)


Reason = Annotated[str, AfterValidator(_printable)]
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
T = TypeVar("T")
Many = Annotated[tuple[T, ...], FailFast()]
"""A tuple that reports only its first error: all errors of a tuple of millions would take gigabytes."""


class Message(Part):
    """A message, or a part of one. Fields that only a later version knows are ignored."""

    model_config = ConfigDict(extra="ignore")


class Finite(Message):
    """A message of a node. It contains no NaN or infinity, because one would make the list of all nodes invalid JSON."""

    model_config = ConfigDict(allow_inf_nan=False)


def _without_nan(value: Any) -> Any:
    """Return a value with None in place of NaN and infinity, which JSON does not have.

    >>> _without_nan({"error": [float("nan"), 0.5]})
    {'error': [None, 0.5]}
    """
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


PassedOn = Annotated[dict[str, Any], AfterValidator(_without_nan)]
"""Values that the control plane passes on without reading them."""


class AssignedReplica(Message):
    """A replica that should be on a node.

    The orchestrator increases `incarnation` to start it again. `rank` orders the replicas of a task: 0 is the primary. An inactive
    replica is loaded but uses no CPU.
    """

    job: int
    pe: str
    task: int
    replica: int
    incarnation: int = 1
    rank: int = 0
    active: bool = True

    @property
    def key(self) -> str:
        return f"{self.job}:{self.pe}/{self.task}.{self.replica}"


class AssignedAgent(Message):
    """A prediction agent that should be on a node. It watches one task of a job, in its own process.

    `orders` change its settings; the control plane does not read them. `revision` grows with every change.
    """

    job: int
    task: str
    revision: int = 0
    orders: dict[str, Any] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.job}:{self.task}"


class FaultOrder(Message):
    """A fault that a node should inject into its own processes, once. `target` is the key of a replica, if the kind needs one.

    The orchestrator numbers the orders of its term. It sends them only if it was started with --inject or --faults.
    """

    number: int
    kind: Literal["crash-controller", "crash-host", "crash-node", "stall-host", "crash-pe", "stall-pe", "slow-pe"]
    target: str = ""
    for_s: float = 0.0
    by_s: float = 0.0


class Assignment(Message):
    """Everything that should run on a node. `jobs` has the settings of each job for the PE host; the control plane does not read
    them. `term` and `generation` order assignments: a later term outranks any generation of an earlier one. The node carries out
    each of the `faults` once and stores none."""

    term: int = 0
    generation: int = 0
    replicas: tuple[AssignedReplica, ...] = ()
    agents: tuple[AssignedAgent, ...] = ()
    jobs: dict[int, dict[str, Any]] = Field(default_factory=dict)
    faults: tuple[FaultOrder, ...] = ()


WAITS_OUTSIDE = "waits for a system outside"
"""How the error of a replica begins that waits for a system outside the job, for as long as that takes."""


class ReplicaStatus(Finite):
    """The status of a replica. `live` and `clean` are its positions: the last epoch processed from first and from final records.

    `error` explains a failure. A node gives the state `lost` to a replica whose PE host died. `lag_s` is its lag behind the close
    of the newest epoch, `rows_s` its input rate, `latency_s` the time from an epoch's close to its commit. `rows_behind` is what a
    source had still to read when it last looked, by partition. `caught_up`: it has processed all available input.
    """

    key: str
    incarnation: Whole
    state: State | Literal["lost"]
    error: Reason | None = None
    live: Whole | None = None
    clean: Whole | None = None
    quality: str | None = None
    lag_s: float | None = None
    rows_s: float | None = None
    latency_s: float | None = None
    rows_behind: dict[str, Whole] = Field(default_factory=dict)
    caught_up: bool = False


class HostStatus(Finite):
    """The status that a PE host or a prediction agent writes several times a second, independently of its progress.

    `about` has further values.
    """

    pid: Whole
    started_s: float
    beat_s: float
    ready: bool = False
    error: Reason | None = None
    term: Whole = 0
    generation: Whole = 0
    replicas: Many[ReplicaStatus] = ()
    cpu_s: float = 0.0
    memory_bytes: Whole = 0
    threads: Whole = 0
    files: Whole = 0
    about: PassedOn = Field(default_factory=dict)


class AgentStatus(Finite):
    """The status of a prediction agent: whether it lives, how often it was started, its orders and its own last status."""

    key: str
    alive: bool
    starts: Whole = 1
    revision: Whole = 0
    orders: PassedOn = Field(default_factory=dict)
    status: HostStatus | None = None


class Report(Finite):
    """A change of a replica's state. The node keeps it until the orchestrator has acknowledged it, in order of `number`.

    `lost`: the PE host died, so the replica itself is not to blame.
    """

    number: Whole
    at_s: float
    key: str
    incarnation: Whole
    state: State | Literal["stopped", "lost"]
    error: Reason | None = None


class Registration(Message):
    """A node's offer, with its present `replicas` and `agents`. A new orchestrator compares the replicas with its own state, and
    leaves the agents as they are. `process` is the status of the PE host, without replicas.

    `controller` identifies the node's controller, also after a restart: another controller with the same name has another one.
    `heard` is the highest term that the node has obeyed. It does not obey an orchestrator with a lower term. `reported` is the
    number of the last report that is older than `replicas`.
    """

    protocol: Whole = 1
    name: str
    controller: str = ""
    heard: Whole = 0
    reported: Whole = 0
    cores: float
    memory_bytes: int
    host_kind: str = "spark"
    labels: dict[str, str] = Field(default_factory=dict)
    metrics: str | None = None
    process: HostStatus | None = None
    replicas: Many[ReplicaStatus] = ()
    agents: Many[AgentStatus] = ()


class RegistrationAnswer(Message):
    """The answer to a registration: the orchestrator's term, the seconds between beats, and the last accepted report.

    `generation` is higher than that of every earlier assignment and registration of the node in this term.
    """

    protocol: int = 1
    term: int
    generation: int
    every_s: float
    acknowledged: int


class Beat(Finite):
    """A node's periodic message, with the reports not yet acknowledged and the status of its PE host.

    `registration` is the generation in the answer to the node's last registration (0: unknown). A beat of an earlier registration
    was overtaken and is refused. `stalled_s`: how long the PE host has been silent, if that is longer than a busy machine explains;
    else 0. `unhosted`: the generation of the node's assignment, while no PE host runs anything; replicas that are not in that
    generation do not run there. `fault`: the number of the last fault order that it is about to carry out, or has carried out.
    """

    term: Whole
    registration: Whole = 0
    controller: str = ""
    reports: Many[Report] = ()
    host: HostStatus | None = None
    unhosted: Whole | None = None
    fault: Whole = 0
    stalled_s: float = 0.0
    agents: Many[AgentStatus] = ()


class BeatAnswer(Message):
    """The answer to a beat: the last report that was accepted, and the newest generation of the node's assignment."""

    term: int
    acknowledged: int
    generation: int
    every_s: float = 1.0
