"""Orders without the repetitions of a sender that retries, as deduplication within a watermark.

A repetition of an order comes at most ten seconds after it; then Spark forgets the order. Totals per shop are a function operator
that reads the query.

    python examples/unique_orders.py orders.parquet       # writes a trace of two minutes
    holdfast run examples/unique_orders.py --trace orders.parquet
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast import App, last_epochs

TTL_S = 10

app = App("unique-orders", epoch_s=1.0)

orders = app.source("orders", "seq long, time timestamp, ordered_at timestamp, number long, shop string, amount double")


@app.query(inputs=orders)
def unique_orders(orders: DataFrame) -> DataFrame:
    unique = orders.withWatermark("ordered_at", f"{TTL_S} seconds").dropDuplicatesWithinWatermark(["number"])
    return unique.select("number", "shop", "amount", "ordered_at")


@app.operator(inputs=unique_orders, keep=last_epochs(4))
def turnover(unique_orders: DataFrame) -> DataFrame:
    """The turnover of each shop over five epochs, in each epoch."""
    in_window = unique_orders.withColumn("epoch", F.explode(F.expr("sequence(epoch, epoch + 4)")))
    return in_window.groupBy("epoch", "shop").agg(F.max("seq").alias("seq"), F.round(F.sum("amount"), 2).alias("amount"))


app.sink("orders_once", unique_orders)
app.sink("turnovers", turnover)
app.score("orders_once", "sum(amount)")


def write_trace(path: Path, *, seconds: int = 120, orders_s: int = 40, seed: int = 1) -> None:
    """Write orders, of which a third are repeated once or twice within eight seconds."""
    rng = np.random.default_rng(seed)
    count = seconds * orders_s
    ordered = rng.uniform(0, seconds, count)
    repeated = [rng.choice(count, count // 3, replace=False), rng.choice(count, count // 6, replace=False)]
    number = np.concatenate([np.arange(count), *repeated])
    arrived = np.concatenate([ordered, *(ordered[some] + rng.uniform(0, 8, len(some)) for some in repeated)])
    order = np.argsort(arrived, kind="stable")
    order = order[arrived[order] < seconds]
    number, arrived = number[order], arrived[order]
    shop, amount = rng.integers(0, 8, count), np.round(rng.uniform(5, 100, count), 2)
    times = [pa.array(((1_700_000_000 + s) * 1e6).astype("int64"), pa.timestamp("us", "UTC")) for s in (arrived, ordered[number])]
    rows = {"seq": np.arange(1, len(number) + 1), "time": times[0], "ordered_at": times[1], "number": number}
    pq.write_table(pa.table(rows | {"shop": [f"s{shop[n]}" for n in number], "amount": amount[number]}), path)


if __name__ == "__main__":
    write_trace(Path(sys.argv[1]))
