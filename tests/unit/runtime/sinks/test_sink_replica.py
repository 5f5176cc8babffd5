"""Sink replicas on a real log: every epoch and every correction is written once, as Parquet or by a writer, despite faults."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from holdfast import App
from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Contract, Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline
from holdfast.log.trimming import LogTrimmer
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.runtime.replica_loop import Killed
from holdfast.runtime.sinks.output_files import read_output
from holdfast.runtime.sinks.sink_replica import SinkReplica
from holdfast.runtime.sinks.write_claims import CLAIM_TIMEOUT_S
from holdfast.trial.checkers import check_run, count_output_rows

SCHEMA = pa.schema({"seq": pa.int64()})
TIMELINE = Timeline(first=1, last=3, epoch_s=1.0, opened_s=0.0)
TASK = Task(pe="out", kind="sink", reads=(Reading(stream="a"),))


class Stage:
    """A log with one stream, the calls of the sink's writer, and the emitted events."""

    def __init__(self):
        self.log, self.out = Store(MemoryStore()), Store(MemoryStore())
        self.written, self.events = [], []
        self.now_s = 100.0
        self.stream = OutputWriter(self.log, 0, "a/0.0 on n1", TIMELINE, lambda kind, about: None)

    def publish(self, *epochs):
        for epoch in epochs:
            self.stream.publish("a", epoch, rows=pa.table({"seq": [epoch]}, SCHEMA), quality=Quality.EXACT)

    def absent(self, epoch):
        EpochLog(self.log).offer(Record("a", 0, epoch, Quality.ABSENT, (), 0, None, None, "absent", "recovery manager"))

    def write(self, rows, epoch, quality):
        self.written.append((epoch, quality, rows.num_rows))

    def emit(self, kind, about):
        self.events.append(HistoryEvent(self.now_s, "n1", kind, about))

    def sink(self, *, writer=None, emit=None, **contract):
        return SinkReplica(
            ReplicaContext(TASK, Contract(**{"checkpoint_epochs": 100, **contract}), TIMELINE, Checkpoints(self.log)),
            inputs=InputReader(TASK.reads, [self.log], {"a": SCHEMA}),
            out=self.out,
            emit=emit or self.emit,
            writer=writer,
            clock=lambda: self.now_s,
        )

    def verdicts(self):
        return [verdict.holds for verdict in check_run(self.events, TIMELINE, sinks=["out"])]


@pytest.fixture
def stage():
    return Stage()


def settle(*sinks):
    while sum(sink.step() for sink in sinks):
        pass


def test_two_replicas_write_each_epoch_and_correction_once(stage):
    one, other = stage.sink(writer=stage.write), stage.sink(writer=stage.write)
    stage.publish(1)
    stage.absent(2)
    settle(one, other)
    stage.publish(2, 3)
    settle(other, one)
    assert sorted(stage.written) == [(1, "exact", 1), (2, "absent", 0), (2, "exact", 1), (3, "exact", 1)]
    assert one.finished and other.finished
    assert all(stage.verdicts())


def test_restarted_sink_does_not_repeat_its_writes(stage):
    stage.publish(1, 2)
    settle(stage.sink(writer=stage.write))
    stage.publish(3)
    settle(stage.sink(writer=stage.write))
    assert [epoch for epoch, *_ in stage.written] == [1, 2, 3]
    assert all(stage.verdicts())


def test_claim_of_a_dead_writer_expires(stage):
    def dies(rows, epoch, quality):
        raise Killed

    stage.publish(1, 2, 3)
    with pytest.raises(Killed):
        stage.sink(writer=dies).step()
    other = stage.sink(writer=stage.write)
    assert not other.step()
    stage.now_s += CLAIM_TIMEOUT_S
    assert not other.step()
    stage.now_s += 0.1
    settle(other)
    assert [epoch for epoch, *_ in stage.written] == [1, 2, 3]
    assert all(stage.verdicts())


def test_correction_of_a_dead_writer_is_written_beside_new_epochs(stage):
    def dies_over_corrections(rows, epoch, quality):
        if (epoch, quality) == (1, "exact"):
            raise Killed

    one, other = stage.sink(writer=dies_over_corrections), stage.sink(writer=stage.write)
    stage.absent(1)
    settle(one)
    stage.publish(1)
    with pytest.raises(Killed):
        one.step()
    for epoch in (2, 3):
        settle(other)
        stage.now_s += 0.6 * CLAIM_TIMEOUT_S
        stage.publish(epoch)
    settle(other)
    assert (1, "exact", 1) in stage.written
    assert other.finished


