"""Sink replicas on a real log: every epoch and every correction is written once, as Parquet or by a writer, despite faults."""

import time
from contextlib import contextmanager
from types import SimpleNamespace

import pyarrow as pa
import pytest
from obstore.store import MemoryStore
from sqlalchemy import create_engine, text

from holdfast import App, SqlWriter
from holdfast.app.writers import WriteToken, bind_writer
from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Contract, Reading, Task
from holdfast.errors import HoldfastError, LogError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.output_files import read_output
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline
from holdfast.log.trimming import LogTrimmer
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.runtime.replica_loop import Killed
from holdfast.runtime.sinks.claimed_writer import ClaimedWriter
from holdfast.runtime.sinks.sink_replica import SinkReplica
from holdfast.runtime.sinks.write_claims import CLAIM_TIMEOUT_S, WriteClaims, renew_in_thread
from holdfast.trial.checkers import check_run, count_output_rows

SCHEMA = pa.schema({"seq": pa.int64()})
TIMELINE = Timeline(first=1, last=3, epoch_s=1.0, opened_s=0.0)
TASK = Task(pe="out", kind="sink", reads=(Reading(stream="a"),))


class Stage:
    """A log with one stream, the calls of the sink's writer, and the emitted events."""

    def __init__(self):
        self.log, self.out = Store(MemoryStore()), Store(MemoryStore())
        self.written, self.events = [], []
        self.now_s, self.ids, self.renewals = 100.0, 0, []
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
            writer=self.claimed(writer, self.renewing, **contract) if writer else None,
            clock=lambda: self.now_s,
        )

    def claimed(self, writer, renewing, *, retries=2, **contract):
        clock, checkpoints = lambda: self.now_s, Checkpoints(self.log)
        claims = WriteClaims(self.log, TASK.name, checkpoints=checkpoints, clock=clock, new_id=self.new_id, renewing=renewing)
        return ClaimedWriter(bind_writer(writer), claims, retries=retries)

    def new_id(self):
        self.ids += 1
        return f"id-{self.ids}"

    @contextmanager
    def renewing(self, renew):
        """Renew nothing by itself. `renewals` has the function that renews, for tests that call it."""
        self.renewals.append(renew)
        yield

    def claim_names(self):
        return sorted(name for name in self.log.names("writes/") if not name.endswith("/run"))

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
        write(SCHEMA.empty_table(), 7, "exact", token=WriteToken("run", 7, "first", 1))


def test_lagging_replica_writes_nothing_twice_after_claims_are_removed(stage):
    lags, leads = stage.sink(writer=stage.write), stage.sink(writer=stage.write, checkpoint_epochs=1)
    stage.publish(1, 2, 3)
    settle(leads)
    assert stage.claim_names() == []
    settle(lags)
    assert [epoch for epoch, *_ in stage.written] == [1, 2, 3]
    assert stage.claim_names() == []
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
    assert [(e.kind, e.about["as"]) for e in stage.events if e.about["epoch"] == 2] == [("existing", "first"), ("output", "final")]
    if output == "parquet":
        assert read_output(stage.out, "out")["seq"].to_pylist() == [1, 2, 3]


def test_rows_left_counts_the_correction_of_an_epoch(stage):
    stage.absent(1)
    sinks = [stage.sink(), stage.sink()]
    settle(*sinks)
    stage.publish(1, 2, 3)
    settle(*sinks)
    assert count_output_rows(stage.events, sink="out") == 3


def newest_rows(table, epoch):
    with table.connect() as connection:
        return connection.execute(text("SELECT seq FROM results WHERE epoch = :epoch"), {"epoch": epoch}).scalars().all()


