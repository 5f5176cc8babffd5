"""Reading another job's streams: the timeline and the first epoch of the reader."""

import pytest

from holdfast.documents.job import Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.shared_streams import SharedInput, join_timelines, resolve_log_locations
from holdfast.log.timeline import Timeline, agree_on_timeline, read_timeline

READER = Task(pe="alarm", reads=(Reading(stream="vwap", name="averages", job="market"),), makes=("alarm",))


def store(tmp_path, name):
    return Store(str(tmp_path / name))


def record(epoch):
    return Record("vwap", 0, epoch, Quality.EXACT, (), 0, None, None, "none", "test")


def started_log(tmp_path, name="market", *, first=10, last=None, opened_s=100.0, epoch_s=1.0):
    log_store = store(tmp_path, name)
    agree_on_timeline(log_store, Timeline(first, last, epoch_s, opened_s=opened_s))
    return log_store


def test_job_waits_until_the_job_it_reads_has_started(tmp_path):
    not_started = SharedInput(READER, READER.reads[0], store(tmp_path, "market"))
    assert join_timelines(store(tmp_path, "own"), "alarms", [not_started]) is None


def test_job_has_the_timeline_of_the_job_it_reads(tmp_path):
    market, own = started_log(tmp_path, last=40), store(tmp_path, "own")
    timeline = join_timelines(own, "alarms", [SharedInput(READER, READER.reads[0], market)])
    assert timeline == read_timeline(own) == Timeline(10, 40, 1.0, opened_s=100.0)


def test_job_starts_at_the_oldest_epoch_that_is_not_trimmed(tmp_path):
    market, own = started_log(tmp_path), store(tmp_path, "own")
    for epoch in range(10, 16):
        EpochLog(market).offer(record(epoch))
    EpochLog(market).trim("vwap", 0, after=9, until=13)
    timeline = join_timelines(own, "alarms", [SharedInput(READER, READER.reads[0], market)])
    assert timeline is not None and timeline.first == 14
    assert timeline.closes_s(15) == read_timeline(market).closes_s(15)


def test_jobs_with_different_epochs_cannot_be_read_together(tmp_path):
    one, other = started_log(tmp_path), started_log(tmp_path, "other", epoch_s=2.0)
    inputs = [SharedInput(READER, READER.reads[0], one), SharedInput(READER, READER.reads[0], other)]
    with pytest.raises(HoldfastError, match=r"epochs do not coincide: .* in epochs of 1 s and 2 s; let one job feed them"):
        join_timelines(store(tmp_path, "own"), "alarms", inputs)


def test_log_locations_are_stored(tmp_path):
    own = store(tmp_path, "own")
    assert resolve_log_locations(own, {"market": "/somewhere"}) == {"market": "/somewhere"}
    assert resolve_log_locations(own, {"market": None}) == {"market": "/somewhere"}
