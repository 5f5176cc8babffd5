"""Adaptation (PPA, section V-C): the plan of a running job follows the measured rates.

Every task of such a job has a second replica, which is idle unless the current plan contains the task. So a new plan only switches
replicas on and off.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from holdfast.control.nodes.replicas import LIVING
from holdfast.control.observers.job_observers import Activate, Decision, Note, ReplicaView
from holdfast.documents.job import Adapting, Task
from holdfast.documents.topology import Topology
from holdfast.log import EpochLog, Store
from holdfast.log.stream_progress import StreamProgress, locate_streams
from holdfast.log.timeline import Timeline
from holdfast.planning.ppa import Frontier, Measure, internal_completeness, output_fidelity
from holdfast.planning.ppa.adaptation import adapt

WINDOW = 60
"""The number of newest epochs over which a rate is averaged."""

ADAPTED = "adapted"
"""The name of the current plan in the log, from which a restarted orchestrator continues."""


@dataclass
class TaskRates:
    """Measures each task's output rate, in tuples per second of the wall clock, from the final records of its newest epochs.

    An epoch without a final record is left out until it is corrected, because its missing rows are due to a failure. `others` are
    the logs of other jobs that feed sources of this one, by job name.
    """

    log: EpochLog
    timeline: Timeline
    tasks: Sequence[Task]
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _rows: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    _uncorrected: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    _last_read: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._streams = locate_streams(self.tasks, StreamProgress(self.log, self.timeline, self.others))

    def update(self) -> None:
        """Read the epochs that were committed since the last call."""
        for key, (progress, stream) in self._streams.items():
            last = progress.last_epoch(stream, key[1])
            self._read(key, range(max(self._last_read.get(key, 0), last - WINDOW) + 1, last + 1))
            self._last_read[key] = last

    def _read(self, key: tuple[str, int], epochs: Iterable[int]) -> None:
        """Read the final records of these epochs, and remember which epochs have none yet."""
        progress, stream = self._streams[key]
        rows, uncorrected = self._rows.setdefault(key, {}), self._uncorrected.setdefault(key, set())
        for epoch in epochs:
            record = progress.log.final(stream, key[1], epoch=epoch)
            if record is None:
                uncorrected.add(epoch)
            else:
                uncorrected.discard(epoch)
                rows[epoch] = record.rows
        for epoch in sorted(rows)[:-WINDOW]:
            del rows[epoch]

    def measured(self, topology: Topology) -> Topology | None:
        """Return the topology with the measured rates in place of its own; None before there are any."""
        for key, uncorrected in self._uncorrected.items():
            recent = {epoch for epoch in uncorrected if epoch > self._last_read[key] - WINDOW}
            uncorrected.intersection_update(recent)
            self._read(key, recent)
        if not all(self._rows.values()):
            return None
        seconds = self.timeline.epoch_s / self.timeline.speed
        operators = dict(topology.operators)
        for name, operator in operators.items():
            tasks = [self._rows.get((name, number)) for number in range(operator.parallelism)]
            rates = tuple(fmean(rows.values()) / seconds for rows in tasks if rows)
            if len(rates) == operator.parallelism:
                operators[name] = operator.model_copy(update={"rates": rates, "rate": None, "selectivity": None})
        return Topology(topology=topology.topology, operators=operators)


@dataclass
class Adaptor:
    """Switches the replicas of one job to the current plan, and computes a new plan when the rates have changed enough.

    The first plan is `initial`, or the plan in the log that an earlier adaptor derived from `initial`.
    """

    adapting: Adapting
    topology: Topology
    initial: tuple[str, ...]
    tasks: Sequence[Task]
    rates: TaskRates
    store: Store
    _next_s: float | None = None

    def __post_init__(self) -> None:
        content = self.store.read(ADAPTED)
        stored = json.loads(content) if content is not None else {}
        self.planned = tuple(stored["planned"]) if stored.get("initial") == list(self.initial) else self.initial

    def check(self, replicas: Sequence[ReplicaView], now_s: float) -> list[Decision]:
        """Return the switches to make, and a note about a new plan if there is one."""
        self.rates.update()
        decisions: list[Decision] = []
        if self._next_s is None:
            self._next_s = now_s + self.adapting.every_s
        elif now_s >= self._next_s:
            self._next_s = now_s + self.adapting.every_s
            decisions += self._plan()
        home = {f"{operator}/{task.task}": task.name for task in self.tasks for operator in (task.operators or (task.pe,))}
        protected = {home[name] for name in self.planned if name in home}  # a source that another job feeds has no task here
        for task in self.tasks:
            if task.kind != "sink" and task.replicas > 1:
                decisions += _switch(task, [r for r in replicas if r.task == task.name], protected=task.name in protected)
        return decisions

    def _plan(self) -> list[Decision]:
        topology = self.rates.measured(self.topology)
        if topology is None:
            return []
        measure = self._measure(topology)
        adapted = adapt(measure, self.planned, budget=self.adapting.budget, planner=Frontier(), move_worth=self.adapting.move_worth)
        if not adapted.start and not adapted.stop:
            return []
        self._write({*self.planned} - {*adapted.stop} | {*adapted.start})
        quality, was = adapted.plan.quality, adapted.kept_quality
        data = {"start": list(adapted.start), "stop": list(adapted.stop), "quality": quality, "was": was}
        moves = [f"starts {name}" for name in adapted.start] + [f"stops {name}" for name in adapted.stop]
        text = f"the plan follows the rates: {', '.join(moves)} (worth {quality:.3f}, was {was:.3f})"
        return [Note(text, data)]

    def _write(self, planned: Iterable[str]) -> None:
        """Write a new plan to the log before it is carried out."""
        tasks = sorted(planned)
        self.store.replace(ADAPTED, json.dumps({"initial": list(self.initial), "planned": tasks}).encode())
        self.planned = tuple(tasks)

    def _measure(self, topology: Topology) -> Measure:
        return output_fidelity(topology) if self.adapting.objective == "of" else internal_completeness(topology)


def _switch(task: Task, replicas: Sequence[ReplicaView], *, protected: bool) -> list[Decision]:
    """Return decisions that activate all living replicas of a protected task, or one of another task; none if it has finished."""
    if any(r.state == "finished" for r in replicas):
        return []
    living = sorted((r for r in replicas if r.state in LIVING), key=lambda r: (not r.active, r.rank, r.replica))
    active = {r.replica for r in (living if protected else living[:1])}
    if not living or active == {r.replica for r in living if r.active}:
        return []
    return [Activate(task.name, tuple(sorted(active)), cause="the current plan")]
