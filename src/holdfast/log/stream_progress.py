"""How far each stream of a job has come, found again cheaply at every look; and since when a task could have gone on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.documents.job import Reading, Task
from holdfast.log import EpochLog
from holdfast.log.timeline import Timeline


@dataclass
class StreamProgress:
    """The last epochs of streams. A look-up starts at what was seen last, or at what was trimmed where that is further on: whoever
    looks may have slept for as long as it takes to trim. `others` are the logs of the jobs that are read, by name."""

    log: EpochLog
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _heads: dict[tuple[str, int], int] = field(default_factory=dict)

    def last_epoch(self, stream: str, task: int) -> int:
        """The last epoch of a task's stream; the one before the first where there is none."""
        seen, trimmed = self._heads.get((stream, task), self.timeline.first - 1), self.log.trimmed_until(stream, task)
        head = self.log.last_epoch(stream, task, after=seen if trimmed is None else max(seen, trimmed))
        self._heads[stream, task] = head
        return head

    def last_epoch_of_task(self, task: Task) -> int:
        """The last epoch that a task has made of all its streams."""
        return min(self.last_epoch(stream, task.task) for stream in task.makes)

    def inputs_ready_s(self, task: Task, epoch: int) -> float | None:
        """Since when all that a task needs for an epoch has been there; None while something is missing."""
        if not task.reads:
            return self.timeline.closes_s(epoch)
        times: list[float] = []
        for reading in task.reads:
            log = self._log_of(reading)
            for number in reading.tasks:
                record = log.first(reading.stream, number, epoch=epoch) if log is not None else None
                if record is None:
                    return None
                times.append(record.committed_s)
        return max(times)

    def has_work(self, task: Task, *, live: int, clean: int, now_s: float) -> bool:
        """Whether a task whose heads are at these epochs could go on: a source's next epoch is over, or all inputs of the next one
        have come, or their final records. False where an input is in a log that is not looked at here."""
        if not task.reads:
            return (self.timeline.last is None or live < self.timeline.last) and self.timeline.closes_s(live + 1) <= now_s
        inputs = [(self._log_of(reading), reading.stream, number) for reading in task.reads for number in reading.tasks]
        first = (log is not None and log.first(stream, number, epoch=live + 1) is not None for log, stream, number in inputs)
        final = (log is not None and log.final(stream, number, epoch=clean + 1) is not None for log, stream, number in inputs)
        return all(first) or all(final)

    def _log_of(self, reading: Reading) -> EpochLog | None:
        return self.log if reading.job is None else self.others.get(reading.job)


StreamLocations = dict[tuple[str, int], tuple[StreamProgress, str]]
"""Where streams are found, by the name that the job has for each and the number of the task: in which log, under which name."""


def locate_streams(tasks: Iterable[Task], own: StreamProgress) -> StreamLocations:
    """Every stream that a job makes or another job feeds it with, in the log that has it."""
    listed = list(tasks)
    found: StreamLocations = {(stream, task.task): (own, stream) for task in listed for stream in task.makes}
    theirs = {name: StreamProgress(log, own.timeline) for name, log in own.others.items()}
    for reading in (reading for task in listed for reading in task.reads if reading.job in theirs):
        found |= {(reading.name or "", number): (theirs[reading.job or ""], reading.stream) for number in reading.tasks}
    return found
