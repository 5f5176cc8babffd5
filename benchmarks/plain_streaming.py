"""Bargain Discovery as plain Structured Streaming, as a user would write it without holdfast: what our runtime is held against.

    python benchmarks/plain_streaming.py --input DIR --work DIR [--queries one|many]

Reads Parquet files as they appear in --input, one per epoch, and appends to WORK/outputs.jsonl when which seqs have left. `one`
is one stateful query per ticker; `many` has a query per operator, handed on through files. Killed and started again with the
same --work it goes on from its checkpoints.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from holdfast.execute.session import open_session

SCHEMA = "seq long, time timestamp, ticker string, kind string, price double, volume long, ask_price double, ask_size long"
BARGAINS = "seq long, ticker string, gain double"
TOTALS = "seq long, ticker string, total_volume long, total_price double"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--queries", choices=["one", "many"], default="one")
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    spark = open_session(options.master, name="plain", memory="2g", settings={"spark.sql.shuffle.partitions": "2"})
    (one_query if options.queries == "one" else many_queries)(spark, options.input, options.work)
    (options.work / "ready").touch()
    spark.streams.awaitAnyTermination()


def one_query(spark: SparkSession, source: Path, work: Path) -> None:
    events = spark.readStream.schema(SCHEMA).parquet(str(source))
    found = events.groupBy("ticker").applyInPandasWithState(
        bargains_of, BARGAINS, "trades string", "append", GroupStateTimeout.NoTimeout
    )
    start(found, work, "bargains", last=True)


def many_queries(spark: SparkSession, source: Path, work: Path) -> None:
    def stream(name: str, schema: str) -> DataFrame:
        folder = work / "streams" / name
        folder.mkdir(parents=True, exist_ok=True)
        return spark.readStream.schema(schema).parquet(str(folder))

    events = spark.readStream.schema(SCHEMA).parquet(str(source))
    start(events.select("seq", "ticker", "kind", "price", "volume", "ask_price", "ask_size"), work, "trade_quote")
    both = "seq long, ticker string, kind string, price double, volume long, ask_price double, ask_size long"
    trades = stream("trade_quote", both).where("kind = 'trade'").select("seq", "ticker", "price", "volume")
    start(trades, work, "trade_filter")
    quotes = stream("trade_quote", both).where("kind = 'quote'").select("seq", "ticker", "ask_price", "ask_size")
    start(quotes, work, "quote_filter")
    totals = (
        stream("trade_filter", "seq long, ticker string, price double, volume long")
        .groupBy("ticker")
        .applyInPandasWithState(totals_of, TOTALS, "trades string", "append", GroupStateTimeout.NoTimeout)
    )
    start(totals, work, "aggregator")
    averages = stream("aggregator", TOTALS).select("seq", "ticker", F.try_divide("total_price", "total_volume").alias("vwap"))
    start(averages, work, "vwap")
    merged = stream("vwap", "seq long, ticker string, vwap double").unionByName(
        stream("quote_filter", "seq long, ticker string, ask_price double, ask_size long"), allowMissingColumns=True
    )
    found = merged.groupBy("ticker").applyInPandasWithState(
        gains_of, BARGAINS, "vwap double", "append", GroupStateTimeout.NoTimeout
    )
    start(found, work, "bargains", last=True)


def start(frame: DataFrame, work: Path, name: str, *, last: bool = False) -> None:
    def deliver(batch: DataFrame, number: int) -> None:
        seqs = [row[0] for row in batch.select("seq").collect()]
        with (work / "outputs.jsonl").open("a") as file:
            file.write(json.dumps({"at_s": time.time(), "batch": number, "seqs": seqs}) + "\n")

    writer = frame.writeStream.option("checkpointLocation", str(work / "checkpoints" / name)).queryName(name)
    if last:
        writer.foreachBatch(deliver).start()
    else:
        writer.format("parquet").option("path", str(work / "streams" / name)).start()


def bargains_of(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The last five trades of a ticker are its state; every quote is held against their average price."""
    trades = json.loads(state.get[0]) if state.exists else []
    rows = pd.concat(list(frames)).sort_values("seq")
    found = []
    for row in rows.itertuples():
        if row.kind == "trade":
            trades = [*trades, [row.price, row.volume]][-5:]
            continue
        volume = sum(v for _, v in trades)
        average = sum(p * v for p, v in trades) / volume if volume else None
        if average is not None and row.ask_price < average:
            found.append((row.seq, key[0], row.ask_size * (average - row.ask_price)))
    state.update((json.dumps(trades),))
    yield pd.DataFrame(found, columns=["seq", "ticker", "gain"])


def totals_of(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    trades = json.loads(state.get[0]) if state.exists else []
    found = []
    for row in pd.concat(list(frames)).sort_values("seq").itertuples():
        trades = [*trades, [row.price, row.volume]][-5:]
        found.append((row.seq, key[0], sum(v for _, v in trades), sum(p * v for p, v in trades)))
    state.update((json.dumps(trades, default=float),))
    yield pd.DataFrame(found, columns=["seq", "ticker", "total_volume", "total_price"])


def gains_of(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    average = state.get[0] if state.exists else None
    found = []
    for row in pd.concat(list(frames)).sort_values("seq").itertuples():
        if not pd.isna(row.vwap):
            average = row.vwap
        elif average is not None and row.ask_price < average:
            found.append((row.seq, key[0], row.ask_size * (average - row.ask_price)))
    if average is not None:
        state.update((float(average),))
    yield pd.DataFrame(found, columns=["seq", "ticker", "gain"])


if __name__ == "__main__":
    main()
