"""Whole-trace Bargain Discovery against the same query written by hand in Spark SQL, in one Spark session.

    python benchmarks/replay_overhead.py [--events 5000000] [--rounds 5] [--json]

Both sides read the same Parquet file and compute the same count and sum. Their rounds alternate, the first round of each is
discarded, and the medians are compared. The benchmark also counts how often our plan reads the trace.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.app.load import load_app
from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.session import open_session
from holdfast.engine.trace_reader import open_trace
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.trace import write_market

BOUND = 1.15

BY_HAND = """
    with averages as (
        select seq, ticker, sum(price * volume) over recent / sum(volume) over recent as vwap
        from market where kind = 'trade'
        window recent as (partition by ticker order by seq rows between 4 preceding and current row)
    ), events as (
        select seq, ticker, vwap, cast(null as double) as ask_price, cast(null as bigint) as ask_size from averages
        union all
        select seq, ticker, null, ask_price, ask_size from market where kind = 'quote'
    ), latest as (
        select ask_price, ask_size,
               last_value(vwap, true) over (
                   partition by ticker order by seq rows between unbounded preceding and current row
               ) as vwap
        from events
    )
    select count(*) as bargains, sum(ask_size * (vwap - ask_price)) as gain from latest where ask_price < vwap
"""


def by_hand(spark: SparkSession, trace: Path) -> tuple[int, float]:
    spark.read.parquet(str(trace)).createOrReplaceTempView("market")
    return tuple(spark.sql(BY_HAND).first())  # type: ignore[return-value, arg-type]


def ours(spark: SparkSession, trace: Path) -> tuple[int, float]:
    return tuple(our_plan(spark, trace).first())  # type: ignore[return-value, arg-type]


def our_plan(spark: SparkSession, trace: Path):  # type: ignore[no-untyped-def]
    app = load_app(Path(__file__).parents[1] / "examples" / "bargain_discovery.py")
    graph = app.graph()
    sources = with_epochs({"market": spark.read.parquet(str(trace))}, ByTime(app.epoch_s))
    return build_whole_trace(graph, sources)["bargain_index"].selectExpr("count(*) as bargains", "sum(gain) as gain")


def scans(spark: SparkSession, trace: Path) -> int:
    """Return how often the executed plan reads the file."""
    frame = our_plan(spark, trace)
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    return plan.count("FileScan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as folder:
        trace = Path(folder) / "market.parquet"
        print(f"generating {options.events:,} events ...", file=sys.stderr)
        write_market(trace, events=options.events, seed=1)
        spark = open_session("local[2]", name="replay-overhead")
        open_trace(spark, load_app(Path(__file__).parents[1] / "examples" / "bargain_discovery.py").graph(), str(trace))
        seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
        results = {}
        for number in range(options.rounds + 1):
            for name, run in (("ours", ours), ("theirs", by_hand)):
                started = time.perf_counter()
                results[name] = run(spark, trace)
                seconds_of_round = time.perf_counter() - started
                if number:
                    seconds[name].append(seconds_of_round)
                print(f"round {number} {name}: {seconds_of_round:.2f} s", file=sys.stderr)
        reads = scans(spark, trace)
        spark.stop()
    same = results["ours"][0] == results["theirs"][0] and abs(results["ours"][1] / results["theirs"][1] - 1) < 1e-9
    ours_s, theirs_s = (statistics.median(seconds[name]) for name in ("ours", "theirs"))
    ratio = ours_s / theirs_s
    outcome = {
        "claim": f"whole-trace Bargain Discovery over {options.events:,} events against hand-written Spark SQL, median seconds",
        "ours": round(ours_s, 3),
        "theirs": round(theirs_s, 3),
        "ratio": round(ratio, 3),
        "bound": BOUND,
        "holds": ratio <= BOUND and same and reads == 1,
        "same_result": same,
        "reads_of_the_trace": reads,
        "rounds": options.rounds,
    }
    if options.json:
        print(json.dumps(outcome, indent=2))
    else:
        print(f"{outcome['claim']}: ours {ours_s:.2f}, by hand {theirs_s:.2f}, ratio {ratio:.2f} (bound {BOUND})")
        print(f"same result: {same}; reads of the trace: {reads}; holds: {outcome['holds']}")


if __name__ == "__main__":
    main()
