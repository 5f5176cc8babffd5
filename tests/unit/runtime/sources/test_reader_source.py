"""Reader sources, without Spark: several incarnations commit the same staged batches, in any order of steps."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.app import Source
from holdfast.documents.job import Contract, Task
from holdfast.errors import HoldfastError, LogError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.row_files import read_rows
from holdfast.log.timeline import Timeline
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.sources.reader_source import ReaderSource
from holdfast.runtime.sources.staged_batches import StagedBatches

FIRST = 100
TIMELINE = Timeline(FIRST, None, epoch_s=1.0, opened_s=1000.0)
SCHEMA = pa.schema({"seq": pa.int64(), "time": pa.timestamp("us", "UTC"), "page": pa.string()})
TASK = Task(pe="clicks", kind="source", makes=("clicks",))


class FakeQuery:
    """A Spark query that runs, or that has failed."""

    failure: BaseException | None = None

    def exception(self):
        return self.failure

    def stop(self):
        pass


class Stage:
    """Incarnations of a source on one log, and a clock; `over` is the number of epochs that have ended."""

    def __init__(self):
        self.store, self.events, self.over = Store(MemoryStore()), [], 0
        self.log, self.batches = EpochLog(self.store), StagedBatches(self.store, TASK)
        self.delivered = []
        self.query, self.query_starts = FakeQuery(), 0

    def start_query(self):
        self.query_starts += 1
        return self.query

    def start(self, name, *, checkpoint_epochs=50):
        return ReaderSource(
            ReplicaContext(TASK, Contract(checkpoint_epochs=checkpoint_epochs), TIMELINE, Checkpoints(self.store)),
            source=Source("clicks", "", reader=lambda spark: spark),
            schema=SCHEMA,
            batches=self.batches,
            start_query=self.start_query,
            source_task=(0, 1),
            output=OutputWriter(self.store, 0, name, TIMELINE, lambda kind, about: self.events.append((kind, about))),
            clock=lambda: 1000.5 + self.over,
        )

    def deliver(self, page):
        self.batches.put(len(self.delivered), pa.table({"page": [page]}))
        self.delivered.append(page)

    def pages(self):
        last = self.log.last_epoch("clicks", 0, after=FIRST - 1)
        finals = [self.log.final("clicks", 0, epoch=epoch) for epoch in range(FIRST, last + 1)]
        return [row["page"] for record in finals for file in record.files for row in read_rows(self.store, file).to_pylist()]

    def staged(self):
        return list(self.store.names("staged/"))

    def trim(self, until):
        self.store.remove(self.log.trim("clicks", 0, after=FIRST - 1, until=until))


def test_older_incarnation_takes_no_batch_from_a_newer_one():
    stage = Stage()
    old, new = stage.start("old"), stage.start("new")
    stage.deliver("x")
    stage.over = 1
    assert new.step()
    stage.deliver("y")
    assert old.step()
    stage.over = 3
    for source in (new, old, new, old, new):
        source.step()
    assert stage.pages() == ["x", "y"] and stage.staged() == []
    assert [about for kind, about in stage.events if kind == "divergence"] == []


def test_seqs_ascend_by_arrival_although_a_staged_batch_has_its_own():
    stage = Stage()
    source = stage.start("one")
    committed = []
    for number, seqs in enumerate([[30, 5], [20, 6], [7, 31]]):
        stage.batches.put(number, pa.table({"seq": pa.array(seqs, pa.int64()), "page": [f"{number}a", f"{number}b"]}))
        stage.over += 1
        assert source.step()
        record = stage.log.final("clicks", 0, epoch=FIRST + number)
        committed += [row for file in record.files for row in read_rows(stage.store, file).to_pylist()]
    assert [row["page"] for row in committed] == ["0a", "0b", "1a", "1b", "2a", "2b"]
    seqs = [row["seq"] for row in committed]
    assert seqs == sorted(set(seqs))


def test_batch_that_another_incarnation_missed_is_in_a_later_epoch():
    stage = Stage()
    old, new = stage.start("old"), stage.start("new")
    stage.deliver("x")
    stage.over = 1
    assert old.step()
    stage.deliver("y")
    assert new.step() and stage.pages() == ["x"]
    stage.over = 2
    assert new.step() and stage.pages() == ["x", "y"]


def test_batch_committed_by_another_while_read_is_not_repeated():
    stage = Stage()
    old, new = stage.start("old"), stage.start("new")
    stage.deliver("x")
    stage.over = 1
    read = stage.batches.read

    def slow_read(numbers):
        stage.batches.read = read
        new.step()
        stage.batches.list_after(0)
        return read(numbers)

    stage.batches.read = slow_read
    assert old.step() and old.clean_position.epoch == FIRST - 1
    assert old.step() and old.clean_position.epoch == FIRST
    assert stage.pages() == ["x"]


def test_incarnation_behind_trimming_continues_from_the_newest_checkpoint():
    stage = Stage()
    old, new = stage.start("old"), stage.start("new", checkpoint_epochs=3)
    for page in "xyz":
        stage.deliver(page)
        stage.over += 1
        assert new.step()
    stage.trim(FIRST + 2)
    assert old.step() and old.clean_position.epoch == FIRST + 2
    stage.deliver("w")
    stage.over += 1
    assert old.step()
    assert stage.log.final("clicks", 0, epoch=FIRST + 3).rows == 1
    assert stage.log.oldest_epoch("clicks", 0) == FIRST + 3


def test_redelivered_batch_is_recognised_from_the_checkpoint():
    stage = Stage()
    source = stage.start("one", checkpoint_epochs=1)
    stage.deliver("x")
    stage.over = 1
    source.step()
    stage.trim(FIRST)
    stage.batches.put(0, pa.table({"page": ["x"]}))
    again = stage.start("two")
    stage.over = 2
    assert again.step()
    assert stage.log.final("clicks", 0, epoch=FIRST + 1).rows == 0 and stage.staged() == []


def test_failed_query_is_reported():
    stage = Stage()
    source = stage.start("one")
    stage.query.failure = RuntimeError("Multiple streaming jobs detected\n  at org.apache")
    with pytest.raises(HoldfastError, match=r"the reader of source 'clicks' \(.*\) stopped: Multiple streaming jobs detected$"):
        source.step()


def test_query_ended_by_a_short_failure_of_the_log_is_restarted(monkeypatch):
    stage = Stage()
    source = stage.start("a")
    with monkeypatch.context() as patched:
        patched.setattr(stage.store, "replace", lambda name, content: (_ for _ in ()).throw(LogError("unreachable")))
        with pytest.raises(LogError) as error:
            stage.deliver("x")
    stage.query.failure = error.value  # the log works again before the source looks at its query
    failed, stage.query = stage.query, FakeQuery()
    source.step()
    assert stage.query_starts == 2
    stage.query.failure = failed.failure
    with pytest.raises(HoldfastError, match="stopped: unreachable"):
        source.step()


def test_query_ended_by_a_full_log_is_restarted(monkeypatch):
    stage = Stage()
    source = stage.start("one")
    full = LogError("the log at 'x' cannot be written: No space left on device")

    def refuse(name, content):
        raise full

    stage.query.failure = RuntimeError("No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(stage.store, "replace", refuse)
        for _ in range(3):
            with pytest.raises(LogError):
                source.step()
    assert stage.query_starts == 1
    stage.query = FakeQuery()
    stage.deliver("x")
    stage.over = 1
    assert source.step()
    assert (stage.query_starts, stage.pages()) == (2, ["x"])
    assert not any(name.endswith("room") for name in stage.staged())


@given(st.lists(st.sampled_from(["deliver", "pass", "absent", "old", "new", "restart", "save", "trim"]), max_size=60))
def test_two_incarnations_commit_every_row_once_and_in_order(acts):
    stage = Stage()
    sources = {"old": stage.start("old"), "new": stage.start("new")}
    pages = []
    for act in acts:
        match act:
            case "deliver":
                stage.deliver(str(len(stage.delivered)))
            case "pass":
                stage.over += 1
            case "absent":
                last = stage.log.last_epoch("clicks", 0, after=stage.log.trimmed_until("clicks", 0) or FIRST - 1)
                if last < TIMELINE.last_closed_epoch(1000.5 + stage.over):
                    stage.log.offer(Record("clicks", 0, last + 1, Quality.ABSENT, (), 0, None, None, "absent", "recovery manager"))
            case "restart":
                sources = {"old": sources["new"], "new": stage.start("new")}
            case "save":
                sources["new"].save()
            case "trim":
                until = Checkpoints(stage.store).latest_epoch(TASK.name)
                if until is not None:
                    pages += committed_pages(stage, until)
                    stage.trim(until)
            case name:
                sources[name].step()
    stage.over += len(acts) + 2
    while sum(source.step() for source in sources.values()):
        pass
    pages += committed_pages(stage, TIMELINE.last_closed_epoch(1000.5 + stage.over))
    assert pages == stage.delivered and stage.staged() == []
    assert [about for kind, about in stage.events if kind == "divergence"] == []


def committed_pages(stage, until):
    """Return the pages of the final records that are not trimmed, up to an epoch."""
    trimmed = stage.log.trimmed_until("clicks", 0)
    records = [stage.log.final("clicks", 0, epoch=e) for e in range(FIRST if trimmed is None else trimmed + 1, until + 1)]
    return [row["page"] for record in records for file in record.files for row in read_rows(stage.store, file).to_pylist()]
