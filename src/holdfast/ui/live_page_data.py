"""Supply the page with the data of a running orchestrator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from holdfast.control.api.api_documents import job_line, node_line
from holdfast.control.nodes.replicas import PlacedReplica
from holdfast.errors import HoldfastError
from holdfast.ui.job_picture import build_picture, find_edges, find_readers
from holdfast.ui.page_data import MAX_SAMPLES, ReplicaRow, Sample, TaskRow, build_sample, build_task_row, relative_epoch
from holdfast.ui.what_if import ReplicaView, TaskView

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.orchestrator import Orchestrator

MAX_JOBS = 200
RECENT_EVENTS = 500
NODE_FIELDS = ("name", "state", "host_kind", "cores", "labels", "since_s", "slots", "replicas", "stalled_s")


@dataclass(slots=True)
class _WatchedJob:
    """What is kept of a job for the page.

    `tasks` are (owner job, task name). `inputs` and `outputs` are indexes into them. `row_keys` are the values that `rows` were
    computed from. `epoch_base` and `epoch_s` are unknown until `timeline_reader` has read the job's timeline.
    """

    tasks: tuple[tuple[int, str], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    epoch_base: int | None = None
    epoch_s: float | None = None
    rows: list[TaskRow] = field(default_factory=list)
    row_keys: list[tuple[Any, ...]] = field(default_factory=list)
    timeline_reader: asyncio.Task[None] | None = None
    timeline_error: Exception | None = None


class LivePageData:
    """The page's data of an orchestrator. A task's row is recomputed only if one of its replicas has changed."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self.orchestrator = orchestrator
        self._watched: dict[int, _WatchedJob] = {}
        self._cpu_readings: dict[str, tuple[float, float]] = {}
        self._cores_used: dict[str, float] = {}

    def hello(self) -> dict[str, Any]:
        return {
            "version": version("holdfast"),
            "term": self.orchestrator.term,
            "faults": self.orchestrator.settings.faults,
            "past": None,
        }

    def now_s(self) -> float:
        return self.orchestrator.time.now_s()

    def jobs(self) -> list[dict[str, Any]]:
        lines = []
        for number in self._newest_jobs():
            job, watched = self.orchestrator.jobs[number], self._watched.get(number)
            application = None if job.layout is None else job.layout.application
            quality = watched.samples[-1].quality if watched is not None and watched.samples else None
            lines.append({**job_line(job), "application": application, "quality": quality})
        return lines

    def picture_version(self, job: int) -> Hashable:
        watched = self._watch(job)
        return None if watched is None else (job, watched.tasks, watched.epoch_base)

    async def picture(self, job: int) -> dict[str, Any]:
        from holdfast.ui.replica_reasons import describe_plan

        state, watched = self._job_state(job), self._watched[job]
        layout, document = state.layout, state.document
        assert layout is not None
        names = {pair: task.name for pair, task in zip(watched.tasks, layout.tasks, strict=True)}
        edges = {
            (names[each.maker], names[each.reader], each.stream)
            for each in self.orchestrator.dataflow.graph.connections(job)
            if each.maker in names and each.reader in names
        }
        ordered = sorted(edges or set(find_edges(layout.tasks)))
        return await asyncio.to_thread(
            lambda: build_picture(
                job, document, layout, edges=ordered, plan=describe_plan(document, layout.tasks), epoch_s=watched.epoch_s
            )
        )

    def tasks(self, job: int) -> Sequence[TaskRow]:
        watched = self._watch(job)
        if watched is None:
            return []
        now_s = self.orchestrator.time.now_s()
        for index, (owner, name) in enumerate(watched.tasks):
            replicas = self.orchestrator.replicas.of(owner, (name,))
            states = ((r.node, r.state, r.rank, r.active, r.incarnation, r.failures, r.status, r.error) for r in replicas)
            key = (watched.epoch_base, *states)
            known = index < len(watched.rows)
            if known and watched.row_keys[index] == key and watched.rows[index][0] != "down":  # the lag of a dead task grows
                continue
            row = build_task_row(
                [_replica_row(r, watched.epoch_base) for r in replicas],
                [r.status for r in replicas],
                now_s=now_s,
                since_s=max((r.since_s for r in replicas), default=now_s),
                epoch_base=watched.epoch_base,
            )
            if known:
                watched.rows[index], watched.row_keys[index] = row, key
            else:
                watched.rows.append(row)
                watched.row_keys.append(key)
        return watched.rows

    def nodes(self) -> list[dict[str, Any]]:
        lines = []
        for name, node in sorted(self.orchestrator.resources.nodes.items()):
            line = node_line(self.orchestrator, node)
            host = line["host_status"] or {}
            lines.append(
                {
                    **{key: line[key] for key in NODE_FIELDS},
                    "memory_bytes": host.get("memory_bytes"),
                    "ready": host.get("ready", False),
                    "cpu": round(self._cores_used[name], 2) if name in self._cores_used else None,
                }
            )
        return lines

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        events = self.orchestrator.events
        if events.last <= after:
            return [], after
        if not after:
            return [each.document() for each in events.after(0, limit=10**9)[-RECENT_EVENTS:]], events.last
        newer = events.after(after)
        return [each.document() for each in newer], newer[-1].number if newer else events.last

    def samples(self, job: int, after_s: float) -> list[list[Any]]:
        watched = self._watched.get(job)
        return [] if watched is None else [sample.row() for sample in watched.samples if round(sample.at_s, 2) > after_s]

    def task_views(self, job: int) -> Sequence[TaskView]:
        state, watched = self._job_state(job), self._watch(job)
        if watched is None or state.layout is None:
            raise HoldfastError(f"job {job} has no tasks yet: it is {state.lifecycle.state}")
        tasks = state.layout.tasks
        readers = find_readers(tasks, find_edges(tasks))
        return [
            TaskView(
                task.name,
                task.kind,
                tuple(ReplicaView(r.key, r.replica, r.node, r.state) for r in self.orchestrator.replicas.of(owner, (name,))),
                readers[task.name],
            )
            for task, (owner, name) in zip(tasks, watched.tasks, strict=True)
        ]

    async def sample(self) -> None:
        """Take a sample of every running job and drop the data of jobs that have ended.

        If a job's timeline could not be read, the first such error is raised after all samples were taken.
        """
        now_s = self.orchestrator.time.now_s()
        self._measure_cpu()
        for number in self._watched.keys() - self.orchestrator.jobs.keys():
            del self._watched[number]
        errors: list[Exception] = []
        for number in self._newest_jobs():
            watched = self._watch(number)
            if watched is None:
                continue
            errors += self._start_timeline_reader(number, watched)
            rows, cpu = self.tasks(number), dict(self._cores_used)
            watched.samples.append(build_sample(rows, at_s=now_s, inputs=watched.inputs, outputs=watched.outputs, cpu=cpu))
            await asyncio.sleep(0)
        if errors:
            raise errors[0]

    def _newest_jobs(self) -> list[int]:
        return sorted(self.orchestrator.jobs, reverse=True)[:MAX_JOBS]

    def _measure_cpu(self) -> None:
        """Compute the cores that each node has used since the previous beat of its PE host."""
        nodes = self.orchestrator.resources.nodes
        for name, node in nodes.items():
            if node.host is None or node.state != "up":
                self._cores_used.pop(name, None)
                continue
            reading = node.host.beat_s, node.host.cpu_s
            previous = self._cpu_readings.get(name, reading)
            if reading[0] > previous[0] and reading[1] >= previous[1]:
                self._cores_used[name] = (reading[1] - previous[1]) / (reading[0] - previous[0])
            self._cpu_readings[name] = reading
        for name in self._cpu_readings.keys() - nodes.keys():
            del self._cpu_readings[name]
            self._cores_used.pop(name, None)

    def _start_timeline_reader(self, number: int, watched: _WatchedJob) -> list[Exception]:
        """Start to read the job's timeline, if it is still unknown. Return the error of the previous attempt, if it failed.

        The timeline exists once the job's first source has started. It is read in the background, so that a slow or
        unreachable store delays no sample.
        """
        if watched.epoch_base is not None or (watched.timeline_reader is not None and not watched.timeline_reader.done()):
            return []
        log = self._job_state(number).document.log
        if log is None:
            watched.epoch_base = 0
            return []
        error, watched.timeline_error = watched.timeline_error, None
        watched.timeline_reader = asyncio.get_running_loop().create_task(self._read_timeline(log, watched))
        return [] if error is None else [error]

    async def _read_timeline(self, log: str, watched: _WatchedJob) -> None:
        from holdfast.log import Store
        from holdfast.log.timeline import read_timeline

        try:
            timeline = await asyncio.to_thread(lambda: read_timeline(Store(log)))
        except Exception as error:  # `sample` raises it next time, because nothing awaits this task
            watched.timeline_error = error
            return
        if timeline is not None:
            watched.epoch_base, watched.epoch_s = timeline.first - 1, timeline.epoch_s / timeline.speed

    def _watch(self, number: int) -> _WatchedJob | None:
        """Return what is kept of a job, or None if the job has no tasks (yet)."""
        job, graph = self.orchestrator.jobs.get(number), self.orchestrator.dataflow.graph
        if job is None or job.layout is None or number not in graph.layouts:
            return None
        if number not in self._watched:
            tasks = job.layout.tasks
            producers = {producer for producer, _, _ in find_edges(tasks)}
            self._watched[number] = _WatchedJob(
                tasks=tuple((owner, task.name) for owner, task in graph.uses(number)),
                inputs=tuple(i for i, task in enumerate(tasks) if not task.reads and not task.shared),
                outputs=tuple(i for i, task in enumerate(tasks) if task.name not in producers and not task.shared),
                epoch_base=0 if job.document.log is None else None,
            )
        return self._watched[number]

    def _job_state(self, number: int) -> JobState:
        job = self.orchestrator.jobs.get(number)
        if job is None:
            raise HoldfastError(f"job {number} is not running; 'holdfast jobs' lists the jobs that are")
        return job


def _replica_row(replica: PlacedReplica, epoch_base: int | None) -> ReplicaRow:
    status = replica.status
    return (
        replica.replica, replica.node, replica.state, replica.rank, replica.active, replica.incarnation, replica.failures,
        replica.error or (status and status.error), relative_epoch(status.live, epoch_base) if status else None,
        status.lag_s if status else None, sum(status.rows_behind.values()) if status else 0,
    )  # fmt: skip
