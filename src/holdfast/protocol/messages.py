"""What the orchestrator, the node controllers and the PE hosts say to one another.

A node is told what should run on it, not what to do: an assignment lists every replica that it should have. It compares, starts
what is missing and stops what is no longer wanted. So a message that is lost, doubled or late does no harm, and an orchestrator
that comes back need not know what the one before it had said.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, FailFast, Field

from holdfast.documents.document import Part

SLOTS = "replicas"
"""The label that says how many replicas a node takes; without it that follows from its cores."""

NODE_HEADER = "x-holdfast-node"
"""The header in which a node says its name when it registers: its path does not, and a flood is refused before its body is read."""

State = Literal["starting", "running", "idle", "finished", "failed"]
"""What a replica does, as its PE host sees it. `failed`: it gave up, and says why."""


MAX_REASON = 4000
"""Characters that are kept of why something failed. It is sent again until it was heard, stored and shown: a stack trace of
megabytes, or many long ones in one beat, would be refused for ever."""
LARGEST = 2**53
"""Whole numbers up to this are the same for everybody who reads JSON, and can be divided."""


def _told(text: str) -> str:
    """Words from a node as they may be shown: bounded, and without what moves a terminal's cursor.

    >>> _told("no such \x1b[2Jfile\\n")
    'no such \ufffd[2Jfile\\n'
    """
    short = text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]} ..."
    return short if short.isprintable() else "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in short)


Reason = Annotated[str, AfterValidator(_told)]
Whole = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
T = TypeVar("T")
Many = Annotated[tuple[T, ...], FailFast()]
"""A list whose first mistake is enough: one of millions of empty parts would cost gigabytes to find all of them."""


class Message(Part):
    """What one side says to the other. Its numbers are numbers of JSON: one that is not spoils what is shown of all nodes."""

    model_config = ConfigDict(allow_inf_nan=False)


def _shown(value: Any) -> Any:
    """A value that is passed on unread, with None for what is no number of JSON.

    >>> _shown({"error": [float("nan"), 0.5]})
    {'error': [None, 0.5]}
    """
    if isinstance(value, dict):
        return {key: _shown(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


Unread = Annotated[dict[str, Any], AfterValidator(_shown)]


class AssignedReplica(Part):
    """A replica that should be on a node.

    `incarnation` grows when the orchestrator wants it started anew. `rank` is its place among the replicas of its task: 0 is
    the primary. An inactive replica holds its place and uses no CPU.
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


class AssignedAgent(Part):
    """A prediction agent that should be on a node: it watches one task of a job, from a process of its own.

    `orders` change what it was set up with, unread by the control plane; `revision` grows with every change.
    """

    job: int
    task: str
    revision: int = 0
    orders: dict[str, Any] = Field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.job}:{self.task}"


class Assignment(Part):
    """Everything that should run on a node. `jobs` holds, per job, the settings that its PE host needs, unread by the control
    plane. `term` and `generation` order assignments: a later term outranks any generation of an earlier one."""

    term: int = 0
    generation: int = 0
    replicas: tuple[AssignedReplica, ...] = ()
    agents: tuple[AssignedAgent, ...] = ()
    jobs: dict[int, dict[str, Any]] = Field(default_factory=dict)


class ReplicaStatus(Message):
    """How a replica is doing. `live` and `clean` are its heads: the last epoch done from first and from final records.

    `error` says why it failed; `lag_s` is how far it is behind the close of the newest epoch, `rows_s` its input rate, `latency_s`
    from an epoch's close to its commit. `caught_up`: nothing that could be done is left to do.
    """

    key: str
    incarnation: Whole
    state: State
    error: Reason | None = None
    live: Whole | None = None
    clean: Whole | None = None
    quality: str | None = None
    lag_s: float | None = None
    rows_s: float | None = None
    latency_s: float | None = None
    caught_up: bool = False


class HostStatus(Message):
    """What a PE host or a prediction agent writes about itself, several times a second: its beat is apart from any progress.

    `about` is what else there is to say of it, passed on unread.
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
    about: Unread = Field(default_factory=dict)


class AgentStatus(Message):
    """A prediction agent of a node: whether it lives, how often it was started, what it was told and what it said last."""

    key: str
    alive: bool
    starts: Whole = 1
    revision: Whole = 0
    orders: Unread = Field(default_factory=dict)
    status: HostStatus | None = None


class Report(Message):
    """A change of a replica's state, kept by the node until the orchestrator has acknowledged it, in order of `number`."""

    number: Whole
    at_s: float
    key: str
    incarnation: Whole
    state: State | Literal["stopped", "lost"]
    error: Reason | None = None


class Registration(Part):
    """A node that offers itself, with the `replicas` that it has: a new orchestrator holds them against what it believes. And with
    the `agents`: it leaves them where and as they are. `process` is what its PE host says of itself, without replicas.

    `controller` tells this node's controller, over its restarts, from any other that was given the same name. `heard` is the
    highest term that it has heard from: it takes no word from a lower one, so that one need not count on it.
    """

    name: str
    controller: str = ""
    heard: Whole = 0
    cores: float
    memory_bytes: int
    host_kind: str = "spark"
    labels: dict[str, str] = Field(default_factory=dict)
    metrics: str | None = None
    process: HostStatus | None = None
    replicas: Many[ReplicaStatus] = ()
    agents: Many[AgentStatus] = ()


class RegistrationAnswer(Part):
    """What a node that registers learns: whose it is now, how often to beat, and the last report known of it."""

    term: int
    generation: int
    every_s: float
    acknowledged: int


class Beat(Message):
    """A node's sign of life, with the reports not yet acknowledged and how its PE host is doing.

    `stalled_s`: for how long the PE host has been silent, where that is longer than a busy machine explains; else 0. `unhosted`:
    while no PE host has begun, the generation of the assignment that the node has; what that leaves out does not run there.
    """

    term: Whole
    controller: str = ""
    reports: Many[Report] = ()
    host: HostStatus | None = None
    unhosted: Whole | None = None
    stalled_s: float = 0.0
    agents: Many[AgentStatus] = ()


class BeatAnswer(Part):
    """The answer to a beat: the last report taken, and the newest generation of the node's assignment."""

    term: int
    acknowledged: int
    generation: int
    every_s: float = 1.0
