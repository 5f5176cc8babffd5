"""A running orchestrator as a scene."""

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
from holdfast.ui.job_picture import edges_of, picture_of
from holdfast.ui.scene import SAMPLES, ReplicaRow, Sample, TaskRow, epoch, sample_of, task_row
from holdfast.ui.what_if import ReplicaAt, TaskAt

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.orchestrator import Orchestrator

JOBS = 200
RECENT_EVENTS = 500


@dataclass(slots=True)
class _Watched:
    """What is remembered of a job for the page: its tasks as (owner, name), their rows, its samples."""

    names: tuple[tuple[int, str], ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    base: int | None = None
    epoch_s: float | None = None
    rows: list[TaskRow] = field(default_factory=list)
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    learning: asyncio.Task[None] | None = None
    wrong: Exception | None = None


class LiveScene:
    """What an orchestrator knows, as rows. Rows are made anew only where a replica said something new."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self.orchestrator = orchestrator
        self._watched: dict[int, _Watched] = {}
        self._cpu: dict[str, tuple[float, float]] = {}
        self._shares: dict[str, float] = {}

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
        jobs = self.orchestrator.jobs
        return [
            {**job_line(jobs[number]), "application": _application(jobs[number]), "quality": self._quality(number)}
            for number in sorted(jobs, reverse=True)[:JOBS]
        ]

    def mark(self, job: int) -> Hashable:
        watched = self._watch(job)
        return None if watched is None else (job, watched.names, watched.base)

    async def picture(self, job: int) -> dict[str, Any]:
        from holdfast.ui.replica_reasons import plan_of

        live, watched = self._live(job), self._watched[job]
        layout, document = live.layout, live.document
        assert layout is not None
        place = {pair: index for index, pair in enumerate(watched.names)}
        names = [task.name for task in layout.tasks]
        edges = {
            (names[place[each.maker]], names[place[each.reader]], each.stream)
            for each in self.orchestrator.dataflow.graph.connections(job)
            if each.maker in place and each.reader in place
        }
        ordered = sorted(edges or set(edges_of(layout.tasks)))
        return await asyncio.to_thread(
            lambda: picture_of(job, document, layout, edges=ordered, plan=plan_of(document, layout.tasks), epoch_s=watched.epoch_s)
        )

    def tasks(self, job: int) -> Sequence[TaskRow]:
        watched = self._watch(job)
        if watched is None:
            return []
        now_s = self.orchestrator.time.now_s()
        for index, (owner, name) in enumerate(watched.names):
            replicas = self.orchestrator.replicas.of(owner, (name,))
            said = ((r.node, r.state, r.rank, r.active, r.incarnation, r.failures, r.status, r.error) for r in replicas)
            seen = (watched.base, *said)
            dead = watched.rows[index][0] == "down" if index < len(watched.rows) else False
            if index < len(watched.seen) and watched.seen[index] == seen and not dead:
                continue
            row = task_row(
                [_replica_row(r, watched.base) for r in replicas],
                [r.status for r in replicas],
                now_s=now_s,
                since_s=max((r.since_s for r in replicas), default=now_s),
                base=watched.base,
            )
            if index < len(watched.rows):
                watched.rows[index], watched.seen[index] = row, seen
            else:
                watched.rows.append(row)
                watched.seen.append(seen)
        return watched.rows

    def nodes(self) -> list[dict[str, Any]]:
        nodes = self.orchestrator.resources.nodes
        found = []
        for name in sorted(nodes):
            line = node_line(self.orchestrator, nodes[name])
            host = line["host_status"] or {}
            found.append(
                {
                    **{
                        key: line[key]
                        for key in ("name", "state", "host_kind", "cores", "labels", "since_s", "slots", "replicas", "stalled_s")
                    },
                    "memory_bytes": host.get("memory_bytes"),
                    "ready": host.get("ready", False),
                    "cpu": round(self._shares[name], 2) if name in self._shares else None,
                }
            )
        return found

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        events = self.orchestrator.events
        if events.last <= after:
            return [], after
        if not after:
            return [each.document() for each in events.after(0, limit=10**9)[-RECENT_EVENTS:]], events.last
        found = events.after(after)
        return [each.document() for each in found], found[-1].number if found else events.last

    def samples(self, job: int, after_s: float) -> list[list[Any]]:
        watched = self._watched.get(job)
        return [] if watched is None else [sample.row() for sample in watched.samples if round(sample.at_s, 2) > after_s]

    def views(self, job: int) -> Sequence[TaskAt]:
        live, watched = self._live(job), self._watch(job)
        if watched is None or live.layout is None:
            raise HoldfastError(f"job {job} has no tasks yet: it is {live.lifecycle.state}")
        names = [task.name for task in live.layout.tasks]
        readers: dict[str, list[str]] = {name: [] for name in names}
        for maker, reader, _ in edges_of(live.layout.tasks):
            readers[maker].append(reader)
        return [
            TaskAt(
                task.name,
                task.kind,
                tuple(ReplicaAt(r.key, r.replica, r.node, r.state) for r in self.orchestrator.replicas.of(owner, (name,))),
                tuple(dict.fromkeys(readers[task.name])),
            )
            for task, (owner, name) in zip(live.layout.tasks, watched.names, strict=True)
        ]

    async def sample(self) -> None:
        """Take one sample of every job that runs, and forget jobs that have gone. What went wrong is raised in the end."""
        now_s = self.orchestrator.time.now_s()
        self._measure_cpu()
        for number in [number for number in self._watched if number not in self.orchestrator.jobs]:
            del self._watched[number]
        wrong: list[Exception] = []
        for number in sorted(self.orchestrator.jobs, reverse=True)[:JOBS]:
            watched = self._watch(number)
            if watched is None:
                continue
            wrong += self._learn_epochs(number, watched)
            rows = self.tasks(number)
            watched.samples.append(sample_of(rows, at_s=now_s, first=watched.first, last=watched.last, cpu=dict(self._shares)))
            await asyncio.sleep(0)
        if wrong:
            raise wrong[0]

    def _quality(self, number: int) -> str | None:
        """What the output of a job was worth when it was last looked at."""
        watched = self._watched.get(number)
        return watched.samples[-1].quality if watched is not None and watched.samples else None

    def _measure_cpu(self) -> None:
        """Cores used per node since its PE host last said."""
        nodes = self.orchestrator.resources.nodes
        for name, node in nodes.items():
            if node.host is None or node.state != "up":
                self._shares.pop(name, None)
                continue
            now = node.host.beat_s, node.host.cpu_s
            before = self._cpu.get(name, now)
            if now[0] > before[0] and now[1] >= before[1]:
                self._shares[name] = (now[1] - before[1]) / (now[0] - before[0])
            self._cpu[name] = now
        for gone in self._cpu.keys() - nodes.keys():
            del self._cpu[gone]
            self._shares.pop(gone, None)

    def _learn_epochs(self, number: int, watched: _Watched) -> list[Exception]:
        """Find out how the job counts its epochs, once its first source has begun; what was wrong the last time.

        That is asked for aside: a store that is slow, or away, costs nobody a sample.
        """
        if watched.base is not None or (watched.learning is not None and not watched.learning.done()):
            return []
        log = self._live(number).document.log
        if log is None:
            watched.base = 0
            return []
        wrong, watched.wrong = watched.wrong, None
        watched.learning = asyncio.get_running_loop().create_task(self._read_epochs(log, watched))
        return [] if wrong is None else [wrong]

    async def _read_epochs(self, log: str, watched: _Watched) -> None:
        from holdfast.log import Store
        from holdfast.log.timeline import read_timeline

        try:
            timeline = await asyncio.to_thread(lambda: read_timeline(Store(log)))
        except Exception as error:  # told with the next sample: nobody waits for this
            watched.wrong = error
            return
        if timeline is not None:
            watched.base, watched.epoch_s = timeline.first - 1, timeline.epoch_s / timeline.speed

    def _watch(self, number: int) -> _Watched | None:
        live = self.orchestrator.jobs.get(number)
        if live is None or live.layout is None or number not in self.orchestrator.dataflow.graph.layouts:
            return None
        if number not in self._watched:
            graph = self.orchestrator.dataflow.graph
            names = tuple((owner, task.name) for owner, task in graph.uses(number))
            tasks = live.layout.tasks
            read = {maker for maker, _, _ in edges_of(tasks)}
            first = tuple(i for i, task in enumerate(tasks) if not task.reads and not task.shared)
            last = tuple(i for i, task in enumerate(tasks) if task.name not in read and not task.shared)
            base = 0 if live.document.log is None else None
            self._watched[number] = _Watched(names, first, last, base=base)
        return self._watched[number]

    def _live(self, number: int) -> JobState:
        live = self.orchestrator.jobs.get(number)
        if live is None:
            raise HoldfastError(f"job {number} does not run here; 'holdfast jobs' lists those that do")
        return live


def _replica_row(replica: PlacedReplica, base: int | None) -> ReplicaRow:
    status = replica.status
    return (
        replica.replica, replica.node, replica.state, replica.rank, replica.active, replica.incarnation, replica.failures,
        replica.error, epoch(status.live, base) if status else None, status.lag_s if status else None,
    )  # fmt: skip


def _application(job: JobState) -> str | None:
    return None if job.layout is None else job.layout.application
