"""How far each stream of a job has been committed, and whether a task has work."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.documents.job import Reading, Task
from holdfast.log import EpochLog
from holdfast.log.timeline import Timeline


@dataclass
class StreamProgress:
    """The last committed epochs of a job's streams. `others` are the logs of the jobs that it reads, by name.

    A look-up starts at the last known epoch. If the log was trimmed past that epoch since the previous look-up, it starts at the
    last trimmed epoch.
    """

    log: EpochLog
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _last_epochs: dict[tuple[str, int], int] = field(default_factory=dict)

    def last_epoch(self, stream: str, task: int) -> int:
        """Return the last epoch of a task's stream; the epoch before the first if there is none."""
        known, trimmed = self._last_epochs.get((stream, task), self.timeline.first - 1), self.log.trimmed_until(stream, task)
        last = self.log.last_epoch(stream, task, after=known if trimmed is None else max(known, trimmed))
        self._last_epochs[stream, task] = last
        return last

    def last_epoch_of_task(self, task: Task) -> int:
        """Return the last epoch that a task has committed of all its streams."""
        return min(self.last_epoch(stream, task.task) for stream in task.makes)

    def last_input_epochs(self, task: Task) -> list[int]:
        """Return the last epoch of each input of a task, also of those in other jobs' logs."""
        return [
            (self if log is self.log else StreamProgress(log, self.timeline)).last_epoch(stream, number)
            for log, stream, number in self._inputs(task)
            if log is not None
        ]

    def inputs_ready_s(self, task: Task, epoch: int) -> float | None:
        """Return when the last input of a task's epoch was committed; None while an input is missing."""
        if not task.reads:
            return self.timeline.closes_s(epoch)
        times_s: list[float] = []
        for log, stream, number in self._inputs(task):
            record = log.first(stream, number, epoch=epoch) if log is not None else None
            if record is None:
                return None
            times_s.append(record.committed_s)
        return max(times_s)

    def has_work(self, task: Task, *, live: int, clean: int, now_s: float) -> bool:
        """Return whether a task with positions at these epochs can advance: one of its next epochs has all inputs, or was trimmed.

        A source can advance if its next epoch has ended. The result is False if an input is in a log that is not in `others`.
        """
        if not task.reads:
            return (self.timeline.last is None or live < self.timeline.last) and self.timeline.closes_s(live + 1) <= now_s
        inputs = self._inputs(task)
        first = (_had(log, stream, number, epoch=live + 1, final=False) for log, stream, number in inputs)
        final = (_had(log, stream, number, epoch=clean + 1, final=True) for log, stream, number in inputs)
        return all(first) or all(final)

    def _inputs(self, task: Task) -> list[tuple[EpochLog | None, str, int]]:
        return [(self._log_of(reading), reading.stream, number) for reading in task.reads for number in reading.tasks]

    def _log_of(self, reading: Reading) -> EpochLog | None:
        return self.log if reading.job is None else self.others.get(reading.job)


def _had(log: EpochLog | None, stream: str, task: int, *, epoch: int, final: bool) -> bool:
    """Return whether a log has the first or final record of an epoch, or had it until the epoch was trimmed."""
    if log is None:
        return False
    record = (log.final if final else log.first)(stream, task, epoch=epoch)
    return record is not None or epoch <= (log.trimmed_until(stream, task) or epoch - 1)


StreamLocations = dict[tuple[str, int], tuple[StreamProgress, str]]
"""For each stream, by the job's name for it and the task's number: the progress in the log that has it, and its name there."""


def locate_streams(tasks: Iterable[Task], own: StreamProgress) -> StreamLocations:
    """Return the location of every stream that a job produces or reads from another job."""
    task_list = list(tasks)
    locations: StreamLocations = {(stream, task.task): (own, stream) for task in task_list for stream in task.makes}
    others = {name: StreamProgress(log, own.timeline) for name, log in own.others.items()}
    for reading in (reading for task in task_list for reading in task.reads if reading.job in others):
        locations |= {(reading.name or "", number): (others[reading.job or ""], reading.stream) for number in reading.tasks}
    return locations
