"""JobObservers: kinds of PE host may bring one that watches their running jobs and switches replicas.

An entry point of the group `holdfast.observers`, named as the kind of host, names a class. One object of it is made per
orchestrator; it is shown every running job of its kind several times a second. What it does with blocking calls it does in a
thread (`asyncio.to_thread`): the view that it is given never changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from holdfast.control.nodes.replicas import PlacedReplica, ReplicaState
from holdfast.control.plugins import Plugin
from holdfast.documents.job import Job, Layout
from holdfast.entry_points import installed_entry_points
from holdfast.errors import HoldfastError, MachineError
from holdfast.protocol.messages import ReplicaStatus

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState

GROUP = "holdfast.observers"
EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica at a moment. `since_s` is when its present state began, `due_s` when it will be started again."""

    key: str
    task: str
    replica: int
    node: str
    incarnation: int
    rank: int
    active: bool
    state: ReplicaState
    since_s: float
    due_s: float | None
    error: str | None
    status: ReplicaStatus | None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job at a moment. `lost` are the nodes that are silent; `agents` is per task what its prediction agent says of itself."""

    id: int
    job: Job
    layout: Layout
    state: str
    refs: Mapping[str, int]
    replicas: tuple[ReplicaView, ...]
    lost: frozenset[str]
    now_s: float
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Activate:
    """Let exactly these replicas of a task be active."""

    task: str
    replicas: tuple[int, ...]
    why: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """Start a replica anew on another node, where there is one."""

    key: str
    node: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """An incarnation of a replica that counts as failed, whatever its node says of it; its policy decides what is done then."""

    key: str
    incarnation: int
    why: str


@dataclass(frozen=True, slots=True)
class End:
    """A job of which something was given up, and the rest has come as far as it can without it: it has failed."""

    why: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell with the orchestrator's events."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


Decision: TypeAlias = Activate | Move | Failed | End | Note


class JobObserver(Protocol):
    """Watches the jobs of one kind of PE host. Calls for one job never overlap."""

    async def observe(self, view: JobView) -> list[Decision]:
        """What to do about a job that looks like this."""
        ...


class JobObservers(Plugin):
    """Shows running jobs to the observers of their kinds of host."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._made: dict[str, JobObserver | None] = {}
        self._busy: set[int] = set()
        self._failed: dict[int, str] = {}

    def set(self, host_kind: str, observer: JobObserver) -> None:
        """Use an observer for a kind of host, whatever entry points say."""
        self._made[host_kind] = observer

    async def run(self) -> None:
        """Show every running job, for ever."""
        while True:
            await self.orchestrator.time.sleep(EVERY_S)
            if self.orchestrator.recovering:
                continue
            running = [job for job in self.orchestrator.jobs.values() if job.is_observed]
            left = [job for job in self.orchestrator.restart_policy.ended_jobs.values() if job.layout is not None]
            for job in (*running, *left):
                observer = self._of(job.document.host_kind)
                if observer is not None and job.id not in self._busy:
                    self._busy.add(job.id)
                    self.orchestrator.spawn(self._show(job, observer))

    async def _show(self, job: JobState, observer: JobObserver) -> None:
        try:
            view = self._left(job) if job.ended else self.view(job)
            for decision in await observer.observe(view):
                self._carry_out(job, decision)
            self._failed.pop(job.id, None)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # an observer's mistake must not end the control plane: it is told, once
            text = f"observer of '{job.document.host_kind}' failed: {type(error).__name__}: {error}"
            if self._failed.get(job.id) != text:
                self._failed[job.id] = text
                self.orchestrator.events.emit("control", text, job=job.id)
        finally:
            self._busy.discard(job.id)

    def forget(self, job: int) -> None:
        """A job has ended."""
        self._failed.pop(job, None)

    def view(self, job: JobState) -> JobView:
        """The job as it is now."""
        assert job.layout is not None
        nodes = self.orchestrator.resources.nodes
        return JobView(
            job.id,
            job.document,
            job.layout,
            job.lifecycle.state,
            dict(job.refs),
            tuple(_seen(replica) for task in self.orchestrator.restart_policy.replicas_by_task(job) for replica in task),
            frozenset(name for name, node in nodes.items() if node.state == "lost"),
            self.orchestrator.time.now_s(),
            {agent.task: agent.about for agent in self.orchestrator.agents.of(job.id)},
        )

    def _left(self, job: JobState) -> JobView:
        """What others share of a job that has ended, as it is now. Nothing switches its replicas any more."""
        assert job.layout is not None
        replicas = self.orchestrator.replicas.of(job.id)
        names = {replica.task_name for replica in replicas}
        return replace(
            self.view(job),
            job=job.document.model_copy(update={"strategy": None, "adapt": None}),
            layout=job.layout.model_copy(update={"tasks": tuple(task for task in job.layout.tasks if task.name in names)}),
            replicas=tuple(_seen(replica) for replica in replicas),
        )

    async def check_orders(self, job: JobState, task: str, orders: Mapping[str, Any]) -> None:
        """Raise HoldfastError for a change of an agent that its kind of host would refuse; one that does not say takes any.

        Checked in a thread: it reads the log, and calls what packages bring.
        """
        check = getattr(self._of(job.document.host_kind), "check_orders", None)
        if check is not None:
            await asyncio.to_thread(check, self.view(job), task, orders)

    def _carry_out(self, job: JobState, decision: Decision) -> None:
        match decision:
            case Activate() | Move() | End() if job.ended:
                pass
            case Activate(task=task, replicas=replicas, why=why):
                if not job.has_queued("activate", {"active": {task: replicas}}):
                    self.orchestrator.activate(job.id, {task: replicas}, cause=why or "its observer asks for it")
            case Move(key=key, node=node, why=why):
                if not job.has_queued("move", data := {"key": key, "node": node}):
                    self.orchestrator.post(job, "move", data=data, cause=why)
            case Failed(key=key, incarnation=incarnation, why=why):
                self.orchestrator.resources.fail_replica(key, incarnation, why)
            case End(why=why):
                self.orchestrator.post(job, "error", cause=why, since=job.lifecycle.version)
            case Note(text=text, data=data):
                self.orchestrator.events.emit("decision", text, job=job.id, data=data)

    def _of(self, host_kind: str) -> JobObserver | None:
        if host_kind not in self._made:
            self._made[host_kind] = _brought(host_kind)
        return self._made[host_kind]


def _seen(replica: PlacedReplica) -> ReplicaView:
    return ReplicaView(
        replica.key,
        replica.task_name,
        replica.replica,
        replica.node,
        replica.incarnation,
        replica.rank,
        replica.active,
        replica.state,
        replica.since_s,
        replica.due_s,
        replica.error,
        replica.status,
    )


def _brought(host_kind: str) -> JobObserver | None:
    for entry in installed_entry_points(GROUP).select(name=host_kind):
        try:
            made: JobObserver = entry.load()()
        except HoldfastError:
            raise
        except Exception as error:
            raise MachineError(f"observer '{host_kind}' cannot be loaded from '{entry.value}': {error}; fix its package") from error
        return made
    return None
