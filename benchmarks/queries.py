"""A query operator against the same query in plain Structured Streaming with a file source and a Parquet sink.

    python benchmarks/queries.py [--epochs 40] [--rows 1000] [--batch-rows 100000] [--json]

Both run in one process and take turns, an epoch each. Latency is the time from the end of an epoch (its file or record is there)
until its rows have left (the sink's log, or the record of the output). The first quarter of the epochs is not measured. Throughput
is that of 20 large epochs that are there from the beginning.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.app import App
from holdfast.engine.analysis import analyse
from holdfast.engine.connector.feeds import EpochFiles, files_of
from holdfast.engine.query.query_function import FIXED_SETTINGS
from holdfast.engine.query.query_run import QueryRun, in_stream
from holdfast.engine.session import open_session
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.stored_rows import store_rows

BOUNDS = {"latency": 1.3, "throughput": 0.9}
LARGE_EPOCHS = 20


def sums(events: DataFrame) -> DataFrame:
    """A sliding sum over 30 seconds per key."""
    window = F.window("time", "30 seconds", "1 second")
    return events.withWatermark("time", "1 second").groupBy(window, "key").agg(F.sum("value").alias("value"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--batch-rows", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        latency = measure_latency(Path(name) / "small", epochs=options.epochs, rows=options.rows)
        rate = measure_rate(Path(name) / "large", rows=options.batch_rows)
    ratios = {"latency": latency["ours_s"] / latency["theirs_s"], "throughput": rate["ours_rows_s"] / rate["theirs_rows_s"]}
    document = {
        "claim": "a query operator has at most 1.3 times the latency of plain Structured Streaming, and 0.9 times its rate",
        "ours": {"latency_s": latency["ours_s"], "rows_s": rate["ours_rows_s"]},
        "theirs": {"latency_s": latency["theirs_s"], "rows_s": rate["theirs_rows_s"]},
        "ratio": ratios,
        "bound": BOUNDS,
        "holds": ratios["latency"] <= BOUNDS["latency"] and ratios["throughput"] >= BOUNDS["throughput"],
    }
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        seconds = f"ours {latency['ours_s']:.3f} s, theirs {latency['theirs_s']:.3f} s"
        print(f"latency    {seconds}, ratio {ratios['latency']:.2f} (bound 1.3)")
        print(
            f"throughput ours {rate['ours_rows_s']:,.0f} rows/s, theirs {rate['theirs_rows_s']:,.0f} rows/s, "
            f"ratio {ratios['throughput']:.2f} (bound 0.9)"
        )
    sys.exit(0 if document["holds"] else 1)


class Ours:
    """The query operator: epochs are records of a log, and so is its output."""

    def __init__(self, folder: Path) -> None:
        app = App("sums")
        query = app.query(inputs=app.source("events", "seq long, time timestamp, key string, value long"))(sums)
        app.sink("out", query)
        self.store = Store(folder / "log")
        self.log = EpochLog(self.store)
        spark = open_session("local[2]", memory="2g")
        self.run = QueryRun(spark, query, analyse(app.graph(), spark), folder / "query")

    def commit(self, stream: str, epoch: int, rows: pa.Table) -> Record:
        stored = store_rows(self.store, rows, folder=f"data/{stream}/0")
        record = Record(stream=stream, task=0, epoch=epoch, quality=Quality.EXACT, producer="benchmark", **vars(stored))
        self.log.offer(record)
        return record

    def process(self, first: int, records: list[Record]) -> None:
        batches: list[dict[str, EpochFiles]] = [{"events": files_of([record], self.store.root)} for record in records]
        for epoch, rows in enumerate(self.run.process(batches), first):
            self.commit("sums", epoch, in_stream(rows, epoch, first_epoch=0))


class Theirs:
    """The same query as a user would write it: one file per batch, and a Parquet sink."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir(parents=True)
        session = open_session("local[2]", memory="2g").newSession()
        for key, value in {**FIXED_SETTINGS, "spark.sql.shuffle.partitions": "2"}.items():
            session.conf.set(key, value)
        schema = "time timestamp, key string, value long"
        self.rows = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))

    def start(self) -> None:
        writer = sums(self.rows).writeStream.format("parquet").option("path", str(self.folder / "out"))
        self.query = writer.option("checkpointLocation", str(self.folder / "checkpoint")).start()

    def write(self, epoch: int, rows: pa.Table) -> None:
        hidden = self.folder / f"{epoch}.parquet"
        pq.write_table(rows.drop_columns(["seq", "epoch"]), hidden, coerce_timestamps="us")
        hidden.rename(self.folder / "in" / f"{epoch:06d}.parquet")

    def wait(self, epoch: int) -> None:
        path = self.folder / "checkpoint" / "commits" / str(epoch)
        while not path.exists():
            time.sleep(0.004)


def measure_latency(folder: Path, *, epochs: int, rows: int) -> dict[str, float]:
    ours, theirs = Ours(folder / "ours"), Theirs(folder / "theirs")
    theirs.start()
    ours_s, theirs_s = [], []
    for epoch in range(epochs):
        table = rows_of(epoch, rows)
        record = ours.commit("events", epoch, table)
        began_s = time.perf_counter()
        ours.process(epoch, [record])
        ours_s.append(time.perf_counter() - began_s)
        theirs.write(epoch, table)
        began_s = time.perf_counter()
        theirs.wait(epoch)
        theirs_s.append(time.perf_counter() - began_s)
    ours.run.remove()
    theirs.query.stop()
    return {"ours_s": statistics.median(ours_s[epochs // 4 :]), "theirs_s": statistics.median(theirs_s[epochs // 4 :])}


def measure_rate(folder: Path, *, rows: int) -> dict[str, float]:
    ours, theirs = Ours(folder / "ours"), Theirs(folder / "theirs")
    tables = [rows_of(epoch, rows) for epoch in range(LARGE_EPOCHS + 1)]
    records = [ours.commit("events", epoch, table) for epoch, table in enumerate(tables)]
    ours.process(0, records[:1])  # the start of the query is not measured
    began_s = time.perf_counter()
    ours.process(1, records[1:])
    ours_s = time.perf_counter() - began_s
    ours.run.remove()
    theirs.write(0, tables[0])
    theirs.start()
    theirs.wait(0)
    for epoch, table in enumerate(tables[1:], 1):
        pq.write_table(table.drop_columns(["seq", "epoch"]), theirs.folder / f"{epoch}.parquet", coerce_timestamps="us")
    began_s = time.perf_counter()
    for epoch in range(1, LARGE_EPOCHS + 1):
        (theirs.folder / f"{epoch}.parquet").rename(theirs.folder / "in" / f"{epoch:06d}.parquet")
    theirs.wait(LARGE_EPOCHS)
    theirs_s = time.perf_counter() - began_s
    theirs.query.stop()
    return {"ours_rows_s": LARGE_EPOCHS * rows / ours_s, "theirs_rows_s": LARGE_EPOCHS * rows / theirs_s}


def rows_of(epoch: int, count: int) -> pa.Table:
    rng = np.random.default_rng(epoch)
    seq = np.arange(epoch * count + 1, (epoch + 1) * count + 1)
    time_us = (1_700_000_000 + epoch) * 1_000_000 + np.arange(count) * 1_000_000 // count
    return pa.table(
        {
            "seq": seq,
            "time": pa.array(time_us, pa.timestamp("us", "UTC")),
            "key": [f"k{number}" for number in rng.integers(0, 50, count)],
            "value": rng.integers(0, 100, count),
            "epoch": np.full(count, epoch),
        }
    )


if __name__ == "__main__":
    main()
