"""A source with a reader without Spark: what incarnations of it make of the same staged batches, in whatever order they step."""

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
from holdfast.runtime.sources.reader_source import ReaderSource
from holdfast.runtime.sources.staged_batches import StagedBatches

FIRST = 100
TIMELINE = Timeline(FIRST, None, epoch_s=1.0, opened_s=1000.0)
SCHEMA = pa.schema({"seq": pa.int64(), "time": pa.timestamp("us", "UTC"), "page": pa.string()})
TASK = Task(pe="clicks", kind="source", makes=("clicks",))


class Reading:
    """Spark's query, which goes on or has failed."""

    failure: BaseException | None = None

    def exception(self):
        return self.failure

    def stop(self):
        pass


class Fed:
    """Incarnations of a source on one log, and a clock: `over` is how many epochs are."""

    def __init__(self):
        self.store, self.told, self.over = Store(MemoryStore()), [], 0
        self.log, self.staged = EpochLog(self.store), StagedBatches(self.store, TASK)
        self.delivered = []
        self.query, self.started = Reading(), 0

    def read(self):
        self.started += 1
        return self.query

    def start(self, name, *, saves_every=50):
        return ReaderSource(
            TASK,
            Contract(checkpoint_epochs=saves_every),
            source=Source("clicks", "", reader=lambda spark: spark),
            schema=SCHEMA,
            staged=self.staged,
            start=self.read,
            place=(0, 1),
            outbox=OutputWriter(self.store, 0, name, TIMELINE, lambda kind, about: self.told.append((kind, about))),
            checkpoints=Checkpoints(self.store),
            timeline=TIMELINE,
            clock=lambda: 1000.5 + self.over,
        )

    def deliver(self, page):
        self.staged.put(len(self.delivered), pa.table({"page": [page]}))
        self.delivered.append(page)

    def pages(self):
        head = self.log.last_epoch("clicks", 0, after=FIRST - 1)
        finals = [self.log.final("clicks", 0, epoch=epoch) for epoch in range(FIRST, head + 1)]
        return [row["page"] for record in finals for file in record.files for row in read_rows(self.store, file).to_pylist()]

    def left(self):
        return list(self.store.names("staged/"))

    def trim(self, until):
        self.store.remove(self.log.trim("clicks", 0, after=FIRST - 1, until=until))


def test_an_incarnation_that_is_behind_its_successor_takes_nothing_from_it():
    fed = Fed()
    old, new = fed.start("old"), fed.start("new")
    fed.deliver("x")
    fed.over = 1
    assert new.step()
    fed.deliver("y")
    assert old.step()
    fed.over = 3
    for source in (new, old, new, old, new):
        source.step()
    assert fed.pages() == ["x", "y"] and fed.left() == []
    assert [about for kind, about in fed.told if kind == "divergence"] == []


def test_what_the_other_incarnation_did_not_see_yet_is_in_a_later_epoch():
    fed = Fed()
    old, new = fed.start("old"), fed.start("new")
    fed.deliver("x")
    fed.over = 1
    assert old.step()
    fed.deliver("y")
    assert new.step() and fed.pages() == ["x"]
    fed.over = 2
    assert new.step() and fed.pages() == ["x", "y"]


def test_a_batch_that_another_incarnation_takes_while_it_is_read_is_looked_for_in_its_record():
    fed = Fed()
    old, new = fed.start("old"), fed.start("new")
    fed.deliver("x")
    fed.over = 1
    read = fed.staged.read

    def slow(numbers):
        fed.staged.read = read
        new.step()
        fed.staged.waiting(after=0)
        return read(numbers)

    fed.staged.read = slow
    assert old.step() and old.clean.epoch == FIRST - 1
    assert old.step() and old.clean.epoch == FIRST
    assert fed.pages() == ["x"]


