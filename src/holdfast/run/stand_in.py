"""Going on without a dead producer (PPA section V-B): its epochs are committed as absent, and consumers work with what there is."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.manage.supervisors import Note, ReplicaView
from holdfast.model.job import Job, Task
from holdfast.run.timeline import Timeline

PRODUCER = "recovery manager"
AT_ONCE = 200
"""The most epochs that are stood in for in one look, so that one dead task cannot keep the others waiting."""


@dataclass
class StandIn:
    """The recovery manager's part in the data path, for one job.

    A task is down from the moment at which none of its replicas runs until one of them runs and has caught up with what was
    committed in its stead. While it is down, each of its epochs is committed as absent once the inputs have been there for as
    long as its contract waits.
    """

    job: Job
    tasks: Sequence[Task]
    store: Store
    timeline: Timeline
    _heads: dict[tuple[str, int], int] = field(default_factory=dict)
    _down_s: dict[str, float] = field(default_factory=dict)

    def look(self, replicas: Sequence[ReplicaView], now_s: float) -> list[Note]:
        """Commit what is due, in the order in which streams flow, and tell when it begins and ends."""
        log = EpochLog(self.store)
        notes: list[Note] = []
        for task in self.tasks:
            wait_s = self.job.contract_of(task.pe).tentative_after_s
            if wait_s is None or not task.makes:
                continue
            mine = [replica for replica in replicas if replica.task == task.name]
            if not self._is_down(log, task, mine, now_s):
                if task.name in self._down_s:
                    del self._down_s[task.name]
                    notes.append(Note(f"{task.name} is back; nothing stands in for it any more", {"task": task.name}))
                continue
            if self._down_s.setdefault(task.name, now_s) + wait_s > now_s:
                continue
            done = self._commit(log, task, now_s - wait_s, now_s)
            if done:
                notes.append(Note(f"stood in for {task.name}: {done} epochs absent", {"task": task.name, "epochs": done}))
        return notes

    def _is_down(self, log: EpochLog, task: Task, replicas: Sequence[ReplicaView], now_s: float) -> bool:
        running = [r for r in replicas if r.state == "running" and r.status is not None and r.status.live is not None]
        if not running:
            ready = [r for r in replicas if r.state in ("placed", "starting", "finished")]
            return bool(replicas) and not (task.name not in self._down_s and ready)
        if task.name not in self._down_s:
            return False
        heads = [self._head(log, stream, task.task) for stream in task.makes]
        return max(r.status.live for r in running if r.status and r.status.live is not None) < min(heads)

    def _commit(self, log: EpochLog, task: Task, before_s: float, now_s: float) -> int:
        done = 0
        for stream in task.makes:
            head = self._head(log, stream, task.task)
            while done < AT_ONCE and (self.timeline.last is None or head < self.timeline.last):
                if not self._due(log, task, head + 1, before_s):
                    break
                log.offer(_absent(stream, task.task, head + 1, self.timeline, now_s))
                head = self._heads[stream, task.task] = head + 1
                done += 1
        return done

    def _due(self, log: EpochLog, task: Task, epoch: int, before_s: float) -> bool:
        """Whether all that the task needs for an epoch has been there since `before_s`."""
        if not task.reads:
            return self.timeline.closes_s(epoch) <= before_s
        for reading in task.reads:
            for number in reading.tasks:
                record = log.first(reading.stream, number, epoch=epoch) if reading.job is None else None
                if record is None or record.committed_s > before_s:
                    return False
        return True

    def _head(self, log: EpochLog, stream: str, task: int) -> int:
        """The last epoch of a stream; where the look-up would start behind what was trimmed, from the oldest that is left."""
        key = stream, task
        if key not in self._heads:
            oldest = log.oldest(stream, task)
            self._heads[key] = self.timeline.first - 1 if oldest is None else oldest - 1
        self._heads[key] = log.head(stream, task, after=self._heads[key])
        return self._heads[key]


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
