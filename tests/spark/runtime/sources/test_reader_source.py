"""A Structured Streaming reader as a source: cut into epochs, numbered on arrival, and whole after it was stopped at any moment."""

import json
import sys
import time

import pytest

from holdfast.app import Source
from holdfast.documents.job import Contract, Task
from holdfast.engine.schema import arrow_schema, source_schema
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.row_files import read_rows
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.sources.reader_query import start_query
from holdfast.runtime.sources.reader_source import ReaderSource, reader_timeline
from holdfast.runtime.sources.staged_batches import StagedBatches

SCHEMA = "seq long, time timestamp, page string, bytes long"
LIMIT_S = 120


class Fed:
    def __init__(self, spark, tmp_path):
        self.spark, self.folder = spark, tmp_path / "in"
        self.folder.mkdir()
        self.store = Store(tmp_path / "log")
        self.timeline = reader_timeline(self.store, epoch_s=0.5)
        self.files = 0

    def write(self, *pages):
        self.files += 1
        text = "\n".join(json.dumps({"page": page, "bytes": len(page)}) for page in pages)
        hidden = self.folder / f"_{self.files}"
        hidden.write_text(text)
        hidden.rename(self.folder / f"{self.files}.json")

    def reader(self, spark):
        return spark.readStream.schema("page string, bytes long").json(str(self.folder))

    def start(self, *, reader=None):
        task = Task(pe="clicks", kind="source", makes=("clicks",))
        source, staged = Source("clicks", SCHEMA, reader=reader or self.reader), StagedBatches(self.store, task)
        return ReaderSource(
            task,
            Contract(checkpoint_epochs=2),
            source=source,
            schema=arrow_schema(source_schema(source)),
            staged=staged,
            start=lambda: start_query(
                self.spark,
                source,
                task,
                store=self.store,
                staged=staged,
                checkpoint=str(self.folder.parent / "place"),
                epoch_s=self.timeline.epoch_s,
            ),
            place=(0, 1),
            outbox=OutputWriter(self.store, 0, "clicks/0.0", self.timeline, lambda kind, about: None),
            checkpoints=Checkpoints(self.store),
            timeline=self.timeline,
        )

    def committed(self):
        log = EpochLog(self.store)
        head = log.last_epoch("clicks", 0, after=self.timeline.first - 1)
        records = [log.final("clicks", 0, epoch=epoch) for epoch in range(self.timeline.first, head + 1)]
        return [row for record in records if record for file in record.files for row in read_rows(self.store, file).to_pylist()]

    def pages(self):
        return sorted(row["page"] for row in self.committed())

    def step_until(self, source, pages):
        ends = time.monotonic() + LIMIT_S
        while self.pages() != sorted(pages):
            assert time.monotonic() < ends, f"not within {LIMIT_S} s: {self.pages()}"
            source.step()
            time.sleep(0.02)


@pytest.fixture
def fed(spark, tmp_path):
    return Fed(spark, tmp_path)


def test_rows_are_numbered_on_arrival_and_every_row_is_committed_once_over_a_restart(fed):
    fed.write("a", "b")
    source = fed.start()
    fed.step_until(source, "ab")
    source.close()
    fed.write("c")
    again = fed.start()
    fed.write("d")
    fed.step_until(again, "abcd")
    again.close()
    rows = fed.committed()
    assert [row["seq"] for row in rows] == sorted({row["seq"] for row in rows})
    assert all(row["time"] is not None and row["epoch"] >= fed.timeline.first for row in rows)


def test_rows_are_committed_once_where_an_incarnation_goes_on_beside_its_successor(fed):
    fed.write("a")
    old = fed.start()
    fed.step_until(old, "a")
    new = fed.start()  # in one session there is one query; the older incarnation goes on committing all the same
    for page in "bcd":
        fed.write(page)
        fed.step_until(Both(old, new), [*fed.pages(), page])
    old.close()
    new.close()
    rows = fed.committed()
    assert [row["seq"] for row in rows] == sorted({row["seq"] for row in rows})


class Both:
    """Two incarnations of one source, in turn."""

    def __init__(self, *sources):
        self.sources = sources

    def step(self):
        for source in self.sources:
            source.step()


def test_a_batch_that_was_staged_but_not_committed_is_in_a_later_epoch(fed):
    fed.write("a")
    source = fed.start()
    ends = time.monotonic() + LIMIT_S
    while not list(fed.store.names("staged/")):
        assert time.monotonic() < ends
        time.sleep(0.02)
    source.close()
    again = fed.start()
    fed.step_until(again, "a")
    ends = time.monotonic() + LIMIT_S
    while list(fed.store.names("staged/")):  # Spark may deliver the batch once more, since it was stopped in the middle of it
        assert time.monotonic() < ends
        again.step()
        time.sleep(0.02)
    again.close()
    assert fed.pages() == ["a"]


def test_an_epoch_that_was_stood_in_for_is_made_good_as_empty(fed):
    from holdfast.log import Record

    log = EpochLog(fed.store)
    first = fed.timeline.first
    log.offer(Record("clicks", 0, first, Quality.ABSENT, (), 0, None, None, "absent", "recovery manager"))
    fed.write("a")
    source = fed.start()
    fed.step_until(source, "a")
    source.close()
    assert log.final("clicks", 0, epoch=first).rows == 0


@pytest.mark.parametrize(
    ("reader", "said"),
    [
        (lambda spark: spark.range(3), "must return a streaming DataFrame"),
        (lambda spark: spark.readStream.format("rate").load(), "gives no column 'bytes'; it gives: timestamp, value"),
        (lambda spark: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda spark: sys.exit(3), "raised SystemExit: 3"),
    ],
)
def test_a_reader_that_does_not_do_its_part_is_told(fed, reader, said):
    with pytest.raises(HoldfastError, match=f"the reader of source 'clicks'.*{said}"):
        fed.start(reader=reader)
