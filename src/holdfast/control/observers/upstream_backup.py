"""Upstream backup (ISORC'16, sections III and V): the input of a late task is re-routed to another replica of it.

The log keeps all input, so re-routing means activating an idle replica: it starts from the newest checkpoint and replays the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.nodes.replicas import LIVING
from holdfast.control.observers.job_observers import Activate, Decision, Note, ReplicaView
from holdfast.documents.job import Contract, Job, Task
from holdfast.log import EpochLog, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline


@dataclass
class UpstreamBackup:
    """Activates the idle replicas of a job's late tasks, and idles them again when the primary is back.

    The first check of a task finds out whether an earlier orchestrator has re-routed its input: a secondary is then active, and the
    primary is not where the task's stream is.
    """

    job: Job
    tasks: Sequence[Task]
    store: Store
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _rerouted: set[str] = field(default_factory=set)
    _checked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._progress = StreamProgress(EpochLog(self.store), self.timeline, self.others)
        self._protected = [t for t in self.tasks if t.kind == "operators" and self._contract(t).protection == "upstream"]

    def check(self, replicas: Sequence[ReplicaView], now_s: float) -> list[Decision]:
        """Return which replicas to activate and to idle."""
        decisions: list[Decision] = []
        for task in self._protected:
            living = sorted((r for r in replicas if r.task == task.name and r.state in LIVING), key=lambda r: (r.rank, r.replica))
            if len(living) > 1:
                decisions += self._switch(task, living, now_s)
            elif living and not living[0].active:  # a policy may leave the other replicas dead while this one lives
                decisions.append(Activate(task.name, (living[0].replica,), cause="the only living replica"))
        return decisions

    def _switch(self, task: Task, living: Sequence[ReplicaView], now_s: float) -> list[Decision]:
        last = self._progress.last_epoch_of_task(task)
        late_s = self._late_s(task, last, now_s)
        if task.name not in self._checked:
            self._checked.add(task.name)
            if last >= self.timeline.first and any(r.active for r in living[1:]) and not _has_reached(living[0], last):
                self._rerouted.add(task.name)
        decisions: list[Decision] = []
        if task.name not in self._rerouted and late_s > self._contract(task).reroute_after_s:
            self._rerouted.add(task.name)
            data = {"task": task.name, "epoch": last + 1, "late_s": round(late_s, 3)}
            decisions.append(Note(f"{task.name} is late by {late_s:.1f} s; its input is re-routed to {living[1].node}", data))
        elif task.name in self._rerouted and _has_reached(living[0], last) and late_s <= self._contract(task).reroute_after_s:
            self._rerouted.remove(task.name)
            decisions.append(Note(f"{task.name} is back on {living[0].node}", {"task": task.name}))
        active = {r.replica for r in living} if task.name in self._rerouted else {living[0].replica}
        if active != {r.replica for r in living if r.active}:
            decisions.append(Activate(task.name, tuple(sorted(active)), cause="upstream backup"))
        return decisions

    def _late_s(self, task: Task, last: int, now_s: float) -> float:
        """Return for how long the input of the task's next epoch has been ready."""
        if self.timeline.last is not None and last >= self.timeline.last:
            return 0.0
        ready_s = self._progress.inputs_ready_s(task, last + 1)
        return 0.0 if ready_s is None else max(0.0, now_s - ready_s)

    def _contract(self, task: Task) -> Contract:
        return self.job.contract_of(task.pe)


def _has_reached(replica: ReplicaView, epoch: int) -> bool:
    return replica.status is not None and replica.status.live is not None and replica.status.live >= epoch - 1
