"""Bargain Discovery in plain Structured Streaming, as a user would write it without holdfast. Benchmarks compare with it.

    python benchmarks/plain_streaming.py --input DIR --work DIR [--queries one|many]
    python benchmarks/plain_streaming.py --kafka SERVERS --topics IN OUT --work DIR

It reads the Parquet files that appear in --input, one per epoch, and appends the time and the seqs of each output batch to
WORK/outputs.jsonl. With --kafka it reads a topic with Spark's Kafka source, and writes each batch with its Kafka sink. `one` is one
query. `many` has a query per operator, and the queries pass rows on in files. State (the last trades and the newest average of each
ticker) is a small table that foreachBatch reads and replaces. Spark's stateful Python operators are called once per ticker, and
with 400 tickers they take longer than the batch lasts. A process that restarts with the same --work continues from its checkpoints.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast.engine.session import open_session

CONNECTOR = Path(sys.prefix) / "kafka" / "connector" / "jars"
SCHEMA = "seq long, time timestamp, ticker string, kind string, price double, volume long, ask_price double, ask_size long"
TRADES = "seq long, ticker string, price double, volume long"
AVERAGES = "seq long, ticker string, vwap double"
TOTALS = "seq long, ticker string, total_volume long, total_price double"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", type=Path)
    parser.add_argument("--kafka", metavar="SERVERS")
    parser.add_argument("--topics", nargs=2, metavar=("IN", "OUT"))
    parser.add_argument("--cores", default="2")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--queries", choices=["one", "many"], default="one")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    settings = {"spark.sql.shuffle.partitions": "2", **({"spark.jars": connector_jars()} if options.kafka else {})}
    spark = open_session(f"local[{options.cores}]", name="plain", memory="2g", settings=settings)
    if options.kafka:
        kafka_query(spark, options.kafka, options.topics, options.work)
    else:
        (one_query if options.queries == "one" else many_queries)(spark, options.input, options.work)
    (options.work / "ready").touch()
    spark.streams.awaitAnyTermination()


def connector_jars() -> str:
    """Return the jars of Spark's Kafka connector that PySpark does not have."""
    names = ("org.apache.spark_", "org.apache.kafka_", "org.apache.commons_commons-pool2")
    return ",".join(str(jar) for jar in sorted(CONNECTOR.glob("*.jar")) if jar.name.startswith(names))


def one_query(spark: SparkSession, source: Path, work: Path) -> None:
    deliver_bargains(spark, spark.readStream.schema(SCHEMA).parquet(str(source)), work, lambda *batch: write_output(work, *batch))


