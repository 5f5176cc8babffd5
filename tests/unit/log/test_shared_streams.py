"""A job that reads another job's streams: whose clock it is on, where it begins, and what is kept for it."""

import pytest

from holdfast.documents.job import Job, Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.ownership import require_inputs_of_all_tasks
from holdfast.log.position import Position
from holdfast.log.shared_streams import SharedInput, join_timelines, resolve_log_locations
from holdfast.log.timeline import Timeline, agree_on_timeline, read_timeline
from holdfast.log.trimming import EPOCHS_KEPT_FOR_AGENTS, LogTrimmer, remove_ended_readers, save_reader_position

MAKER = Task(pe="vwap", makes=("vwap",))
READER = Task(pe="alarm", reads=(Reading(stream="vwap", name="averages", job="market"),), makes=("alarm",))


WHOLE = Job(job="market", application="app.py", log="log")


def store(tmp_path, name):
    return Store(str(tmp_path / name))


def record(epoch):
    return Record(
        stream="vwap",
        task=0,
        epoch=epoch,
        quality=Quality.EXACT,
        files=(),
        rows=0,
        first_seq=None,
        last_seq=None,
        checksum="none",
        producer="test",
        closed_s=0.0,
        committed_s=0.0,
    )


def begun(tmp_path, name="market", *, first=10, last=None, opened_s=100.0, epoch_s=1.0):
    made = store(tmp_path, name)
    agree_on_timeline(made, Timeline(first, last, epoch_s, opened_s=opened_s))
    return made


def test_a_job_waits_until_the_one_it_reads_has_begun(tmp_path):
    assert (
        join_timelines(store(tmp_path, "own"), "alarms", [SharedInput(READER, READER.reads[0], store(tmp_path, "market"))]) is None
    )


def test_it_is_on_the_other_jobs_clock(tmp_path):
    market, own = begun(tmp_path, last=40), store(tmp_path, "own")
    timeline = join_timelines(own, "alarms", [SharedInput(READER, READER.reads[0], market)])
    assert timeline == read_timeline(own) == Timeline(10, 40, 1.0, opened_s=100.0)


def test_it_begins_with_the_oldest_epoch_that_is_left(tmp_path):
    market, own = begun(tmp_path), store(tmp_path, "own")
    for epoch in range(10, 16):
        EpochLog(market).offer(record(epoch))
    EpochLog(market).trim("vwap", 0, after=9, until=13)
    timeline = join_timelines(own, "alarms", [SharedInput(READER, READER.reads[0], market)])
    assert timeline is not None and timeline.first == 14
    assert timeline.closes_s(15) == read_timeline(market).closes_s(15)


def test_nothing_is_trimmed_that_a_reader_in_another_job_has_not_read(tmp_path):
    market, own = begun(tmp_path), store(tmp_path, "own")
    log = EpochLog(market)
    for epoch in range(10, 20):
        log.offer(record(epoch))
    join_timelines(own, "alarms", [SharedInput(READER, READER.reads[0], market)])
    checkpoints = Checkpoints(market)
    checkpoints.save(MAKER.name, Position(19))
    LogTrimmer(market, [MAKER], checkpoints).trim("vwap", 0)
    assert log.oldest_epoch("vwap", 0) == 10
    remove_ended_readers(market, {"market"})
    LogTrimmer(market, [MAKER], checkpoints).trim("vwap", 0)
    assert log.oldest_epoch("vwap", 0) != 10


@pytest.mark.parametrize(("watched", "oldest"), [((), 41), ((MAKER,), 41 - EPOCHS_KEPT_FOR_AGENTS)])
def test_of_what_a_prediction_agent_watches_some_epochs_are_kept(tmp_path, watched, oldest):
    market = begun(tmp_path)
    log, checkpoints = EpochLog(market), Checkpoints(market)
    for epoch in range(10, 42):
        log.offer(record(epoch))
    checkpoints.save(MAKER.name, Position(40))
    LogTrimmer(market, [MAKER], checkpoints, watched=watched).trim("vwap", 0)
    assert log.oldest_epoch("vwap", 0) == oldest


def test_what_is_left_of_an_ended_job_waits_for_its_readers_and_for_nobody_who_is_gone(tmp_path):
    market = begun(tmp_path)
    log, checkpoints = EpochLog(market), Checkpoints(market)
    for epoch in range(10, 20):
        log.offer(record(epoch))
    join_timelines(store(tmp_path, "own"), "alarms", [SharedInput(READER, READER.reads[0], market)])
    save_reader_position(market, "alarms:alarm~0", stream="vwap", task=0, epoch=15)
    sink = Task(pe="out", kind="sink", reads=(Reading(stream="vwap"),))
    trimmer = LogTrimmer(market, [MAKER, sink], checkpoints)
    checkpoints.save(MAKER.name, Position(19))
    checkpoints.save(sink.name, Position(11))
    trimmer.trim_unread("vwap", 0)
    assert log.oldest_epoch("vwap", 0) == 10  # its own reader sees to it
    trimmer.left = frozenset({MAKER.name})
    require_inputs_of_all_tasks(market, WHOLE)
    trimmer.trim_unread("vwap", 0)
    assert log.oldest_epoch("vwap", 0) == 16
    with pytest.raises(
        HoldfastError, match=r"was gone on with by vwap/0 alone, for jobs that shared them: .* give it a log of its own"
    ):
        require_inputs_of_all_tasks(market, WHOLE)


def test_the_marks_of_living_jobs_stay(tmp_path):
    market = begun(tmp_path)
    join_timelines(store(tmp_path, "own"), "alarms", [SharedInput(READER, READER.reads[0], market)])
    remove_ended_readers(market, {"alarms"})
    assert list(market.names("readers/"))


def test_jobs_whose_epochs_do_not_coincide_cannot_be_read_together(tmp_path):
    one, other = begun(tmp_path), begun(tmp_path, "other", epoch_s=2.0)
    inputs = [SharedInput(READER, READER.reads[0], one), SharedInput(READER, READER.reads[0], other)]
    with pytest.raises(HoldfastError, match=r"epochs do not coincide: .* in epochs of 1 s and 2 s; let them be fed by one job"):
        join_timelines(store(tmp_path, "own"), "alarms", inputs)


def test_where_the_other_logs_are_is_remembered(tmp_path):
    own = store(tmp_path, "own")
    assert resolve_log_locations(own, {"market": "/somewhere"}) == {"market": "/somewhere"}
    assert resolve_log_locations(own, {"market": None}) == {"market": "/somewhere"}
