"""The log as a Spark data source: read and written by streaming queries, and read as ranges of epochs."""

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from holdfast.engine.connector import register_data_source
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.output_files import write_correction, write_first
from holdfast.log.row_files import checksum, encode_parquet, write_rows


@pytest.fixture
def session(spark):
    register_data_source(spark)
    return spark


def commit(root, stream, epoch, values, *, quality=Quality.EXACT, task=0):
    store = Store(root)
    rows = pa.table({"seq": pa.array(values, pa.int64()), "key": pa.array([f"k{value % 3}" for value in values], pa.string())})
    files = (write_rows(store, rows, folder=f"data/{stream}/{task}"),) if values else ()
    seqs = (min(values), max(values)) if values else (None, None)
    EpochLog(store).offer(Record(stream, task, epoch, quality, files, len(values), *seqs, checksum(rows), "test"))


def run_to_end(rows, root, stream, checkpoint, **options):
    writer = rows.writeStream.format("holdfast").option("log", str(root)).option("stream", stream).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).outputMode("append").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def test_inputs_of_a_join_advance_together_through_empty_epochs(session, tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    for epoch in range(5, 9):
        commit(log, "left", epoch, [] if epoch == 6 else [epoch * 10, epoch * 10 + 1])
        if epoch < 8:  # the last epoch is incomplete
            commit(log, "right", epoch, [epoch * 10])
            commit(log, "right", epoch, [epoch * 10 + 1], task=1)

    def read(stream):
        return session.readStream.format("holdfast").options(log=str(log), stream=stream, together="left, right").load()

    left = read("left").select("seq", F.col("epoch").alias("at"))
    union = left.unionByName(read("right").select("seq", F.col("epoch").alias("at")))
    query = run_to_end(union, log, "both", tmp_path / "checkpoint", first="5")
    assert len(query.recentProgress) == 3
    records = [EpochLog(Store(log)).final("both", 0, epoch=epoch) for epoch in range(5, 9)]
    assert [record and record.rows for record in records] == [4, 2, 4, None]
    read_back = session.read.format("holdfast").options(log=str(log), stream="both", epochs="5-7").load()
    rows = [(row.seq, row.at, row.epoch, row.quality) for row in read_back.collect()]
    assert len(rows) == 10
    assert all(at == epoch and quality == "exact" for _, at, epoch, quality in rows)


def test_a_stream_is_read_in_three_versions_and_by_range(session, tmp_path):
    commit(tmp_path, "orders", 1, [1])
    commit(tmp_path, "orders", 2, [2], quality=Quality.TENTATIVE)
    commit(tmp_path, "orders", 2, [2, 3])
    commit(tmp_path, "orders", 3, [4], quality=Quality.TENTATIVE)

    def seqs(**options):
        rows = session.read.format("holdfast").options(log=str(tmp_path), stream="orders", **options).load()
        return sorted(row.seq for row in rows.collect())

    assert seqs() == [1, 2, 3, 4]
    assert seqs(records="first") == [1, 2, 4]
    assert seqs(records="exact", epochs="2-") == [2, 3]


def test_a_sink_is_read_with_its_corrections(session, tmp_path):
    store = Store(tmp_path, what="output")
    write_first(store, "out", 7, Quality.TENTATIVE, encode_parquet(pa.table({"seq": [1]})))
    write_correction(store, "out", 7, encode_parquet(pa.table({"seq": [2]})))
    rows = session.read.format("holdfast").options(out=str(tmp_path), sink="out").load().collect()
    assert [tuple(row) for row in rows] == [(2, 7, "exact")]


def test_mistakes_in_the_options_are_named(session, tmp_path):
    commit(tmp_path, "orders", 1, [1])

    def error(**options):
        with pytest.raises(PySparkException) as raised:
            session.read.format("holdfast").options(**options).load().collect()
        return str(raised.value)

    assert "there is no log at '/nowhere'" in error(log="/nowhere", stream="orders")
    assert "has no stream 'order'; its streams are: orders" in error(log=str(tmp_path), stream="order")
    assert "needs the option 'stream'" in error(log=str(tmp_path))
    assert "has no option 'steam'" in error(log=str(tmp_path), steam="orders")
    assert "'records' is 'last'; it must be one of newest, first, exact" in error(
        log=str(tmp_path), stream="orders", records="last"
    )
    assert "option 'epochs' is 'x'" in error(log=str(tmp_path), stream="orders", epochs="x")


def test_a_repeated_batch_must_give_the_same_rows(session, tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    commit(log, "orders", 0, [1, 2])
    rows = session.readStream.format("holdfast").options(log=str(log), stream="orders").load()
    run_to_end(rows.select("seq"), log, "out", tmp_path / "one")
    before = {str(path) for path in (log / "data" / "out").rglob("*.parquet")}
    run_to_end(rows.select("seq"), log, "out", tmp_path / "two")  # the same rows: the record that is there counts
    assert {str(path) for path in (log / "data" / "out").rglob("*.parquet")} == before
    with pytest.raises(PySparkException, match="divergence in epoch 0 of 'out'"):
        run_to_end(rows.select((F.col("seq") + 1).alias("seq")), log, "out", tmp_path / "three")
