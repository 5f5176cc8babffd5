"""Reader sources on Spark: rows are assigned to epochs, numbered on arrival, and complete after a stop at any moment."""

import json
import sys
import time

import pytest

from holdfast.app import Source
from holdfast.documents.job import Contract, Task
from holdfast.engine.schema import arrow_schema, source_schema
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.row_files import read_rows
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.sources.reader_query import start_query
from holdfast.runtime.sources.reader_source import ReaderSource, reader_timeline
from holdfast.runtime.sources.staged_batches import StagedBatches

SCHEMA = "seq long, time timestamp, page string, bytes long"
LIMIT_S = 120


class Stage:
    """Incarnations of a source that reads JSON files from a folder, on one log."""

    def __init__(self, spark, tmp_path):
        self.spark, self.folder = spark, tmp_path / "in"
        self.folder.mkdir()
        self.store = Store(tmp_path / "log")
        self.timeline = reader_timeline(self.store, epoch_s=0.5, now_s=time.time())
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
        source, batches = Source("clicks", SCHEMA, reader=reader or self.reader), StagedBatches(self.store, task)
        return ReaderSource(
            ReplicaContext(task, Contract(checkpoint_epochs=2), self.timeline, Checkpoints(self.store)),
            source=source,
            schema=arrow_schema(source_schema(source)),
            batches=batches,
            start_query=lambda: start_query(
                self.spark,
                source,
                task,
                store=self.store,
                batches=batches,
                checkpoint=str(self.folder.parent / "place"),
                epoch_s=self.timeline.epoch_s,
            ),
            source_task=(0, 1),
            output=OutputWriter(self.store, 0, "clicks/0.0", self.timeline, lambda kind, about: None),
        )

    def committed(self):
        log = EpochLog(self.store)
        last = log.last_epoch("clicks", 0, after=self.timeline.first - 1)
        records = [log.final("clicks", 0, epoch=epoch) for epoch in range(self.timeline.first, last + 1)]
        return [row for record in records if record for file in record.files for row in read_rows(self.store, file).to_pylist()]

    def pages(self):
        return sorted(row["page"] for row in self.committed())

    def step_until(self, source, pages):
        deadline_s = time.monotonic() + LIMIT_S
        while self.pages() != sorted(pages):
            assert time.monotonic() < deadline_s, f"not within {LIMIT_S} s: {self.pages()}"
            source.step()
            time.sleep(0.02)


@pytest.fixture
def stage(spark, tmp_path):
    return Stage(spark, tmp_path)


def test_rows_are_numbered_on_arrival_and_committed_once_over_a_restart(stage):
    stage.write("a", "b")
    source = stage.start()
    stage.step_until(source, "ab")
    source.close()
    stage.write("c")
    again = stage.start()
    stage.write("d")
    stage.step_until(again, "abcd")
    again.close()
    rows = stage.committed()
    assert [row["seq"] for row in rows] == sorted({row["seq"] for row in rows})
    assert all(row["time"] is not None and row["epoch"] >= stage.timeline.first for row in rows)


def test_overlapping_incarnations_commit_rows_once(stage):
    stage.write("a")
    old = stage.start()
    stage.step_until(old, "a")
    new = stage.start()  # one session runs one query; the older incarnation still commits
    for page in "bcd":
        stage.write(page)
        stage.step_until(Alternating(old, new), [*stage.pages(), page])
    old.close()
    new.close()
    rows = stage.committed()
    assert [row["seq"] for row in rows] == sorted({row["seq"] for row in rows})


class Alternating:
    """Two incarnations of one source, stepped in turn."""

    def __init__(self, *sources):
        self.sources = sources

    def step(self):
        for source in self.sources:
            source.step()


def test_staged_batch_is_committed_after_a_restart(stage):
    stage.write("a")
    source = stage.start()
    deadline_s = time.monotonic() + LIMIT_S
    while not list(stage.store.names("staged/")):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    source.close()
    again = stage.start()
    stage.step_until(again, "a")
    deadline_s = time.monotonic() + LIMIT_S
    while list(stage.store.names("staged/")):  # Spark may deliver the batch again, because it was stopped in the middle of it
        assert time.monotonic() < deadline_s
        again.step()
        time.sleep(0.02)
    again.close()
    assert stage.pages() == ["a"]


def test_absent_epoch_is_corrected_as_empty(stage):
    log = EpochLog(stage.store)
    first = stage.timeline.first
    log.offer(Record("clicks", 0, first, Quality.ABSENT, (), 0, None, None, "absent", "recovery manager"))
    stage.write("a")
    source = stage.start()
    stage.step_until(source, "a")
    source.close()
    assert log.final("clicks", 0, epoch=first).rows == 0


def numbered_reader(spark):
    return spark.readStream.format("rate").load().selectExpr("value as seq", "'a' as page", "1L as bytes")


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        (lambda spark: spark.range(3), "must return a streaming DataFrame"),
        (lambda spark: spark.readStream.format("rate").load(), "returns no column 'bytes'; its columns are: timestamp, value"),
        (numbered_reader, "returns a column 'seq', but holdfast numbers the rows itself, on arrival: .*; rename the column"),
        (lambda spark: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (lambda spark: sys.exit(3), "raised SystemExit: 3"),
    ],
)
def test_wrong_reader_is_reported(stage, reader, message):
    with pytest.raises(HoldfastError, match=f"the reader of source 'clicks'.*{message}"):
        stage.start(reader=reader)
