"""The observers plug-in: it shows every running job to the observer of its host kind and carries out the observer's decisions.

An entry point of the group `holdfast.observers` with the name of a host kind names the observer's class. The orchestrator creates
one object of it and shows it every running job four times a second. An observer makes blocking calls in a thread
(`asyncio.to_thread`); the view that it gets never changes.
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
    """A replica at one moment. `since_s` is when its present state began, `due_s` when it will be restarted."""

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
    """A job at one moment. `lost` are the lost nodes; `agents` has, per task, what its prediction agent reports."""

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
    """Make exactly these replicas of a task active."""

    task: str
    replicas: tuple[int, ...]
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """Move a replica to another node, if one has room."""

    key: str
    node: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class FailReplica:
    """Mark an incarnation of a replica as failed, even if its node reports it as running. The restart policy decides what
    follows."""

    key: str
    incarnation: int
    cause: str


@dataclass(frozen=True, slots=True)
class FailJob:
    """Fail the job: a task was abandoned, and the rest cannot progress without it."""

    cause: str


@dataclass(frozen=True, slots=True)
class Note:
    """Emit an event of kind `decision`."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)


Decision: TypeAlias = Activate | Move | FailReplica | FailJob | Note


class JobObserver(Protocol):
    """Watches the jobs of one host kind. Calls for one job never overlap."""

    async def observe(self, view: JobView) -> list[Decision]:
        """Return the decisions about a job."""
        ...


class JobObservers(Plugin):
    """Shows running jobs to the observers of their host kinds."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._observers: dict[str, JobObserver | None] = {}
        self._busy: set[int] = set()
        self._failed: dict[int, str] = {}

    def set(self, host_kind: str, observer: JobObserver) -> None:
        """Use this observer for a host kind, instead of the one from an entry point."""
        self._observers[host_kind] = observer

    async def run(self) -> None:
        """Show every running job periodically, until cancelled."""
        while True:
            await self.orchestrator.time.sleep(EVERY_S)
            if self.orchestrator.recovering:
                continue
            running = [job for job in self.orchestrator.jobs.values() if job.is_observed]
            shared = [job for job in self.orchestrator.restart_policy.ended_jobs.values() if job.layout is not None]
            for job in (*running, *shared):
                if self.orchestrator.recovery.awaits_nodes_of(job):
                    continue
                observer = self._observer_of(job.document.host_kind)
                if observer is not None and job.id not in self._busy:
                    self._busy.add(job.id)
                    self.orchestrator.spawn(self._show(job, observer))

    async def _show(self, job: JobState, observer: JobObserver) -> None:
        try:
            view = self._view_of_ended(job) if job.ended else self.view(job)
            for decision in await observer.observe(view):
                self._carry_out(job, decision)
            self._failed.pop(job.id, None)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # an observer's error must not stop the orchestrator; it is reported once
            text = f"observer of '{job.document.host_kind}' failed: {type(error).__name__}: {error}"
            if self._failed.get(job.id) != text:
                self._failed[job.id] = text
                self.orchestrator.events.emit("control", text, job=job.id)
        finally:
            self._busy.discard(job.id)

    def forget(self, job: int) -> None:
        """Forget a job that has ended."""
        self._failed.pop(job, None)

    def view(self, job: JobState) -> JobView:
        """Return the job as it is now."""
        assert job.layout is not None
        nodes = self.orchestrator.resources.nodes
        return JobView(
            job.id,
            job.document,
            job.layout,
            job.lifecycle.state,
            dict(job.refs),
            tuple(_view_replica(replica) for task in self.orchestrator.restart_policy.replicas_by_task(job) for replica in task),
            frozenset(name for name, node in nodes.items() if node.state == "lost"),
            self.orchestrator.time.now_s(),
            {agent.task: agent.about for agent in self.orchestrator.agents.of(job.id)},
        )

    def _view_of_ended(self, job: JobState) -> JobView:
        """Return the tasks of an ended job that other jobs share. Nothing switches their replicas any more."""
        assert job.layout is not None
        replicas = self.orchestrator.replicas.of(job.id)
        names = {replica.task_name for replica in replicas}
        return replace(
            self.view(job),
            job=job.document.model_copy(update={"strategy": None, "adapt": None}),
            layout=job.layout.model_copy(update={"tasks": tuple(task for task in job.layout.tasks if task.name in names)}),
            replicas=tuple(_view_replica(replica) for replica in replicas),
        )

    async def check_orders(self, job: JobState, task: str, orders: Mapping[str, Any]) -> None:
        """Raise HoldfastError if the observer refuses a change of an agent. An observer without `check_orders` accepts any change.

        The check runs in a thread, because it reads the log and calls code of other packages.
        """
        check = getattr(self._observer_of(job.document.host_kind), "check_orders", None)
        if check is not None:
            await asyncio.to_thread(check, self.view(job), task, orders)

    def _carry_out(self, job: JobState, decision: Decision) -> None:
        match decision:
            case Activate() | Move() | FailJob() if job.ended:
                pass
            case Activate(task=task, replicas=replicas, cause=cause):
                if not job.has_queued("activate", {"active": {task: replicas}}):
                    self.orchestrator.activate(job.id, {task: replicas}, cause=cause or "decided by its observer")
            case Move(key=key, node=node, cause=cause):
                if not job.has_queued("move", data := {"key": key, "node": node}):
                    self.orchestrator.post(job, "move", data=data, cause=cause)
            case FailReplica(key=key, incarnation=incarnation, cause=cause):
                self.orchestrator.resources.fail_replica(key, incarnation, cause)
            case FailJob(cause=cause):
                self.orchestrator.post(job, "error", cause=cause, since=job.lifecycle.version)
            case Note(text=text, data=data):
                self.orchestrator.events.emit("decision", text, job=job.id, data=data)

    def _observer_of(self, host_kind: str) -> JobObserver | None:
        if host_kind not in self._observers:
            self._observers[host_kind] = _load_observer(host_kind)
        return self._observers[host_kind]


def _view_replica(replica: PlacedReplica) -> ReplicaView:
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


def _load_observer(host_kind: str) -> JobObserver | None:
    for entry in installed_entry_points(GROUP).select(name=host_kind):
        try:
            observer: JobObserver = entry.load()()
        except HoldfastError:
            raise
        except Exception as error:
            raise MachineError(f"observer '{host_kind}' cannot be loaded from '{entry.value}': {error}; fix its package") from error
        return observer
    return None
