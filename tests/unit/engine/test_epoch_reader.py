"""The readers of one query: they advance together, and read the rows of an epoch in order."""

import random

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.engine.connector.epoch_reader import ORDERED_ROWS, EpochReader, plan_partitions
from holdfast.engine.connector.feeds import BatchFeed, EpochFile, EpochFiles, LogFeed, hand_over_batch
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.row_files import checksum, write_rows

SCHEMA = StructType([StructField("seq", LongType()), StructField("epoch", LongType())])


def commit(root, stream, epoch, seqs):
    store, rows = Store(root), pa.table({"seq": pa.array(seqs, pa.int64())})
    files = (write_rows(store, rows, folder=f"data/{stream}"),)
    EpochLog(store).offer(Record(stream, 0, epoch, Quality.EXACT, files, len(seqs), None, None, checksum(rows), "test"))


def reader(tmp_path, stream, **more):
    made = EpochReader(LogFeed(str(tmp_path), ["a", "b"], "exact", **more), stream, SCHEMA, group=tmp_path / "rounds")
    made.prepareForTriggerAvailableNow()  # answers without waiting
    return made


def test_readers_give_the_same_answer_in_every_round(tmp_path):
    for stream in ("a", "b"):
        commit(tmp_path, stream, 3, [1])
    rng, readers = random.Random(1), [reader(tmp_path, "a"), reader(tmp_path, "b")]
    offsets = [made.initialOffset() for made in readers]
    assert offsets == [{"epoch": 2}, {"epoch": 2}]
    for epoch in range(4, 12):
        for stream in rng.sample(["a", "b"], 2):
            order = rng.sample([0, 1], 2)
            answers = {}
            for number in order:
                answers[number] = readers[number].latestOffset(offsets[number], None)
                if rng.random() < 0.5:
                    commit(tmp_path, stream, epoch, [epoch])  # between the two answers of a round
            assert answers[0] == answers[1]
            offsets = [answers[0], answers[1]]
            commit(tmp_path, stream, epoch, [epoch])
    assert offsets[0]["epoch"] > 8


def test_rows_of_an_epoch_are_read_in_order_with_their_epoch(tmp_path):
    commit(tmp_path, "a", 3, [2, 1])
    commit(tmp_path, "b", 3, [3])
    made = reader(tmp_path, "a", first=3)
    (partition,) = made.partitions({"epoch": 2}, {"epoch": 3})
    (batch,) = made.read(partition)
    assert batch.to_pydict() == {"seq": [1, 2], "epoch": [3, 3]}
    with pytest.raises(HoldfastError, match="epoch 4 of stream 'a' is not in the log"):
        made.partitions({"epoch": 3}, {"epoch": 4})


def test_large_epoch_is_read_as_one_partition_per_file():
    files = tuple(EpochFile("root", f"f{number}", 1, "exact") for number in range(3))
    assert len(plan_partitions([EpochFiles(files, ORDERED_ROWS)])) == 1
    assert len(plan_partitions([EpochFiles(files, ORDERED_ROWS + 1)])) == 3
    assert plan_partitions([EpochFiles((), 0)]) == []


def test_handed_over_batch_is_complete_and_returned_as_given(tmp_path):
    files = EpochFiles((EpochFile("root", "f", 7, "absent"),), 0)
    feed = BatchFeed(str(tmp_path))
    assert not feed.is_complete(0)
    hand_over_batch(tmp_path, 0, {"a": files})
    assert feed.is_complete(0)
    assert feed.files("a", 0) == files
