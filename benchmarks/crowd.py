"""Measure whether one of twenty PEs on two nodes of one core each is starved by the others.

    python benchmarks/crowd.py [--seconds 90] [--json]

Market data pass through six lanes that do the same work (filter, smooth, average; one PE each) and meet in one PE. With the source
these are twenty PEs. For every lane, the benchmark takes the median delay of its last PE after the close of an epoch, without the
first third of the run, and compares the slowest lane with the fastest. The sink's delay in the middle and in the last third shows
whether the whole application keeps up.
"""

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median

from holdfast.documents.job import Feed, Job
from holdfast.job_layout import layout_of
from holdfast.trace import write_market
from holdfast.trial.job_run import JobRun, run_job
from holdfast.trial.local_cluster import LocalCluster

BOUND = 1.5
LANES, ROWS = 6, 200
HEAD = """
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, last_rows

app = App("crowd")
market = app.source("market", "seq long, time timestamp, ticker string, kind string, price double, volume long", key="ticker")
"""
LANE = """

@app.operator(inputs=market)
def kept_{n}(market: DataFrame) -> DataFrame:
    return market.where("kind = 'trade'").select("seq", "epoch", "ticker", "price", "volume")


@app.operator(inputs=kept_{n}, keep=last_rows(9, by="ticker"), key="ticker")
def smooth_{n}(kept: DataFrame) -> DataFrame:
    recent = Window.partitionBy("ticker").orderBy("seq").rowsBetween(-9, 0)
    return kept.select("seq", "epoch", "ticker", F.avg("price").over(recent).alias("price"), "volume")


@app.operator(inputs=smooth_{n}, key="ticker")
def mean_{n}(smooth: DataFrame) -> DataFrame:
    return smooth.groupBy("epoch", "ticker").agg(F.max("seq").alias("seq"), F.avg("price").alias("price"))
"""
TAIL = """

@app.operator(inputs=[{means}])
def together(*lanes: DataFrame) -> DataFrame:
    first, *rest = lanes
    for lane in rest:
        first = first.unionByName(lane)
    return first.groupBy("epoch", "ticker").agg(F.max("seq").alias("seq"), F.avg("price").alias("price"))


app.sink("prices", together)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=90)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        folder = Path(name)
        app = folder / "crowd.py"
        lanes = "".join(LANE.format(n=n) for n in range(1, LANES + 1))
        app.write_text(HEAD + lanes + TAIL.format(means=", ".join(f"mean_{n}" for n in range(1, LANES + 1))))
        write_market(folder / "market.parquet", events=ROWS * options.seconds, seed=1, rate=float(ROWS), peak=1.5 * ROWS)
        job_run = run(app, folder / "market.parquet", folder / "run")
    by_lane = {f"mean_{n}": median(delays(job_run, f"mean_{n}")) for n in range(1, LANES + 1)}
    slowest, fastest = max(by_lane.values()), min(by_lane.values())
    at_sink = [event.about["latency_s"] for event in job_run.events if event.kind == "output" and event.about["as"] == "first"]
    third = len(at_sink) // 3
    document = {
        "claim": f"of twenty PEs on two nodes none is starved: the slowest lane is at most {BOUND:g} times as late as the fastest",
        "ours": slowest,
        "theirs": fastest,
        "ratio": slowest / fastest,
        "bound": BOUND,
        "holds": slowest / fastest <= BOUND,
        "lanes_s": by_lane,
        "sink_s": {"middle third": median(at_sink[third : 2 * third]), "last third": median(at_sink[2 * third :])},
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for lane, delay in by_lane.items():
        print(f"{lane}: {delay:.2f} s after the epoch closed")
    print(f"sink: {document['sink_s']}")
    print(f"slowest to fastest {document['ratio']:.2f} (bound {BOUND:g}): {'holds' if document['holds'] else 'does not hold'}")


def run(app: Path, trace: Path, work: Path) -> JobRun:
    """Run the application on two nodes of one core until it has ended."""
    job = Job(
        job="crowd",
        type="finite",
        application=str(app),
        feed=Feed(trace=str(trace)),
        log=str(work / "log"),
        out=str(work / "out"),
    )
    with LocalCluster(work, nodes=2) as cluster:
        cluster.start()
        job_run = run_job(job, layout_of(job), cluster)
    if job_run.state != "completed":
        raise SystemExit(f"the run ended as {job_run.state}: {job_run.reason}")
    return job_run


def delays(job_run: JobRun, stream: str) -> list[float]:
    """Return the delay of each commit of a stream after the epoch's close, without the first third."""
    assert job_run.timeline is not None
    line = job_run.timeline
    delays_s = [
        event.at_s - line.closes_s(event.about["epoch"])
        for event in job_run.events
        if event.kind == "commit" and event.about["stream"] == stream
    ]
    return delays_s[len(delays_s) // 3 :]


if __name__ == "__main__":
    main()
