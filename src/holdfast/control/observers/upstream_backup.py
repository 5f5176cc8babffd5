"""Upstream backup (ISORC'16, sections III and V): what a late PE does not process in time is re-routed to another replica of it.

The log keeps what was sent, so to re-route is to wake a replica: it starts from the newest checkpoint and replays what is open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.observers.activation import LIVING
from holdfast.control.observers.job_observers import Activate, Decision, Note, ReplicaView
from holdfast.documents.job import Contract, Job, Task
from holdfast.log import EpochLog, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline


@dataclass
class UpstreamBackup:
    """Wakes the idle replicas of late tasks, and lets them sleep again when the primary is back. For one job."""

    job: Job
    tasks: Sequence[Task]
    store: Store
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _rerouted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._heads = StreamProgress(EpochLog(self.store), self.timeline, self.others)
        self._protected = [t for t in self.tasks if t.kind == "operators" and self._contract(t).protection == "upstream"]

    def look(self, replicas: Sequence[ReplicaView], now_s: float) -> list[Decision]:
        """What to wake and what to let sleep."""
        decisions: list[Decision] = []
        for task in self._protected:
            living = sorted((r for r in replicas if r.task == task.name and r.state in LIVING), key=lambda r: (r.rank, r.replica))
            if len(living) > 1:
                decisions += self._switch(task, living, now_s)
        return decisions

    def _switch(self, task: Task, living: Sequence[ReplicaView], now_s: float) -> list[Decision]:
        head = self._heads.last_epoch_of_task(task)
        late_s = self._late_s(task, head, now_s)
        said: list[Decision] = []
        if task.name not in self._rerouted and late_s > self._contract(task).reroute_after_s:
            self._rerouted.add(task.name)
            about = {"task": task.name, "epoch": head + 1, "late_s": round(late_s, 3)}
            said.append(Note(f"{task.name} is late by {late_s:.1f} s; its input is re-routed to {living[1].node}", about))
        elif task.name in self._rerouted and _has_reached(living[0], head) and late_s <= self._contract(task).reroute_after_s:
            self._rerouted.remove(task.name)
            said.append(Note(f"{task.name} is back on {living[0].node}", {"task": task.name}))
        wanted = {r.replica for r in living} if task.name in self._rerouted else {living[0].replica}
        if wanted != {r.replica for r in living if r.active}:
            said.append(Activate(task.name, tuple(sorted(wanted)), why="upstream backup"))
        return said

    def _late_s(self, task: Task, head: int, now_s: float) -> float:
        """For how long the task could have gone on and has not."""
        if self.timeline.last is not None and head >= self.timeline.last:
            return 0.0
        fed_s = self._heads.inputs_ready_s(task, head + 1)
        return 0.0 if fed_s is None else max(0.0, now_s - fed_s)

    def _contract(self, task: Task) -> Contract:
        return self.job.contract_of(task.pe)


def _has_reached(replica: ReplicaView, head: int) -> bool:
    return replica.status is not None and replica.status.live is not None and replica.status.live >= head - 1
