"""Plans that follow the rates while a job runs (PPA section V-C): measured continuously, planned anew now and then.

Every task of such a job has a second replica. It is idle, and costs nothing but its place, unless the plan of the moment names
the task: a better plan is then a matter of switching replicas on and off.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from holdfast.control.observers.activation import LIVING
from holdfast.control.observers.job_observers import Activate, Decision, Note, ReplicaView
from holdfast.documents.job import Adapting, Task
from holdfast.documents.topology import Topology
from holdfast.log import EpochLog, Store
from holdfast.log.stream_progress import StreamProgress, locate_streams
from holdfast.log.timeline import Timeline
from holdfast.planning.ppa import Frontier, Measure, internal_completeness, output_fidelity
from holdfast.planning.ppa.adaptation import adapt

WINDOW = 60
"""Over how many of the newest epochs a rate is averaged."""

ADAPTED = "adapted"
"""The name in the log of the plan of the moment, so that an orchestrator that is started again goes on with it."""


@dataclass
class TaskRates:
    """The rate at which rows leave each task, in tuples per second of the wall clock, from the records of its newest epochs.

    `others` are the logs of other jobs that feed sources of this one, by the jobs' names.
    """

    log: EpochLog
    timeline: Timeline
    tasks: Sequence[Task]
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _rows: dict[tuple[str, int], deque[int]] = field(default_factory=dict)
    _read: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._streams = locate_streams(self.tasks, StreamProgress(self.log, self.timeline, self.others))

    def look(self) -> None:
        """Take note of the epochs that have been committed since the last look."""
        for key, (heads, stream) in self._streams.items():
            head = heads.last_epoch(stream, key[1])
            rows = self._rows.setdefault(key, deque(maxlen=WINDOW))
            for epoch in range(max(self._read.get(key, 0), head - WINDOW) + 1, head + 1):
                record = heads.log.newest(stream, key[1], epoch=epoch)
                if record is not None:
                    rows.append(record.rows)
            self._read[key] = head

    def measured(self, topology: Topology) -> Topology | None:
        """The topology with the measured rates in place of its own, where a stream leaves its PE; None before there are any."""
        if not all(self._rows.values()):
            return None
        seconds = self.timeline.epoch_s / self.timeline.speed
        operators = dict(topology.operators)
        for name, operator in operators.items():
            mine = [self._rows.get((name, number)) for number in range(operator.parallelism)]
            rates = tuple(fmean(rows) / seconds for rows in mine if rows)
            if len(rates) == operator.parallelism:
                operators[name] = operator.model_copy(update={"rates": rates, "rate": None, "selectivity": None})
        return Topology(topology=topology.topology, operators=operators)


@dataclass
class Adaptor:
    """Keeps the replicas of one job as the plan of the moment has them, and makes a new plan where the rates ask for one.

    It begins with the plan that was `given`, or with what an adaptor before it has left in the log as following from that.
    """

    adapting: Adapting
    topology: Topology
    given: tuple[str, ...]
    tasks: Sequence[Task]
    rates: TaskRates
    store: Store
    _next_s: float | None = None

    def __post_init__(self) -> None:
        content = self.store.read(ADAPTED)
        left = json.loads(content) if content is not None else {}
        self.planned = tuple(left["planned"]) if left.get("given") == list(self.given) else self.given

    def look(self, replicas: Sequence[ReplicaView], now_s: float) -> list[Decision]:
        """What to switch, and the new plan in words where there is one."""
        self.rates.look()
        said: list[Decision] = []
        if self._next_s is None:
            self._next_s = now_s + self.adapting.every_s
        elif now_s >= self._next_s:
            self._next_s = now_s + self.adapting.every_s
            said += self._plan()
        home = {f"{operator}/{task.task}": task.name for task in self.tasks for operator in (task.operators or (task.pe,))}
        protected = {home[name] for name in self.planned if name in home}  # a source that another job feeds is not ours
        for task in self.tasks:
            if task.kind != "sink" and task.replicas > 1:
                said += _switched(task, [r for r in replicas if r.task == task.name], whole=task.name in protected)
        return said

    def _plan(self) -> list[Decision]:
        topology = self.rates.measured(self.topology)
        if topology is None:
            return []
        measure = self._measure(topology)
        found = adapt(measure, self.planned, budget=self.adapting.budget, planner=Frontier(), move_worth=self.adapting.move_worth)
        if not found.start and not found.stop:
            return []
        self._keep({*self.planned} - {*found.stop} | {*found.start})
        about = {"start": list(found.start), "stop": list(found.stop), "quality": found.plan.quality, "was": found.kept_quality}
        moves = [f"starts {name}" for name in found.start] + [f"stops {name}" for name in found.stop]
        text = f"the plan follows the rates: {', '.join(moves)} (worth {found.plan.quality:.3f}, was {found.kept_quality:.3f})"
        return [Note(text, about)]

    def _keep(self, planned: Iterable[str]) -> None:
        """Write a new plan before it is acted upon."""
        tasks = sorted(planned)
        self.store.replace(ADAPTED, json.dumps({"given": list(self.given), "planned": tasks}).encode())
        self.planned = tuple(tasks)

    def _measure(self, topology: Topology) -> Measure:
        return output_fidelity(topology) if self.adapting.objective == "of" else internal_completeness(topology)


def _switched(task: Task, replicas: Sequence[ReplicaView], *, whole: bool) -> list[Decision]:
    """All living replicas active where the task is protected; else one: the primary, or what is there of it. None any more of a
    task that has come to its end."""
    if any(r.state == "finished" for r in replicas):
        return []
    living = sorted((r for r in replicas if r.state in LIVING), key=lambda r: (not r.active, r.rank, r.replica))
    wanted = {r.replica for r in (living if whole else living[:1])}
    if not living or wanted == {r.replica for r in living if r.active}:
        return []
    return [Activate(task.name, tuple(sorted(wanted)), why="the plan of the moment")]
