"""Read the streams of other jobs. The reading job takes over their timeline, from the oldest epoch that all of their logs have."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.documents.job import Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Store
from holdfast.log.timeline import Timeline, agree_on_timeline, read_timeline
from holdfast.log.trimming import save_reader_position

LOG_LOCATIONS = "joined"


@dataclass(frozen=True)
class SharedInput:
    """An input stream of another job: the task that reads it, and the store of the other job's log."""

    task: Task
    reading: Reading
    store: Store


def resolve_log_locations(own: Store, logs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the locations of the logs of the jobs that are read, by job name.

    The locations are stored in the job's own log, because the orchestrator may forget an ended job before its readers have read
    all of it. A location in `logs` takes precedence over a stored one.
    """
    current = {name: log for name, log in logs.items() if log}
    if current:
        own.create(LOG_LOCATIONS, json.dumps(current).encode())
    content = own.read(LOG_LOCATIONS)
    return {**(json.loads(content) if content is not None else {}), **current}


def reader_name(job: str, task: Task) -> str:
    """Return the name under which a task saves its position in another job's log."""
    return f"{job}:{task.name}".replace("/", "~")


def join_timelines(own: Store, job: str, inputs: Sequence[SharedInput]) -> Timeline | None:
    """Return the job's timeline, derived from those of the jobs it reads; None until all of them have started.

    Each reader saves its position before the timeline is agreed on, so that nothing is trimmed that the job needs (see
    LogTrimmer.trim). Raises HoldfastError if the epochs of the jobs do not coincide.
    """
    own_timeline = read_timeline(own)
    if own_timeline is not None:
        return own_timeline
    timelines = [timeline for timeline in (read_timeline(shared.store) for shared in inputs) if timeline is not None]
    if len(timelines) < len(inputs):
        return None
    for shared, timeline in zip(inputs, timelines, strict=True):
        name, stream = reader_name(job, shared.task), shared.reading.stream
        for number in shared.reading.tasks:
            save_reader_position(shared.store, name, stream=stream, task=number, epoch=timeline.first - 1)
    # The positions stay at the start until the readers have checkpoints: another node of this job may agree on an earlier epoch.
    first = max(_oldest_available_epoch(shared, timeline) for shared, timeline in zip(inputs, timelines, strict=True))
    _require_same_epochs(job, timelines, first)
    clock = timelines[0]
    ends = [timeline.last for timeline in timelines if timeline.last is not None]
    opened_s = clock.closes_s(first) - clock.epoch_s / clock.speed
    return agree_on_timeline(own, Timeline(first, min(ends, default=None), clock.epoch_s, opened_s=opened_s, speed=clock.speed))


def _oldest_available_epoch(shared: SharedInput, timeline: Timeline) -> int:
    log = EpochLog(shared.store)
    trimmed = [log.trimmed_until(shared.reading.stream, number) for number in shared.reading.tasks]
    return max([timeline.first, *(epoch + 1 for epoch in trimmed if epoch is not None)])


def _require_same_epochs(job: str, timelines: Sequence[Timeline], epoch: int) -> None:
    """Raise HoldfastError unless an epoch is the same stretch of time in all timelines."""
    first = timelines[0]
    for other in timelines[1:]:
        apart_s = abs(other.closes_s(epoch) - first.closes_s(epoch))
        if (other.epoch_s, other.speed) != (first.epoch_s, first.speed) or apart_s > first.epoch_s / first.speed / 2:
            raise HoldfastError(
                f"job '{job}' reads jobs whose epochs do not coincide: epoch {epoch} ends {apart_s:.1f} s apart, in epochs of "
                f"{first.epoch_s:g} s and {other.epoch_s:g} s; let one job feed them"
            )