def kafka_query(spark: SparkSession, servers: str, topics: list[str], work: Path) -> None:
    """Read JSON messages from one topic, and write the bargains as JSON messages to another, once a second."""
    common = {"kafka.bootstrap.servers": servers}
    reading = {"subscribe": topics[0], "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    messages = spark.readStream.format("kafka").options(**common, **reading).load()
    events = messages.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")

    def write(batch: int, bargains: DataFrame) -> None:
        row = F.struct(F.col("seq").alias("id"), "*")
        rows = bargains.select(F.col("ticker").alias("key"), F.to_json(row).alias("value"))
        rows.write.format("kafka").options(**common, topic=topics[1]).save()

    deliver_bargains(spark, events, work, write, every="1 second")


def deliver_bargains(
    spark: SparkSession, events: DataFrame, work: Path, write: Callable[[int, DataFrame], None], *, every: str = "0 seconds"
) -> None:
    """Start the query. `write` receives the bargains of each batch."""
    trades, averages = State(spark, work / "state" / "trades", TRADES), State(spark, work / "state" / "averages", AVERAGES)

    def deliver(events: DataFrame, batch: int) -> None:
        events.persist()
        recent = trades.before(batch).unionByName(events.where("kind = 'trade'").select("seq", "ticker", "price", "volume"))
        quotes = events.where("kind = 'quote'").select("seq", "ticker", "ask_price", "ask_size")
        first = events.agg(F.min("seq")).head()[0]
        newest = averages_of(totals_of(recent)).where(F.col("seq") >= first).persist()
        write(batch, gains_of(averages.before(batch).unionByName(newest), quotes))
        trades.after(batch, last_of(recent, 4))
        averages.after(batch, last_of(averages.before(batch).unionByName(newest), 1))
        newest.unpersist()
        events.unpersist()

    start(events, work, "bargains", deliver, every=every)


def many_queries(spark: SparkSession, source: Path, work: Path) -> None:
    def stream(name: str, schema: str) -> DataFrame:
        folder = work / "streams" / name
        folder.mkdir(parents=True, exist_ok=True)
        return spark.readStream.schema(schema).parquet(str(folder))

    def pass_on(frame: DataFrame, name: str) -> None:
        folder = str(work / "streams" / name)
        checkpoint = str(work / "checkpoints" / name)
        frame.writeStream.option("checkpointLocation", checkpoint).queryName(name).format("parquet").option("path", folder).start()

    events = spark.readStream.schema(SCHEMA).parquet(str(source))
    both = "seq long, ticker string, kind string, price double, volume long, ask_price double, ask_size long"
    pass_on(events.select("seq", "ticker", "kind", "price", "volume", "ask_price", "ask_size"), "trade_quote")
    pass_on(stream("trade_quote", both).where("kind = 'trade'").select("seq", "ticker", "price", "volume"), "trade_filter")
    pass_on(stream("trade_quote", both).where("kind = 'quote'").select("seq", "ticker", "ask_price", "ask_size"), "quote_filter")
    trades, averages = State(spark, work / "state" / "trades", TRADES), State(spark, work / "state" / "averages", AVERAGES)

    def aggregate(batch: DataFrame, number: int) -> None:
        batch.persist()
        recent = trades.before(number).unionByName(batch)
        first = batch.agg(F.min("seq")).head()[0]
        if first is not None:
            totals = totals_of(recent).where(F.col("seq") >= first)
            totals.write.mode("overwrite").parquet(str(work / "streams" / "aggregator" / f"batch={number}"))
        trades.after(number, last_of(recent, 4))
        batch.unpersist()

    start(stream("trade_filter", TRADES), work, "aggregator", aggregate)
    folder = work / "streams" / "aggregator"
    folder.mkdir(parents=True, exist_ok=True)
    pass_on(averages_of(spark.readStream.schema(TOTALS).parquet(str(folder / "batch=*"))), "vwap")

    def compare(batch: DataFrame, number: int) -> None:
        batch.persist()
        newer = averages.before(number).unionByName(batch.where("vwap is not null").select("seq", "ticker", "vwap"))
        write_output(work, number, gains_of(newer, batch.where("vwap is null").select("seq", "ticker", "ask_price", "ask_size")))
        averages.after(number, last_of(newer, 1))
        batch.unpersist()

    merged = stream("vwap", AVERAGES).unionByName(
        stream("quote_filter", "seq long, ticker string, ask_price double, ask_size long"), allowMissingColumns=True
    )
    start(merged, work, "bargains", compare)


class State:
    """A small table that each batch replaces. The table of the previous batch stays, so that Spark can repeat a batch."""

    def __init__(self, spark: SparkSession, folder: Path, schema: str) -> None:
        self.spark, self.folder, self.schema = spark, folder, schema

    def before(self, batch: int) -> DataFrame:
        path = self.folder / str(batch - 1)
        return (
            self.spark.read.schema(self.schema).parquet(str(path)) if path.exists() else self.spark.createDataFrame([], self.schema)
        )

    def after(self, batch: int, rows: DataFrame) -> None:
        rows.coalesce(1).write.mode("overwrite").parquet(str(self.folder / str(batch)))
        shutil.rmtree(self.folder / str(batch - 2), ignore_errors=True)


def start(frame: DataFrame, work: Path, name: str, deliver: Callable[[DataFrame, int], None], *, every: str = "0 seconds") -> None:
    writer = frame.writeStream.option("checkpointLocation", str(work / "checkpoints" / name)).queryName(name)
    writer.trigger(processingTime=every).foreachBatch(deliver).start()


def write_output(work: Path, batch: int, bargains: DataFrame) -> None:
    seqs = [row[0] for row in bargains.select("seq").collect()]
    with (work / "outputs.jsonl").open("a") as file:
        file.write(json.dumps({"at_s": time.time(), "batch": batch, "seqs": seqs}) + "\n")


def last_of(rows: DataFrame, n: int) -> DataFrame:
    newest = Window.partitionBy("ticker").orderBy(F.desc("seq"))
    return rows.withColumn("place", F.row_number().over(newest)).where(F.col("place") <= n).drop("place")


def totals_of(trades: DataFrame) -> DataFrame:
    recent = Window.partitionBy("ticker").orderBy("seq").rowsBetween(-4, 0)
    volume, price = F.sum("volume").over(recent), F.sum(F.col("price") * F.col("volume")).over(recent)
    return trades.select("seq", "ticker", volume.alias("total_volume"), price.alias("total_price"))


def averages_of(totals: DataFrame) -> DataFrame:
    return totals.select("seq", "ticker", F.try_divide("total_price", "total_volume").alias("vwap"))


def gains_of(averages: DataFrame, quotes: DataFrame) -> DataFrame:
    so_far = Window.partitionBy("ticker").orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
    return (
        averages.unionByName(quotes, allowMissingColumns=True)
        .withColumn("vwap", F.last("vwap", ignorenulls=True).over(so_far))
        .where("ask_price < vwap")
        .select("seq", "ticker", (F.col("ask_size") * (F.col("vwap") - F.col("ask_price"))).alias("gain"))
    )


if __name__ == "__main__":
    main()
