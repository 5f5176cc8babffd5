"""How far each stream of a job has come, found again cheaply at every look; and since when a task could have gone on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.log import EpochLog
from holdfast.model.job import Task
from holdfast.run.timeline import Timeline


@dataclass
class Heads:
    """The last epochs of streams. A look-up starts at what was seen last, or at what was trimmed where that is further on: whoever
    looks may have slept for as long as it takes to trim. `others` are the logs of the jobs that are read, by name."""

    log: EpochLog
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _heads: dict[tuple[str, int], int] = field(default_factory=dict)

    def of(self, stream: str, task: int) -> int:
        """The last epoch of a task's stream; the one before the first where there is none."""
        seen, trimmed = self._heads.get((stream, task), self.timeline.first - 1), self.log.trimmed(stream, task)
        head = self.log.head(stream, task, after=seen if trimmed is None else max(seen, trimmed))
        self._heads[stream, task] = head
        return head

    def of_task(self, task: Task) -> int:
        """The last epoch that a task has made of all its streams."""
        return min(self.of(stream, task.task) for stream in task.makes)

    def fed_s(self, task: Task, epoch: int) -> float | None:
        """Since when all that a task needs for an epoch has been there; None while something is missing."""
        if not task.reads:
            return self.timeline.closes_s(epoch)
        times: list[float] = []
        for reading in task.reads:
            log = self.log if reading.job is None else self.others.get(reading.job)
            for number in reading.tasks:
                record = log.first(reading.stream, number, epoch=epoch) if log is not None else None
                if record is None:
                    return None
                times.append(record.committed_s)
        return max(times)