def test_writer_that_fails_twice_per_epoch_does_not_end_the_replica(stage):
    calls = []

    def fails_twice(rows, epoch, quality):
        calls.append(epoch)
        if calls.count(epoch) < 3:
            raise HoldfastError("the table is locked")
        stage.write(rows, epoch, quality)

    stage.publish(1, 2, 3)
    sink = stage.sink(writer=fails_twice)
    settle(sink)
    assert sink.finished
    assert [epoch for epoch, *_ in stage.written] == [1, 2, 3]
    assert all(stage.verdicts())


def test_writer_is_tried_as_often_as_the_contract_says(stage):
    calls = []

    def raises(rows, epoch, quality):
        calls.append(epoch)
        raise HoldfastError("the table is locked")

    stage.publish(1)
    with pytest.raises(HoldfastError, match=r"^the table is locked \(tried 5 times\)$"):
        stage.sink(writer=raises, retries=4).step()
    assert len(calls) == 5


def test_claim_of_a_failed_writer_is_released_at_once(stage):
    def raises(rows, epoch, quality):
        raise HoldfastError("the table is locked")

    stage.publish(1, 2, 3)
    with pytest.raises(HoldfastError, match="the table is locked"):
        stage.sink(writer=raises).step()
    settle(stage.sink(writer=stage.write))
    assert [epoch for epoch, *_ in stage.written] == [1, 2, 3]


@pytest.mark.parametrize(("error", "name"), [(ValueError("no table"), "ValueError"), (SystemExit("no table"), "SystemExit")])
def test_writer_error_names_the_sink_and_the_epoch(monkeypatch, error, name):
    def raises(rows, epoch, quality):
        raise error

    app = App("shop")
    app.sink("out", app.source("orders", "seq long"), writer=raises)
    monkeypatch.setattr("holdfast.runtime.replica_factory.to_frame", lambda spark, rows: rows)
    write = ReplicaFactory._writer(SimpleNamespace(_spark=None), app.graph().nodes["out"])
    with pytest.raises(HoldfastError, match=rf"^the writer of sink 'out' \(.*\) raised {name} in epoch 7: no table$"):
        write(SCHEMA.empty_table(), 7, "exact")


def test_lagging_replica_writes_nothing_twice_after_claims_are_removed(stage):
    lags, leads = stage.sink(writer=stage.write), stage.sink(writer=stage.write, checkpoint_epochs=1)
    stage.publish(1, 2, 3)
    settle(leads)
    assert list(stage.out.names("")) == []
    settle(lags)
    assert [epoch for epoch, *_ in stage.written] == [1, 2, 3]
    assert list(stage.out.names("")) == []
    assert all(stage.verdicts())


def test_sink_behind_a_trimmed_log_continues_from_the_newest_checkpoint(stage):
    lags, leads = stage.sink(), stage.sink()
    stage.absent(1)
    lags.step()
    stage.publish(1, 2)
    settle(leads)
    leads.save()
    checkpoints = Checkpoints(stage.log)
    checkpoints.save("a/0", Position(2))
    LogTrimmer(stage.log, [Task(pe="a", makes=("a",)), TASK], checkpoints).trim("a", 0)
    assert EpochLog(stage.log).oldest_epoch("a", 0) is None
    stage.now_s += 2.0
    settle(lags)
    assert lags.clean_position.epoch == lags.live_position.epoch == 2
    stage.publish(3)
    settle(lags)
    assert lags.finished
    assert read_output(stage.out, "out")["seq"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("output", ["parquet", "writer"])
def test_output_written_before_its_event_is_reported_as_found(stage, output):
    def dies(kind, about):
        if about["epoch"] == 2:
            raise Killed
        stage.emit(kind, about)

    writer = stage.write if output == "writer" else None
    stage.publish(1)
    stage.absent(2)
    with pytest.raises(Killed):
        settle(stage.sink(writer=writer, emit=dies))
    stage.publish(2, 3)
    settle(stage.sink(writer=writer))
    assert all(stage.verdicts())
    assert [(e.kind, e.about["as"]) for e in stage.events if e.about["epoch"] == 2] == [("found", "first"), ("output", "final")]
    if output == "parquet":
        assert read_output(stage.out, "out")["seq"].to_pylist() == [1, 2, 3]


def test_rows_left_counts_the_correction_of_an_epoch(stage):
    stage.absent(1)
    sinks = [stage.sink(), stage.sink()]
    settle(*sinks)
    stage.publish(1, 2, 3)
    settle(*sinks)
    assert count_output_rows(stage.events, sink="out") == 3