def test_an_incarnation_that_the_log_was_trimmed_past_goes_on_from_the_newest_checkpoint():
    fed = Fed()
    old, new = fed.start("old"), fed.start("new", saves_every=3)
    for page in "xyz":
        fed.deliver(page)
        fed.over += 1
        assert new.step()
    fed.trim(FIRST + 2)
    assert old.step() and old.clean.epoch == FIRST + 2
    fed.deliver("w")
    fed.over += 1
    assert old.step()
    assert fed.log.final("clicks", 0, epoch=FIRST + 3).rows == 1
    assert fed.log.oldest_epoch("clicks", 0) == FIRST + 3


def test_a_batch_that_spark_delivers_again_is_known_from_the_checkpoint_where_the_log_is_trimmed():
    fed = Fed()
    source = fed.start("one", saves_every=1)
    fed.deliver("x")
    fed.over = 1
    source.step()
    fed.trim(FIRST)
    fed.staged.put(0, pa.table({"page": ["x"]}))
    again = fed.start("two")
    fed.over = 2
    assert again.step()
    assert fed.log.final("clicks", 0, epoch=FIRST + 1).rows == 0 and fed.left() == []


def test_a_query_that_failed_is_told():
    fed = Fed()
    source = fed.start("one")
    fed.query.failure = RuntimeError("Multiple streaming jobs detected\n  at org.apache")
    with pytest.raises(HoldfastError, match=r"the reader of source 'clicks' \(.*\) stopped: Multiple streaming jobs detected$"):
        source.step()


def test_a_query_that_a_full_log_has_ended_is_started_again_when_there_is_room(monkeypatch):
    fed = Fed()
    source = fed.start("one")
    full = LogError("the log at 'x' cannot be written: No space left on device")

    def refuse(name, content):
        raise full

    fed.query.failure = RuntimeError("No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(fed.store, "replace", refuse)
        for _ in range(3):
            with pytest.raises(LogError):
                source.step()
    assert fed.started == 1
    fed.query = Reading()
    fed.deliver("x")
    fed.over = 1
    assert source.step()
    assert (fed.started, fed.pages()) == (2, ["x"])
    assert not any(name.endswith("room") for name in fed.left())


@given(st.lists(st.sampled_from(["deliver", "pass", "stand in", "old", "new", "restart", "save", "trim"]), max_size=60))
def test_every_row_is_committed_once_and_in_order_whatever_two_incarnations_do(acts):
    fed = Fed()
    sources = {"old": fed.start("old"), "new": fed.start("new")}
    read = []
    for act in acts:
        match act:
            case "deliver":
                fed.deliver(str(len(fed.delivered)))
            case "pass":
                fed.over += 1
            case "stand in":
                head = fed.log.last_epoch("clicks", 0, after=fed.log.trimmed_until("clicks", 0) or FIRST - 1)
                if head < TIMELINE.last_closed_epoch(1000.5 + fed.over):
                    fed.log.offer(Record("clicks", 0, head + 1, Quality.ABSENT, (), 0, None, None, "absent", "recovery manager"))
            case "restart":
                sources = {"old": sources["new"], "new": fed.start("new")}
            case "save":
                sources["new"].save()
            case "trim":
                until = Checkpoints(fed.store).latest_epoch(TASK.name)
                if until is not None:
                    read += taken(fed, until)
                    fed.trim(until)
            case name:
                sources[name].step()
    fed.over += len(acts) + 2
    while sum(source.step() for source in sources.values()):
        pass
    read += taken(fed, TIMELINE.last_closed_epoch(1000.5 + fed.over))
    assert read == fed.delivered and fed.left() == []
    assert [about for kind, about in fed.told if kind == "divergence"] == []


def taken(fed, until):
    """The pages up to an epoch that were not trimmed before."""
    begin = fed.log.trimmed_until("clicks", 0)
    records = [fed.log.final("clicks", 0, epoch=e) for e in range(FIRST if begin is None else begin + 1, until + 1)]
    return [row["page"] for record in records for file in record.files for row in read_rows(fed.store, file).to_pylist()]
