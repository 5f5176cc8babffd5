"""Supply the page with the data of a run that has ended: play its history back from any moment, at any speed."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.trial.run_timeseries import Usage
from holdfast.ui.job_picture import build_picture, find_edges, find_readers
from holdfast.ui.page_data import MAX_SAMPLES, TaskRow, build_sample, relative_epoch, round_ms
from holdfast.ui.past_run import PastRun
from holdfast.ui.what_if import RUNNING_STATES, STARTING_STATES, ReplicaView, TaskView

SAMPLE_INTERVAL_S = 1.0


@dataclass(slots=True)
class _TaskState:
    """The state of a task at the moment shown. `inexact` are its epochs that await a correction."""

    live: int | None = None
    quality: str | None = None
    rows_s: float | None = None
    latency_s: float | None = None
    inexact: set[int] = field(default_factory=set)
    replicas: dict[int, dict[str, Any]] = field(default_factory=dict)
    since_s: float = 0.0

    @property
    def newest_quality(self) -> str | None:
        """The quality of the newest epoch, which is exact once it has been corrected."""
        return self.quality if self.live is None or self.live in self.inexact else "exact"

    @property
    def clean(self) -> int | None:
        return min(self.inexact) - 1 if self.inexact else self.live


class Playback:
    """The page's data of one viewer. Playback starts `at_s` seconds after the start of the run, at `speed` times its pace."""

    def __init__(self, run: PastRun, *, at_s: float, speed: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.run, self._speed, self._clock = run, speed, clock
        self._from_s = min(max(run.from_s + at_s, run.from_s), run.to_s)
        self._started_s = clock()
        tasks = run.layout.tasks
        self._tasks = {task.name: _TaskState(since_s=run.from_s) for task in tasks}
        self._producers = {(stream, task.task): task.name for task in tasks for stream in task.makes}
        self._edges = find_edges(tasks)
        producers = {producer for producer, _, _ in self._edges}
        self._inputs = tuple(i for i, task in enumerate(tasks) if not task.reads)
        self._outputs = tuple(i for i, task in enumerate(tasks) if task.name not in producers)
        self._node_states: dict[str, str] = {}
        self._usage: dict[str, Usage] = {}
        self._next_event = self._next_page_event = 0
        self._sampled_s = run.from_s
        self._samples: deque[list[Any]] = deque(maxlen=MAX_SAMPLES)
        self._advance()

    def hello(self) -> dict[str, Any]:
        run = self.run
        past = {"from_s": run.from_s, "to_s": run.to_s, "opens_s": run.opens_s, "speed": self._speed, "playing": self._speed > 0}
        return {"version": version("holdfast"), "term": None, "faults": False, "past": past}

    def now_s(self) -> float:
        return min(self._from_s + (self._clock() - self._started_s) * self._speed, self.run.to_s)

    def jobs(self) -> list[dict[str, Any]]:
        return [self.run.line]

    def picture_version(self, job: int) -> Hashable:
        return job if job == self.run.number else None

    async def picture(self, job: int) -> dict[str, Any]:
        run, timeline = self.run, self.run.timeline
        epoch_s = None if timeline is None else timeline.epoch_s / timeline.speed
        return build_picture(job, run.job, run.layout, edges=self._edges, plan=run.plan, epoch_s=epoch_s)

    def tasks(self, job: int) -> Sequence[TaskRow]:
        self._advance()
        return self._build_rows(self.now_s())

    def nodes(self) -> list[dict[str, Any]]:
        self._advance()
        replicas = Counter(replica["node"] for task in self._tasks.values() for replica in task.replicas.values())
        return [
            {"name": name, "state": self._node_states[name], "host_kind": self.run.job.host_kind, "cores": None, "labels": {},
             "replicas": replicas[name], "stalled_s": 0.0, "ready": True, **self._usage_of(name)}
            for name in sorted(self._node_states)
        ]  # fmt: skip

    def _usage_of(self, node: str) -> dict[str, float | None]:
        """Return the CPU and memory that a node last reported, or None for both if it is lost or never reported."""
        usage = self._usage.get(node)
        if usage is None or self._node_states[node] == "lost":
            return {"cpu": None, "memory_bytes": None}
        return {"cpu": None if usage.share is None else round(usage.share, 2), "memory_bytes": usage.memory_bytes}

    def _cores_used(self) -> dict[str, float]:
        shares = {node: self._usage_of(node)["cpu"] for node in self._node_states}
        return {node: share for node, share in shares.items() if share is not None}

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        self._advance()
        return self.run.page_events[after : self._next_page_event], max(after, self._next_page_event)

    def samples(self, job: int, after_s: float) -> list[list[Any]]:
        return [sample for sample in self._samples if sample[0] > after_s]

    def task_views(self, job: int) -> Sequence[TaskView]:
        self._advance()
        readers = find_readers(self.run.layout.tasks, self._edges)
        return [
            TaskView(
                task.name,
                task.kind,
                tuple(
                    ReplicaView(f"{self.run.number}:{task.name}.{number}", number, replica["node"], replica["state"])
                    for number, replica in sorted(self._tasks[task.name].replicas.items())
                ),
                readers[task.name],
            )
            for task in self.run.layout.tasks
        ]

    def _advance(self) -> None:
        """Apply all events up to now, and take a sample for every second in between."""
        now_s = self.now_s()
        while self._sampled_s + SAMPLE_INTERVAL_S <= now_s:
            self._sampled_s += SAMPLE_INTERVAL_S
            self._apply_until(self._sampled_s)
            rows, cpu = self._build_rows(self._sampled_s), self._cores_used()
            sample = build_sample(rows, at_s=self._sampled_s, inputs=self._inputs, outputs=self._outputs, cpu=cpu)
            self._samples.append(sample.row())
        self._apply_until(now_s)

    def _apply_until(self, at_s: float) -> None:
        events, page_events = self.run.events, self.run.page_events
        while self._next_event < len(events) and events[self._next_event].at_s <= at_s:
            self._apply_event(events[self._next_event])
            self._next_event += 1
        while self._next_page_event < len(page_events) and page_events[self._next_page_event]["at_s"] <= at_s:
            self._apply_page_event(page_events[self._next_page_event])
            self._next_page_event += 1

    def _apply_event(self, event: HistoryEvent) -> None:
        about = event.about
        match event.kind:
            case "commit" if about["quality"] != "absent":  # the orchestrator commits absent epochs, not the task
                name = self._producers.get((about["stream"], about["task"]))
                if name is not None:
                    self._apply_commit(self._tasks[name], about, latency_s=event.at_s - about["closed_s"])
            case "output":
                task = self._tasks.get(f"{about['sink']}/0")
                if task is not None:
                    self._apply_commit(task, about, latency_s=about["latency_s"])
            case "start":
                self._set_replica(about["replica"], "starting", about["node"], event.at_s)
            case "host":
                self._node_states[about["node"]] = "up"
            case "usage":
                self._usage.setdefault(about["node"], Usage()).update(event.at_s, about)

    def _apply_commit(self, task: _TaskState, about: dict[str, Any], *, latency_s: float) -> None:
        number = about["epoch"]
        task.live = number if task.live is None else max(task.live, number)  # a correction may be its only own commit
        if about["as"] == "first":
            task.quality, task.latency_s = about["quality"], latency_s
            timeline = self.run.timeline
            task.rows_s = None if timeline is None else about["rows"] * timeline.speed / timeline.epoch_s
            if about["quality"] != "exact":
                task.inexact.add(number)
        else:
            task.inexact.discard(number)

    def _apply_page_event(self, event: dict[str, Any]) -> None:
        text = event["text"]
        if event["kind"] == "node" and event["node"]:
            self._node_states[event["node"]] = "lost" if " is lost" in text else "up"
        if event["kind"] == "replica" and event["replica"]:
            state = event["data"].get("state")
            if state is None and text.startswith(("moved from", "started again")):
                state = "placed"
            if state is not None:
                error = text if state in ("failed", "lost") else None
                self._set_replica(event["replica"], state, event["node"], event["at_s"], error=error)

    def _set_replica(self, key: str, state: str, node: str, at_s: float, *, error: str | None = None) -> None:
        name, _, number = key.partition(":")[2].rpartition(".")
        task = self._tasks.get(name)
        if task is None:
            return
        replica = task.replicas.setdefault(int(number), {"starts": 0})
        replica.update(state=state, node=node, error=error, starts=replica["starts"] + (state == "placed" or not replica["starts"]))
        task.since_s = at_s

    def _build_rows(self, now_s: float) -> list[TaskRow]:
        return [self._build_row(self._tasks[task.name], now_s) for task in self.run.layout.tasks]

    def _build_row(self, task: _TaskState, now_s: float) -> TaskRow:
        timeline = self.run.timeline
        epoch_base = 0 if timeline is None else timeline.first - 1
        lag_s: float | None = None
        if timeline is not None and task.live is not None:
            lag_s = round(max(0, timeline.last_closed_epoch(now_s) - task.live) * timeline.epoch_s / timeline.speed, 3)
        live, clean = relative_epoch(task.live, epoch_base), relative_epoch(task.clean, epoch_base)
        states = [replica["state"] for replica in task.replicas.values()]
        replicas = tuple(
            (number, r["node"], r["state"], number, True, r["starts"], 0, r["error"], live, lag_s, 0)
            for number, r in sorted(task.replicas.items())
        )
        if any(state in RUNNING_STATES for state in states):
            return "running", task.newest_quality, live, clean, lag_s, round_ms(task.rows_s), round_ms(task.latency_s), replicas
        starting = next((state for state in states if state in STARTING_STATES), None)
        if starting is not None or not states:
            return starting or "none", None, live, clean, None, None, None, replicas
        if set(states) <= {"stopped", "finished"}:
            return "finished", task.newest_quality, live, clean, None, None, None, replicas
        return "down", "absent", live, clean, round(max(0.0, now_s - task.since_s), 1), 0.0, None, replicas
