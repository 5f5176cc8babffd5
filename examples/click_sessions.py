"""Sessions of a click stream, as a Structured Streaming query: clicks of a user that are less than three seconds apart.

Clicks arrive up to two seconds late and out of order. A session comes out once the watermark has passed its end.

    python examples/click_sessions.py clicks.parquet      # writes a trace of two minutes
    holdfast run examples/click_sessions.py --trace clicks.parquet
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast import App

app = App("click-sessions", epoch_s=1.0)

clicks = app.source("clicks", "seq long, time timestamp, clicked_at timestamp, user string, page string")


@app.query(inputs=clicks)
def sessions(clicks: DataFrame) -> DataFrame:
    return (
        clicks.withWatermark("clicked_at", "2 seconds")
        .groupBy(F.session_window("clicked_at", "3 seconds").alias("session"), "user")
        .agg(F.count("*").alias("clicks"), F.approx_count_distinct("page").alias("pages"))
        .select("user", "session.start", "session.end", "clicks", "pages")
    )


@app.operator(inputs=sessions)
def long_sessions(sessions: DataFrame) -> DataFrame:
    """A function operator that reads the query."""
    return sessions.where("clicks >= 4")


app.sink("all_sessions", sessions)
app.sink("busy_sessions", long_sessions)
app.score("all_sessions", "sum(clicks)")


def write_trace(path: Path, *, seconds: int = 120, users: int = 40, rows_s: int = 50, seed: int = 1) -> None:
    """Write clicks of users who are active for some seconds and then pause, so that sessions end while the trace lasts."""
    rng = np.random.default_rng(seed)
    count = seconds * rows_s
    arrived = np.sort(rng.uniform(0, seconds, count))
    clicked = arrived - np.where(rng.random(count) < 0.2, rng.uniform(0, 2.5, count), 0.0)
    active = (clicked // 6).astype(int)  # every 6 seconds, other users are active
    user = (active * 7 + rng.integers(0, users // 4, count)) % users
    start = 1_700_000_000
    times = [pa.array(((start + s) * 1e6).astype("int64"), pa.timestamp("us", "UTC")) for s in (arrived, clicked)]
    rows = {"seq": np.arange(1, count + 1), "time": times[0], "clicked_at": times[1]}
    rows |= {"user": [f"u{number}" for number in user], "page": [f"p{number}" for number in rng.integers(0, 30, count)]}
    pq.write_table(pa.table(rows), path)


if __name__ == "__main__":
    write_trace(Path(sys.argv[1]))
