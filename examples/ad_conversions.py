"""Advertisements and the clicks on them, as a stream-stream join with time bounds.

A click belongs to an impression that was shown at most ten seconds before it. An impression without a click comes out with a null
once the watermarks of both streams exclude one. Impressions arrive up to two seconds late, clicks up to four.

    python examples/ad_conversions.py ads                 # writes a trace of two minutes, a folder of two files
    holdfast run examples/ad_conversions.py --trace ads
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast import App

app = App("ad-conversions", epoch_s=1.0)

impressions = app.source("impressions", "seq long, time timestamp, ad long, shown_at timestamp, campaign string")
clicks = app.source("clicks", "seq long, time timestamp, ad long, clicked_at timestamp")


@app.operator(inputs=impressions)
def paid(impressions: DataFrame) -> DataFrame:
    """A function operator that a query reads."""
    return impressions.where("campaign <> 'own'")


@app.query(inputs=[paid, clicks])
def conversions(paid: DataFrame, clicks: DataFrame) -> DataFrame:
    shown = paid.withWatermark("shown_at", "2 seconds").select("ad", "shown_at", "campaign")
    clicked = clicks.withWatermark("clicked_at", "4 seconds").select(F.col("ad").alias("clicked_ad"), "clicked_at")
    soon = F.expr("ad = clicked_ad and clicked_at between shown_at and shown_at + interval 10 seconds")
    return shown.join(clicked, soon, "leftOuter").select("ad", "campaign", "shown_at", "clicked_at")


app.sink("converted", conversions)
app.score("converted", "count(clicked_at)")


def write_trace(folder: Path, *, seconds: int = 120, ads_s: int = 30, seed: int = 1) -> None:
    """Write impressions, and clicks on a third of them after one to twelve seconds."""
    rng = np.random.default_rng(seed)
    count = seconds * ads_s
    shown = rng.uniform(0, seconds, count)
    late_s = np.where(rng.random(count) < 0.2, rng.uniform(0, 2.5, count), 0.0)
    ad = rng.choice(count, count // 3, replace=False)
    clicked = shown[ad] + rng.uniform(1, 12, len(ad))
    clicks_late_s = np.where(rng.random(len(ad)) < 0.2, rng.uniform(0, 4.5, len(ad)), 0.0)
    campaign = np.array(["spring", "summer", "own"])[rng.integers(0, 3, count)]
    arrived = np.concatenate([shown + late_s, clicked + clicks_late_s])
    seq = np.empty(len(arrived), np.int64)
    seq[np.argsort(arrived, kind="stable")] = np.arange(1, len(arrived) + 1)
    folder.mkdir(parents=True, exist_ok=True)
    of_impressions = {"ad": np.arange(count), "shown_at": at(shown), "campaign": campaign}
    _write(folder / "impressions.parquet", {"seq": seq[:count], "time": at(arrived[:count]), **of_impressions}, seconds)
    _write(
        folder / "clicks.parquet", {"seq": seq[count:], "time": at(arrived[count:]), "ad": ad, "clicked_at": at(clicked)}, seconds
    )


def at(seconds: np.ndarray) -> pa.Array:
    return pa.array(((1_700_000_000 + seconds) * 1e6).astype("int64"), pa.timestamp("us", "UTC"))


def _write(path: Path, columns: dict[str, object], seconds: int) -> None:
    """Write the rows that arrive before the trace ends, in their order."""
    rows = pa.table(columns).sort_by("seq")
    end = pa.scalar((1_700_000_000 + seconds) * 1_000_000, pa.timestamp("us", "UTC"))
    pq.write_table(rows.filter(pc.less(rows["time"], end)), path)


if __name__ == "__main__":
    write_trace(Path(sys.argv[1]))
