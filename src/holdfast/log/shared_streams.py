"""Reading the streams of other jobs: on their clock, from the oldest epoch that is left of all of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.documents.job import Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Store
from holdfast.log.timeline import Timeline, agree_on_timeline, read_timeline
from holdfast.log.trimming import save_reader_position

JOINED = "joined"


@dataclass(frozen=True)
class SharedInput:
    """One input that another job makes: which task reads it, and where that job's log lives."""

    task: Task
    reading: Reading
    store: Store


def resolve_log_locations(own: Store, logs: Mapping[str, str | None]) -> dict[str, str]:
    """Where the logs of the jobs that are read lie, by the jobs' names: as told now, else as it was told before. A job may end,
    and be forgotten by the control plane, before those that read it have read it to its end."""
    told = {name: log for name, log in logs.items() if log}
    if told:
        own.create(JOINED, json.dumps(told).encode())
    content = own.read(JOINED)
    return {**(json.loads(content) if content is not None else {}), **told}


def reader_name(job: str, task: Task) -> str:
    """The name under which a task leaves its marks in another job's log."""
    return f"{job}:{task.name}".replace("/", "~")


def join_timelines(own: Store, job: str, inputs: Sequence[SharedInput]) -> Timeline | None:
    """The job's timeline, made from those of the jobs it reads; None while one of them has not begun.

    Before it is agreed on, a mark is left for every reader, so that nothing is trimmed that the job will want. Raises
    HoldfastError where the epochs of the jobs do not coincide.
    """
    agreed = read_timeline(own)
    if agreed is not None:
        return agreed
    theirs = [read_timeline(each.store) for each in inputs]
    begun = [timeline for timeline in theirs if timeline is not None]
    if len(begun) < len(theirs):
        return None
    first = max(timeline.first for timeline in begun)
    while True:
        for each in inputs:
            for number in each.reading.tasks:
                save_reader_position(
                    each.store, reader_name(job, each.task), stream=each.reading.stream, task=number, epoch=first - 1
                )
        left = max((_oldest(each) for each in inputs), default=first)
        if left <= first:
            break
        first = left  # it was trimmed before the marks were there
    _require_same(job, begun, first)
    clock = begun[0]
    ends = [timeline.last for timeline in begun if timeline.last is not None]
    opened = clock.closes_s(first) - clock.epoch_s / clock.speed
    return agree_on_timeline(own, Timeline(first, min(ends, default=None), clock.epoch_s, opened_s=opened, speed=clock.speed))


def _oldest(each: SharedInput) -> int:
    log = EpochLog(each.store)
    timeline = read_timeline(each.store)
    assert timeline is not None
    trimmed = [log.trimmed_until(each.reading.stream, number) for number in each.reading.tasks]
    return max([timeline.first, *(line + 1 for line in trimmed if line is not None)])


def _require_same(job: str, timelines: Sequence[Timeline], epoch: int) -> None:
    """Epochs of the same number must be the same stretch of time in every job that is read."""
    first = timelines[0]
    for other in timelines[1:]:
        apart_s = abs(other.closes_s(epoch) - first.closes_s(epoch))
        if (other.epoch_s, other.speed) != (first.epoch_s, first.speed) or apart_s > first.epoch_s / first.speed / 2:
            raise HoldfastError(
                f"job '{job}' reads jobs whose epochs do not coincide: epoch {epoch} ends {apart_s:.1f} s apart, in epochs of "
                f"{first.epoch_s:g} s and {other.epoch_s:g} s; let them be fed by one job"
            )
