"""Going on without a dead producer (PPA section V-B): its epochs are committed as absent, and consumers work with what there is."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.observers.job_observers import Note, ReplicaView
from holdfast.documents.job import Job, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline

PRODUCER = "recovery manager"
ABSENT = "absent"
"""Under this name a note has the stream, the epoch and its end, in seconds since 1970, of each absent record."""
AT_ONCE = 200
"""The most epochs that are stood in for in one look, so that one dead task cannot keep the others waiting."""


@dataclass
class AbsentCommitter:
    """The recovery manager's part in the data path, for one job.

    A task is down from the moment at which none of its replicas runs or is about to, or its prediction agent hands over, until one
    of them runs and has caught up with what was committed in its stead. While it is down, each of its epochs is committed as absent
    once the inputs have been there for as long as its contract waits.
    """

    job: Job
    tasks: Sequence[Task]
    store: Store
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _down_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._heads = StreamProgress(EpochLog(self.store), self.timeline, self.others)

    def look(self, replicas: Sequence[ReplicaView], now_s: float, *, handed_over: Collection[str] = ()) -> list[Note]:
        """Commit what is due, in the order in which streams flow, and tell when it begins and ends."""
        notes: list[Note] = []
        for task in self.tasks:
            wait_s = self.job.contract_of(task.pe).tentative_after_s
            if wait_s is None or not task.makes:
                continue
            mine = [replica for replica in replicas if replica.task == task.name]
            if task.name not in handed_over and not self._is_down(task, mine):
                if task.name in self._down_s:
                    del self._down_s[task.name]
                    notes.append(Note(f"{task.name} is back", {"task": task.name}))
                continue
            if self._down_s.setdefault(task.name, now_s) + wait_s > now_s:
                continue
            if made := self._commit(task, now_s - wait_s, now_s):
                absent = [(record.stream, record.epoch, record.closed_s) for record in made]
                about = {"task": task.name, "epochs": len(made), ABSENT: absent}
                notes.append(Note(f"committed {len(made)} absent epochs for {task.name}", about))
        return notes

    def _is_down(self, task: Task, replicas: Sequence[ReplicaView]) -> bool:
        running = [r for r in replicas if r.state == "running" and r.status is not None and r.status.live is not None]
        if not running:
            ready = [r for r in replicas if r.state in ("placed", "starting", "finished") or (r.state == "idle" and r.active)]
            return bool(replicas) and not (task.name not in self._down_s and ready)
        if task.name not in self._down_s:
            return False
        return max(r.status.live for r in running if r.status and r.status.live is not None) < self._heads.last_epoch_of_task(task)

    def _commit(self, task: Task, before_s: float, now_s: float) -> list[Record]:
        """Offer absent records for what a task has not made in time; those that were taken."""
        made: list[Record] = []
        for stream in task.makes:
            head = self._heads.last_epoch(stream, task.task)
            while len(made) < AT_ONCE and (self.timeline.last is None or head < self.timeline.last):
                fed_s = self._heads.inputs_ready_s(task, head + 1)
                if fed_s is None or fed_s > before_s:
                    break
                record = _absent(stream, task.task, head + 1, self.timeline, now_s)
                if self._heads.log.offer(record).accepted_as is not None:
                    made.append(record)
                head += 1
        return made


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
