"""Everything of one schedule: machines, jobs, logs and the history of what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from holdfast.control.storage.stored_jobs import StoredPlacement
from holdfast.documents.job import Job, Layout
from holdfast.log import Store
from holdfast.log.local_folder import TEMPORARY_NAME
from holdfast.protocol.messages import AssignedReplica

from .disk import ROOT, Disk, DiskStore
from .node import Host, Node
from .orchestrator import Orchestrator
from .rows import Row
from .scheduler import Machine, Scheduler
from .sim_query import QueryCheckpoint, SimQuery
from .sim_store import NESTED_FOLDERS, Folders, SimStore
from .targets import FencedTarget, Target
from .workload import FIRST, Workload, fenced_writer


@dataclass
class JobModel:
    """A job of a schedule: its document, its workload, and what exists outside of holdfast: sources and targets."""

    number: int
    job: Job
    layout: Layout
    load: Workload
    logs: dict[str, str | None] = field(default_factory=dict)
    placed: bool = False
    targets: dict[str, Target | FencedTarget] = field(default_factory=dict)
    queries: dict[str, SimQuery] = field(default_factory=dict)
    checkpoints: dict[str, QueryCheckpoint] = field(default_factory=dict)
    now_s: Callable[[], float] = lambda: 0.0
    started_s: float | None = None
    is_canceled: bool = False

    @property
    def owner(self) -> str:
        return f"owner {self.number}"

    def replicas_of(self, task: str) -> int:
        return self._counts[task]

    @cached_property
    def _counts(self) -> dict[str, int]:
        return {task.name: task.replicas for task in self.layout.tasks}

    def target(self, sink: str) -> Target | FencedTarget:
        is_fenced = self.load.graph.nodes[sink].writer is fenced_writer  # type: ignore[union-attr]
        return self.targets.setdefault(sink, FencedTarget() if is_fenced else Target())

    def query_checkpoint(self, task: str) -> QueryCheckpoint:
        return self.checkpoints.setdefault(task, QueryCheckpoint())

    def arrived_rows(self, source: str, before_s: float | None = None) -> list[Row]:
        """Return the rows that have arrived at a source, by now and before a time: its trace, one epoch per second."""
        seconds = (self.now_s() if before_s is None else min(self.now_s(), before_s)) - (self.started_s or 0.0)
        return [row for row in self.load.trace[source] if row[3] - FIRST <= seconds]


class World:
    """The simulated machines and what runs on them."""

    def __init__(self, scheduler: Scheduler, *, nodes: int, offsets_s: list[float], observe_every_s: float) -> None:
        self.scheduler, self.observe_every_s = scheduler, observe_every_s
        self.history: list[tuple[float, str, dict[str, Any]]] = []
        self.locations: dict[str, Folders] = {}
        self.jobs: dict[int, JobModel] = {}
        self.database: dict[str, StoredPlacement] = {}
        self.host_count = 0
        self.job_count = 0
        self.on_disk = False
        self.disks: dict[str, Disk] = {}
        self.on_loss: list[Callable[[str, str], None]] = []
        self.canceling: tuple[JobModel, JobModel] | None = None
        self.starts: dict[tuple[str, int], int] = {}
        self.on_change: list[Callable[[str, str, bytes | None, bytes | None], None]] = []
        self.orchestrator_machine = Machine("control", offset_s=offsets_s[-1])
        self.nodes = [Node(self, f"n{index}", offsets_s[index]) for index in range(nodes)]
        self.terms = 1
        self.orchestrator: Orchestrator | None = Orchestrator(self, 1)

    def open(self, location: str, *, what: str = "log") -> Store:
        """Open a store, as a process of its own does."""
        if self.on_disk:
            disk = self.disks.setdefault(location, Disk())
            return DiskStore(location, self.locations.setdefault(location, {}), disk, self.scheduler, self._changed, what=what)
        return SimStore(location, self.locations.setdefault(location, {}), self.scheduler, self._changed, what=what)

    def log_of(self, job: str) -> str:
        return next(str(model.job.log) for model in self.jobs.values() if model.job.job == job)

    def place(self, model: JobModel) -> None:
        """Submit a job."""
        self.jobs[model.number] = model
        model.now_s = lambda: self.scheduler.now_s
        if self.orchestrator is None or not self.orchestrator.answers or not self.orchestrator.has_room(model):
            self.scheduler.call_at(self.scheduler.now_s + 1.0, lambda: self.place(model))
            return
        model.started_s = model.started_s or self.scheduler.now_s
        self.orchestrator.add_job(model)
        model.placed = True

    def cancel(self, model: JobModel, successor: JobModel) -> None:
        """Cancel a job, and submit its successor on the same log once nothing of the canceled job can be written there."""
        if self.orchestrator is None or not self.orchestrator.answers or self.orchestrator.recovering or not model.placed:
            self.scheduler.call_at(self.scheduler.now_s + 1.0, lambda: self.cancel(model, successor))
            return
        successor.started_s = model.started_s
        model.placed, model.is_canceled, self.canceling = False, True, (model, successor)
        self.orchestrator.cancel(model)

    def turn(self) -> None:
        """Let the scheduler act at a moment when the current actor does not use the log."""
        trap = self.scheduler.step(log=False)
        if trap is not None:
            self.scheduler.finish(trap)

    def emit(self, kind: str, about: dict[str, Any]) -> None:
        self.history.append((self.scheduler.now_s, kind, about))

    def emitter(self, host: Host, job: int) -> Callable[[str, dict[str, Any]], None]:
        """Return a function that writes into the history, as long as the host lives."""

        def emit(kind: str, about: dict[str, Any]) -> None:
            if host.process.alive:
                self.emit(kind, {"job": job, **about})

        return emit

    def note_start(self, assigned: AssignedReplica) -> None:
        key = assigned.key, assigned.incarnation
        self.starts[key] = self.starts.get(key, 0) + 1
        self.emit("start", {"replica": assigned.key, "incarnation": assigned.incarnation})

    def restart_orchestrator(self) -> None:
        self.terms += 1
        self.orchestrator = Orchestrator(self, self.terms)

    def kill_orchestrator(self) -> None:
        if self.orchestrator is not None:
            self.scheduler.kill(self.orchestrator.process)
            self.orchestrator = None

    def lose_power(self, for_s: float) -> None:
        """Turn all machines off, and the disk with them."""
        for node in self.nodes:
            node.crash()
            self.scheduler.call_at(self.scheduler.now_s + for_s, node.boot)
        if self.orchestrator is not None:
            self.kill_orchestrator()
            self.scheduler.call_at(self.scheduler.now_s + for_s, self.restart_orchestrator)
        for location, disk in self.disks.items():
            folders, contents = self.locations[location], {}
            for path, content in disk.lose_power(self.scheduler.random).items():
                name = path.relative_to(ROOT / location).as_posix()
                if TEMPORARY_NAME.fullmatch(name) is None:
                    contents[name] = content
            names = [name for folder, objects in folders.items() if folder != NESTED_FOLDERS for name in objects]
            folders.clear()
            for name in (name for name in names if name not in contents):
                for call in self.on_loss:
                    call(location, name)
            store = SimStore(location, folders, self.scheduler, lambda *_: None)
            for name, content in contents.items():
                store.restore(name, content)

    def agent_documents(self, model: JobModel) -> Mapping[str, Mapping[str, Any]]:
        return {}

    def kill_agents(self, node: str) -> None:
        """Kill the prediction agents on a node."""

    def _changed(self, location: str, name: str, old: bytes | None, new: bytes | None) -> None:
        for call in self.on_change:
            call(location, name, old, new)
