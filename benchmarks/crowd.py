"""Twenty PEs on two nodes of one core each: none is starved by the others.

    python benchmarks/crowd.py [--seconds 90] [--json]

Market data through six lanes that do the same work (filter, smooth, average; a PE each), which meet in one; with the source, twenty
PEs. For every lane the median delay of its last PE after an epoch closed is taken, first third of the run left out; the slowest is
compared with the fastest. That the whole keeps up, or falls behind evenly, is told beside it: the sink's delay early and late.
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
        ran = run(app, folder / "market.parquet", folder / "run")
    by_lane = {f"mean_{n}": median(delays(ran, f"mean_{n}")) for n in range(1, LANES + 1)}
    slowest, fastest = max(by_lane.values()), min(by_lane.values())
    at_sink = [event.about["latency_s"] for event in ran.events if event.kind == "output" and event.about["as"] == "first"]
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
    """The application over two nodes of one core, to its end."""
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
        ran = run_job(job, layout_of(job), cluster)
    if ran.state != "completed":
        raise SystemExit(f"the run ended as {ran.state}: {ran.reason}")
    return ran


def delays(ran: JobRun, stream: str) -> list[float]:
    """How long after each epoch of a stream closed it was committed, the first third left out."""
    assert ran.timeline is not None
    line = ran.timeline
    found = [
        event.at_s - line.closes_s(event.about["epoch"])
        for event in ran.events
        if event.kind == "commit" and event.about["stream"] == stream
    ]
    return found[len(found) // 3 :]


if __name__ == "__main__":
    main()
