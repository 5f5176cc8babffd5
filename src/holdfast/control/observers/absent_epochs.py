"""Commit absent epochs for dead tasks (PPA, section V-B), so that their consumers continue without them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.observers.job_observers import Note, ReplicaView
from holdfast.documents.job import Job, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline, by_own_clock

PRODUCER = "recovery manager"
ABSENT = "absent"
"""The key in a note's data for the absent records: their stream, epoch and end, in seconds since 1970."""
MAX_EPOCHS = 200
"""The most epochs committed for a task in one check, so that one dead task does not keep the others waiting."""


@dataclass
class AbsentCommitter:
    """Commits absent epochs for one job.

    A task is down from the moment when none of its replicas runs or is about to run, or when its prediction agent hands over. It
    is up again when a replica runs and has caught up with the absent epochs. While it is down, each of its epochs is committed as
    absent once its inputs have been available for the contract's `tentative_after_s`.

    The first check of a task reads from the log whether an earlier orchestrator has left it down: its last epoch is then absent.
    """

    job: Job
    tasks: Sequence[Task]
    store: Store
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _down_s: dict[str, float] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    _ready_s: dict[str, dict[int, float]] = field(default_factory=dict)
    _missing_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._progress = StreamProgress(EpochLog(self.store), self.timeline, self.others)

    def check(self, replicas: Sequence[ReplicaView], now_s: float, *, handed_over: Collection[str] = ()) -> list[Note]:
        """Commit the absent epochs that are due, in the order of the dataflow; return notes about that and about tasks that are
        back."""
        notes: list[Note] = []
        for task in self.tasks:
            wait_s = self.job.contract_of(task.pe).tentative_after_s
            if wait_s is None or not task.makes:
                continue
            if task.name not in self._checked:
                if self._ends_absent(task):
                    self._down_s[task.name] = 0.0
                self._checked.add(task.name)
            own = [replica for replica in replicas if replica.task == task.name]
            if task.name not in handed_over and not self._is_down(task, own):
                if task.name in self._down_s:
                    del self._down_s[task.name]
                    self._ready_s.pop(task.name, None)
                    self._missing_s.pop(task.name, None)
                    notes.append(Note(f"{task.name} is back", {"task": task.name}))
                continue
            self._read_inputs(task, now_s)
            if self._down_s.setdefault(task.name, now_s) + wait_s > now_s:
                continue
            if records := self._commit(task, now_s - wait_s, now_s):
                absent = [(record.stream, record.epoch, record.closed_s) for record in records]
                data = {"task": task.name, "epochs": len(records), ABSENT: absent}
                notes.append(Note(f"committed {len(records)} absent epochs for {task.name}", data))
        return notes

    def _ends_absent(self, task: Task) -> bool:
        """Return whether the last epoch of one of a task's streams is absent."""
        log = self._progress.log
        last = (log.first(stream, task.task, epoch=self._progress.last_epoch(stream, task.task)) for stream in task.makes)
        return any(record is not None and record.quality is Quality.ABSENT for record in last)

    def _is_down(self, task: Task, replicas: Sequence[ReplicaView]) -> bool:
        running = [r for r in replicas if r.state == "running" and r.status is not None and r.status.live is not None]
        if not running:
            ready = [r for r in replicas if r.state in ("placed", "starting", "finished") or (r.state == "idle" and r.active)]
            return bool(replicas) and not (task.name not in self._down_s and ready)
        if task.name not in self._down_s:
            return False
        furthest = max(r.status.live for r in running if r.status and r.status.live is not None)
        return furthest < self._progress.last_epoch_of_task(task)

    def _read_inputs(self, task: Task, now_s: float) -> None:
        """Note when the inputs of a task's missing epochs were committed, by this machine's clock."""
        if not task.reads:
            return
        head = self._progress.last_epoch_of_task(task)
        times = {epoch: at_s for epoch, at_s in self._ready_s.get(task.name, {}).items() if epoch > head}
        self._ready_s[task.name] = times
        for epoch in range(max(times, default=head) + 1, head + MAX_EPOCHS + 1):
            committed_s = self._progress.inputs_ready_s(task, epoch)
            if committed_s is None:
                self._missing_s[task.name] = now_s
                return
            times[epoch] = by_own_clock(committed_s, missing_s=self._missing_s.get(task.name), now_s=now_s)

    def _commit(self, task: Task, before_s: float, now_s: float) -> list[Record]:
        """Offer absent records for the epochs that a task has not committed in time; return those that were accepted."""
        records: list[Record] = []
        for stream in task.makes:
            last = self._progress.last_epoch(stream, task.task)
            while len(records) < MAX_EPOCHS and (self.timeline.last is None or last < self.timeline.last):
                ready_s = self._ready_s[task.name].get(last + 1) if task.reads else self.timeline.closes_s(last + 1)
                if ready_s is None or ready_s > before_s:
                    break
                record = _absent(stream, task.task, last + 1, self.timeline, now_s)
                if self._progress.log.offer(record).accepted_as is not None:
                    records.append(record)
                last += 1
        return records


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
