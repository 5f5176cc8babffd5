"""A run that is over as a scene: its history played back from any moment, at any speed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.trial.run_timeseries import Usage
from holdfast.ui.job_picture import edges_of, picture_of
from holdfast.ui.past_run import PastRun
from holdfast.ui.scene import SAMPLES, TaskRow, epoch, sample_of
from holdfast.ui.what_if import COMING, LIVING, ReplicaAt, TaskAt

SAMPLE_S = 1.0


@dataclass(slots=True)
class _Task:
    """How far a task had come. `inexact` are the epochs that wait for their correction."""

    live: int | None = None
    quality: str | None = None
    rows_s: float | None = None
    latency_s: float | None = None
    inexact: set[int] = field(default_factory=set)
    replicas: dict[int, dict[str, Any]] = field(default_factory=dict)
    since_s: float = 0.0

    @property
    def newest(self) -> str | None:
        """What the newest epoch is worth by now: exact, once it was corrected."""
        return self.quality if self.live is None or self.live in self.inexact else "exact"

    @property
    def clean(self) -> int | None:
        return min(self.inexact) - 1 if self.inexact else self.live


class Playback:
    """One reader's place in a run. Time passes from `at_s` seconds after its beginning, `speed` times as fast as it did."""

    def __init__(self, run: PastRun, *, at_s: float, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.run, self._speed, self._clock = run, speed, clock
        self._from_s = min(max(run.from_s + at_s, run.from_s), run.to_s)
        self._began = clock()
        tasks = run.layout.tasks
        self._tasks = {task.name: _Task(since_s=run.from_s) for task in tasks}
        self._makers = {(stream, task.task): task.name for task in tasks for stream in task.makes}
        self._edges = edges_of(tasks)
        read = {maker for maker, _, _ in self._edges}
        self._first = tuple(i for i, task in enumerate(tasks) if not task.reads)
        self._last = tuple(i for i, task in enumerate(tasks) if task.name not in read)
        self._nodes: dict[str, str] = {}
        self._usage: dict[str, Usage] = {}
        self._event = self._told = 0
        self._sampled_s = run.from_s
        self._samples: deque[list[Any]] = deque(maxlen=SAMPLES)
        self._advance()

    def hello(self) -> dict[str, Any]:
        run = self.run
        past = {"from_s": run.from_s, "to_s": run.to_s, "opens_s": run.opens_s, "speed": self._speed, "playing": self._speed > 0}
        return {"version": version("holdfast"), "term": None, "faults": False, "past": past}

    def now_s(self) -> float:
        return min(self._from_s + (self._clock() - self._began) * self._speed, self.run.to_s)

    def jobs(self) -> list[dict[str, Any]]:
        return [self.run.line]

    def mark(self, job: int) -> Hashable:
        return job if job == self.run.number else None

    async def picture(self, job: int) -> dict[str, Any]:
        run, timeline = self.run, self.run.timeline
        epoch_s = None if timeline is None else timeline.epoch_s / timeline.speed
        return picture_of(job, run.job, run.layout, edges=self._edges, plan=run.plan, epoch_s=epoch_s)

    def tasks(self, job: int) -> Sequence[TaskRow]:
        self._advance()
        return self._rows(self.now_s())

    def nodes(self) -> list[dict[str, Any]]:
        self._advance()
        here: dict[str, int] = {}
        for task in self._tasks.values():
            for replica in task.replicas.values():
                here[replica["node"]] = here.get(replica["node"], 0) + 1
        return [
            {"name": name, "state": self._nodes[name], "host_kind": self.run.job.host_kind, "cores": None, "labels": {},
             "replicas": here.get(name, 0), "stalled_s": 0.0, "ready": True, **self._used(name)}
            for name in sorted(self._nodes)
        ]  # fmt: skip

    def _used(self, node: str) -> dict[str, float | None]:
        """What a node used as it was last told; nothing where it was lost since, or never told."""
        usage = self._usage.get(node)
        if usage is None or self._nodes[node] == "lost":
            return {"cpu": None, "memory_bytes": None}
        return {"cpu": None if usage.share is None else round(usage.share, 2), "memory_bytes": usage.memory_bytes}

    def _cpu(self) -> dict[str, float]:
        shares = {node: self._used(node)["cpu"] for node in self._nodes}
        return {node: share for node, share in shares.items() if share is not None}

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        self._advance()
        return self.run.told[after : self._told], max(after, self._told)

    def samples(self, job: int, after_s: float) -> list[list[Any]]:
        return [sample for sample in self._samples if sample[0] > after_s]

    def views(self, job: int) -> Sequence[TaskAt]:
        self._advance()
        readers: dict[str, list[str]] = {name: [] for name in self._tasks}
        for maker, reader, _ in self._edges:
            readers[maker].append(reader)
        return [
            TaskAt(
                task.name,
                task.kind,
                tuple(
                    ReplicaAt(f"{self.run.number}:{task.name}.{number}", number, replica["node"], replica["state"])
                    for number, replica in sorted(self._tasks[task.name].replicas.items())
                ),
                tuple(dict.fromkeys(readers[task.name])),
            )
            for task in self.run.layout.tasks
        ]

    def _advance(self) -> None:
        """Let happen what happened until now, with a sample for every second on the way."""
        now_s = self.now_s()
        events, told = self.run.events, self.run.told
        while self._sampled_s + SAMPLE_S <= now_s:
            self._sampled_s += SAMPLE_S
            self._until(self._sampled_s, events, told)
            sample = sample_of(
                self._rows(self._sampled_s), at_s=self._sampled_s, first=self._first, last=self._last, cpu=self._cpu()
            )
            self._samples.append(sample.row())
        self._until(now_s, events, told)

    def _until(self, at_s: float, events: list[HistoryEvent], told: list[dict[str, Any]]) -> None:
        while self._event < len(events) and events[self._event].at_s <= at_s:
            self._take(events[self._event])
            self._event += 1
        while self._told < len(told) and told[self._told]["at_s"] <= at_s:
            self._hear(told[self._told])
            self._told += 1

    def _take(self, event: HistoryEvent) -> None:
        about = event.about
        match event.kind:
            case "commit" if about["quality"] != "absent":  # that is none of the task's own
                name = self._makers.get((about["stream"], about["task"]))
                if name is not None:
                    self._done(self._tasks[name], about, at_s=event.at_s - about["closed_s"])
            case "output":
                task = self._tasks.get(f"{about['sink']}/0")
                if task is not None:
                    self._done(task, about, at_s=about["latency_s"])
            case "start":
                self._place(about["replica"], "starting", about["node"], event.at_s)
            case "host":
                self._nodes[about["node"]] = "up"
            case "usage":
                self._usage.setdefault(about["node"], Usage()).update(event.at_s, about)

    def _done(self, task: _Task, about: dict[str, Any], *, at_s: float) -> None:
        number = about["epoch"]
        task.live = number if task.live is None else max(task.live, number)  # by a correction too, where others stood in for it
        if about["as"] == "first":
            task.quality, task.latency_s = about["quality"], at_s
            timeline = self.run.timeline
            task.rows_s = None if timeline is None else about["rows"] * timeline.speed / timeline.epoch_s
            if about["quality"] != "exact":
                task.inexact.add(number)
        else:
            task.inexact.discard(number)

    def _hear(self, told: dict[str, Any]) -> None:
        text = told["text"]
        if told["kind"] == "node" and told["node"]:
            self._nodes[told["node"]] = "lost" if " is lost" in text else "up"
        if told["kind"] == "replica" and told["replica"]:
            state = told["data"].get("state")
            if state is None and text.startswith(("moved from", "started again")):
                state = "placed"
            if state is not None:
                self._place(told["replica"], state, told["node"], told["at_s"], error=text if state in ("failed", "lost") else None)

    def _place(self, key: str, state: str, node: str, at_s: float, *, error: str | None = None) -> None:
        name, _, number = key.partition(":")[2].rpartition(".")
        task = self._tasks.get(name)
        if task is None:
            return
        replica = task.replicas.setdefault(int(number), {"starts": 0})
        replica.update(state=state, node=node, error=error, starts=replica["starts"] + (state == "placed" or not replica["starts"]))
        task.since_s = at_s

    def _rows(self, now_s: float) -> list[TaskRow]:
        return [self._row(self._tasks[task.name], now_s) for task in self.run.layout.tasks]

    def _row(self, task: _Task, now_s: float) -> TaskRow:
        timeline = self.run.timeline
        base = 0 if timeline is None else timeline.first - 1
        lag_s: float | None = None
        if timeline is not None and task.live is not None:
            lag_s = round(max(0, timeline.last_closed_epoch(now_s) - task.live) * timeline.epoch_s / timeline.speed, 3)
        states = [replica["state"] for replica in task.replicas.values()]
        replicas = tuple(
            (number, r["node"], r["state"], number, True, r["starts"], 0, r["error"], epoch(task.live, base), lag_s)
            for number, r in sorted(task.replicas.items())
        )
        heads = epoch(task.live, base), epoch(task.clean, base)
        if any(state in LIVING for state in states):
            return "running", task.newest, *heads, lag_s, _short(task.rows_s), _short(task.latency_s), replicas
        coming = next((state for state in states if state in COMING), None)
        if coming is not None or not states:
            return coming or "none", None, *heads, None, None, None, replicas
        if set(states) <= {"stopped", "finished"}:
            return "finished", task.newest, *heads, None, None, None, replicas
        return "down", "absent", *heads, round(max(0.0, now_s - task.since_s), 1), 0.0, None, replicas


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