@pytest.fixture
def database(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'results.db'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE results (epoch BIGINT, seq BIGINT)"))
    yield engine
    engine.dispose()


def stall_until_corrected(stage, write, other):
    """Return a writer that stalls until another replica has written epoch 1 and its correction, and then writes."""

    def stalls(rows, epoch, quality, token):
        for _ in range(3):
            settle(other)
            stage.now_s += 0.6 * CLAIM_TIMEOUT_S
        stage.publish(1)
        settle(other)
        write(rows, epoch, quality, token=token)

    return stalls


def test_sql_writer_refuses_a_writer_that_stalled_past_the_correction(stage, database):
    write = SqlWriter(database, "results")
    other = stage.sink(writer=write)
    stalled = stage.sink(writer=stall_until_corrected(stage, write, other))
    stage.absent(1)
    assert not stalled.step()
    assert newest_rows(database, 1) == [1]
    stage.publish(2, 3)
    settle(stalled, other)
    assert stalled.finished and other.finished
    assert all(stage.verdicts())


def test_verdict_is_unknown_if_a_late_writer_takes_no_token(stage):
    table = {}

    def write(rows, epoch, quality):
        table[epoch] = quality

    other = stage.sink(writer=write)
    late = stall_until_corrected(stage, lambda rows, epoch, quality, token: write(rows, epoch, quality), other)
    stalled = stage.sink(writer=lambda rows, epoch, quality: late(rows, epoch, quality, None))
    stage.absent(1)
    assert not stalled.step()
    assert table[1] == "absent"
    stage.publish(2, 3)
    settle(stalled, other)
    corrected = next(v for v in check_run(stage.events, TIMELINE, sinks=["out"]) if v.name == "every tentative result corrected")
    assert corrected.holds is None
    assert "the writer of sink 'out' returned after another replica had taken over epoch 1" in corrected.reason


def test_claim_number_ascends_over_replicas_and_kinds(stage):
    tokens = []

    def write(rows, epoch, quality, token):
        tokens.append((token.epoch, token.kind, token.claim))

    def dies(rows, epoch, quality, token):
        write(rows, epoch, quality, token)
        raise Killed

    stage.absent(1)
    for _ in range(2):
        dying = stage.sink(writer=dies)
        with pytest.raises(Killed):
            while not dying.step():
                stage.now_s += 0.6 * CLAIM_TIMEOUT_S
    survivor = stage.sink(writer=write)
    while not survivor.step():
        stage.now_s += 0.6 * CLAIM_TIMEOUT_S
    stage.publish(1, 2)
    settle(survivor)
    assert [claim for epoch, kind, claim in tokens if (epoch, kind) == (1, "first")] == [1, 2, 3]
    assert sorted(tokens[3:]) == [(1, "final", 4), (2, "first", 1)]


def test_replicas_of_a_sink_share_the_run_of_a_log(stage):
    runs = []

    def write(rows, epoch, quality, token):
        runs.append(token.run)

    stage.publish(1)
    settle(stage.sink(writer=write))
    stage.publish(2)
    settle(stage.sink(writer=write))
    other_log = Stage()
    other_log.ids = 50
    other_log.publish(1)
    settle(other_log.sink(writer=write))
    assert runs[0] == runs[1] != runs[2]


def test_slow_writer_that_renews_its_claim_is_not_taken_over(stage):
    other = stage.sink(writer=stage.write)

    def is_slow(rows, epoch, quality):
        for _ in range(6):
            stage.now_s += 0.6 * CLAIM_TIMEOUT_S
            stage.renewals[-1]()
            assert not other.step()
        stage.write(rows, epoch, quality)

    stage.publish(1)
    settle(stage.sink(writer=is_slow))
    settle(other)
    assert [epoch for epoch, *_ in stage.written] == [1]


def test_claim_is_renewed_while_the_writer_runs(stage, monkeypatch):
    monkeypatch.setattr("holdfast.runtime.sinks.write_claims.RENEW_EVERY_S", 0.001)
    stage.renewing = renew_in_thread
    renewals = []

    def is_slow(rows, epoch, quality):
        name = f"writes/out%2F0/{1:020d}/000001.renewed"
        deadline_s = time.monotonic() + 30
        while len(set(renewals)) < 3 and time.monotonic() < deadline_s:
            renewals.append(stage.log.read(name))

    stage.publish(1)
    settle(stage.sink(writer=is_slow))
    assert len(set(renewals)) == 3


def test_number_of_a_released_claim_is_not_used_again(stage):
    numbers = []

    def raises(rows, epoch, quality, token):
        numbers.append(token.claim)
        raise HoldfastError("the table is locked")

    stage.publish(1)
    for _ in range(2):
        with pytest.raises(HoldfastError, match="the table is locked"):
            stage.sink(writer=raises, retries=0).step()
    assert numbers == [1, 2]


class FullStore(Store):
    """A store that is full while `full` matches a name."""

    full = None

    def create(self, name, content):
        if self.full is not None and self.full in name:
            raise LogError("the log cannot be written: no space left")
        return super().create(name, content)


def test_writer_is_not_called_again_while_its_completion_cannot_be_recorded(stage):
    stage.log = FullStore(MemoryStore())
    stage.stream = OutputWriter(stage.log, 0, "a/0.0 on n1", TIMELINE, lambda kind, about: None)
    stage.publish(1, 2, 3)
    stage.log.full = "written"
    sink = stage.sink(writer=stage.write)
    for _ in range(3):
        with pytest.raises(LogError, match="no space left"):
            sink.step()
    stage.log.full = None
    settle(sink)
    assert [epoch for epoch, *_ in stage.written] == [1, 2, 3]
    assert all(stage.verdicts())


def test_sql_writer_takes_an_epoch_again_whose_completion_was_not_recorded(stage, database):
    stage.log = FullStore(MemoryStore())
    stage.stream = OutputWriter(stage.log, 0, "a/0.0 on n1", TIMELINE, lambda kind, about: None)
    stage.publish(1, 2, 3)
    stage.log.full = "written"
    write = SqlWriter(database, "results")
    with pytest.raises(LogError, match="no space left"):
        stage.sink(writer=write).step()
    stage.log.full, restarted = None, stage.sink(writer=write)
    while not restarted.finished:
        restarted.step()
        stage.now_s += 0.6 * CLAIM_TIMEOUT_S
    assert [newest_rows(database, epoch) for epoch in (1, 2, 3)] == [[1], [2], [3]]


def test_replica_that_counts_claims_anew_finds_the_checkpoint_before_it_writes(stage):
    stage.absent(1)
    lags = stage.sink(writer=stage.write)
    leads = stage.sink(writer=stage.write, checkpoint_epochs=1)
    settle(leads)
    stage.publish(1, 2)
    settle(leads)
    assert stage.claim_names() == []
    unreachable = Checkpoints(stage.log)
    unreachable.latest_epoch = lambda task: (_ for _ in ()).throw(LogError("the log cannot be listed"))
    reachable, lags._writer.claims._checkpoints = lags._writer.claims._checkpoints, unreachable
    with pytest.raises(LogError, match="cannot be listed"):
        lags.step()
    lags._writer.claims._checkpoints = reachable
    settle(lags)
    assert sorted(stage.written) == [(1, "absent", 0), (1, "exact", 1), (2, "exact", 1)]


def test_replica_that_stopped_before_its_mark_reports_no_output_that_its_successor_has_reported(stage):
    stalled = stage.sink(writer=stage.write)
    other = stage.sink(writer=stage.write, checkpoint_epochs=1)
    stage.publish(1)
    holds = stalled._writer.claims.holds

    def stall(token):
        held = holds(token)
        while not other.step():
            stage.now_s += 0.6 * CLAIM_TIMEOUT_S
        return held

    stalled._writer.claims.holds = stall
    settle(stalled)
    assert [event.kind for event in stage.events if event.about["epoch"] == 1] == ["output", "existing"]
    assert stage.claim_names() == []
