"""Commit absent epochs for dead tasks (PPA, section V-B), so that their consumers continue without them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.observers.job_observers import Note, ReplicaView
from holdfast.control.observers.outages import Outage, Outages
from holdfast.documents.job import Job, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline
from holdfast.plural import counted

PRODUCER = "recovery manager"
ABSENT = "absent"
"""The key in a note's data for the absent records: their stream, epoch and end, in seconds since 1970."""
MAX_EPOCHS = 200
"""The most epochs committed for a task in one check, so that one dead task does not keep the others waiting."""


@dataclass
class AbsentCommitter:
    """Commits absent epochs for one job.

    A task is down from the moment when none of its replicas runs or is about to run for the first time, or when its prediction
    agent hands over. It is up again when a replica runs and has caught up with the absent epochs. While it is down, each of its
    epochs is committed as absent once its inputs have been available for the contract's `tentative_after_s`.

    All decisions follow from the log, which also stores the outages, and from the replicas. A restart changes none of them.
    """

    job: Job
    tasks: Sequence[Task]
    store: Store
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._progress = StreamProgress(EpochLog(self.store), self.timeline, self.others)
        self._outages = Outages(self.store)

    def check(self, replicas: Sequence[ReplicaView], now_s: float, *, handed_over: Collection[str] = ()) -> list[Note]:
        """Commit the absent epochs that are due, in the order of the dataflow; return notes about that and about tasks that are
        back."""
        notes: list[Note] = []
        for task in self.tasks:
            wait_s = self.job.contract_of(task.pe).tentative_after_s
            if wait_s is None or not task.makes:
                continue
            outage = self._outages.of(task.name)
            name = task.name
            own = [replica for replica in replicas if replica.task == name]
            if name not in handed_over and not self._is_down(task, own, outage):
                if outage is not None:
                    self._outages.end(task.name)
                    notes.append(Note(f"{task.name} is back", {"task": task.name}))
                continue
            outage = self._update(task, outage, now_s)
            if outage.since_s + wait_s > now_s:
                continue
            if records := self._commit(task, outage, now_s - wait_s, now_s):
                absent = [(record.stream, record.epoch, record.closed_s) for record in records]
                data = {"task": task.name, "epochs": len(records), ABSENT: absent}
                notes.append(Note(f"committed {counted(len(records), 'absent epoch')} for {task.name}", data))
        return notes

    def _is_down(self, task: Task, replicas: Sequence[ReplicaView], outage: Outage | None) -> bool:
        if any(replica.state == "finished" for replica in replicas):
            return False
        positions = [r.status.live for r in replicas if r.state == "running" and r.status is not None and r.status.live is not None]
        if not positions:
            return bool(replicas) and not (outage is None and any(_begins(replica) for replica in replicas))
        return outage is not None and max(positions) < self._progress.last_epoch_of_task(task)

    def _update(self, task: Task, outage: Outage | None, now_s: float) -> Outage:
        """Return a task's outage as it is now: its start, and since when the inputs of its missing epochs are known to be there.

        Both are by the orchestrator's clock, so that the wait does not depend on the clocks of producers.
        """
        since_s = now_s if outage is None else min(outage.since_s, now_s)
        ready_s: dict[int, float] = {}
        if task.reads:
            head = self._progress.last_epoch_of_task(task)
            known_s = outage.ready_s if outage is not None else {}
            ready_s = {epoch: min(at_s, now_s) for epoch, at_s in known_s.items() if epoch > head}
            for epoch in range(max(ready_s, default=head) + 1, head + MAX_EPOCHS + 1):
                if self._progress.inputs_ready_s(task, epoch) is None:
                    break
                ready_s[epoch] = now_s
        updated = Outage(since_s, ready_s)
        self._outages.write(task.name, updated)
        return updated

    def _commit(self, task: Task, outage: Outage, before_s: float, now_s: float) -> list[Record]:
        """Offer absent records for the epochs that a task has not committed in time; return those that were accepted."""
        records: list[Record] = []
        for stream in task.makes:
            last = self._progress.last_epoch(stream, task.task)
            while len(records) < MAX_EPOCHS and (self.timeline.last is None or last < self.timeline.last):
                ready_s = outage.ready_s.get(last + 1) if task.reads else self.timeline.closes_s(last + 1)
                if ready_s is None or ready_s > before_s:
                    break
                record = _absent(stream, task.task, last + 1, self.timeline, now_s)
                if self._progress.log.offer(record).accepted_as is not None:
                    records.append(record)
                last += 1
        return records


def _begins(replica: ReplicaView) -> bool:
    """Return whether a replica is about to run for the first time, or was just activated."""
    return (replica.state in ("placed", "starting") and replica.incarnation == 1) or (replica.state == "idle" and replica.active)


def _absent(stream: str, task: int, epoch: int, timeline: Timeline, now_s: float) -> Record:
    return Record(
        stream=stream,
        task=task,
        epoch=epoch,
        quality=Quality.ABSENT,
        files=(),
        rows=0,
        first_seq=None,
        last_seq=None,
        checksum="absent",
        producer=PRODUCER,
        closed_s=timeline.closes_s(epoch),
        committed_s=now_s,
    )
