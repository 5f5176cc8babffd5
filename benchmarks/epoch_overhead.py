"""Processing epoch by epoch against bare Spark jobs on the same rows, on one core.

    python benchmarks/epoch_overhead.py [--epochs 60] [--json]

Bargain Discovery runs in epochs of 1,000 tuples. For each operator and epoch the benchmark measures our PE, which computes the
output and the kept rows, and a bare job (createDataFrame, the operator's function, toArrow) on the same input rows. The ratio of
the medians is computed per operator, and the claim is the median of these ratios. The worst operator is shown. The whole
application must also need less time than its epoch of one second.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.app.load import load_app
from holdfast.engine.analysis import analyse
from holdfast.engine.epochs import Span
from holdfast.engine.pe import Pe
from holdfast.engine.session import open_session
from holdfast.engine.spark_jobs import kept_by
from holdfast.trace import write_market

BOUND = 1.5
ROWS = 1000
WARM = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    app = load_app(Path(__file__).parents[1] / "examples" / "bargain_discovery.py")
    graph = app.graph()
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as folder:
        trace = Path(folder) / "market.parquet"
        write_market(trace, events=(options.epochs + WARM) * ROWS, seed=1)
        rows = pq.read_table(trace)
    rows = rows.append_column("epoch", pa.array([n // ROWS for n in range(rows.num_rows)], pa.int64()))
    spark = open_session("local[1]", name="epoch-overhead")
    schemas = analyse(graph, spark)
    fused = Pe(spark, graph, [operator.name for operator in graph.operators], schemas)
    alone = {operator.name: Pe(spark, graph, [operator.name], schemas) for operator in graph.operators}
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in alone}
    whole: list[float] = []
    for epoch in range(options.epochs + WARM):
        span = Span(epoch, epoch, epoch * ROWS, (epoch + 1) * ROWS)
        new = rows.slice(epoch * ROWS, ROWS)
        started = time.perf_counter()
        fused.run({"market": new}, span)
        whole.append(time.perf_counter() - started)
        streams = {"market": new}
        for name, pe in alone.items():
            operator = graph.operator(name)
            inputs = []
            for stream in operator.inputs:
                kept_rows, new_rows = pe.kept_rows.get(kept_by(name, stream)), streams[stream]
                inputs.append(new_rows if kept_rows is None else pa.concat_tables([kept_rows, new_rows.cast(kept_rows.schema)]))
            started = time.perf_counter()
            operator.function(*(spark.createDataFrame(table) for table in inputs)).toArrow()
            bare = time.perf_counter() - started
            started = time.perf_counter()
            streams.update(pe.run({stream: streams[stream] for stream in pe.reads}, span))
            ours = time.perf_counter() - started
            times[name][0].append(ours)
            times[name][1].append(bare)
        if epoch % 10 == 0:
            print(f"epoch {epoch} of {options.epochs + WARM}", file=sys.stderr)
    spark.stop()
    medians = {name: tuple(statistics.median(side[WARM:]) for side in sides) for name, sides in times.items()}
    ratios = {name: ours / bare for name, (ours, bare) in medians.items()}
    fused_s = statistics.median(whole[WARM:])
    unfused_s = sum(ours for ours, _ in medians.values())
    ours_ms = 1000 * statistics.median(ours for ours, _ in medians.values())
    theirs_ms = 1000 * statistics.median(bare for _, bare in medians.values())
    ratio = statistics.median(ratios.values())
    worst = max(ratios, key=lambda name: ratios[name])
    outcome = {
        "claim": "median ms per epoch of 1,000 tuples and operator, against a bare Spark job on the same rows, one core",
        "ours": round(ours_ms, 1),
        "theirs": round(theirs_ms, 1),
        "ratio": round(ratio, 3),
        "bound": BOUND,
        "holds": ratio <= BOUND and min(fused_s, unfused_s) < 1.0,
        "worst_operator": {worst: round(ratios[worst], 3)},
        "fused_epoch_s": round(fused_s, 3),
        "unfused_epoch_s": round(unfused_s, 3),
        "operators": {name: {"ours_ms": round(1000 * o, 1), "bare_ms": round(1000 * b, 1)} for name, (o, b) in medians.items()},
    }
    if options.json:
        print(json.dumps(outcome, indent=2))
        return
    for name, (ours, bare) in medians.items():
        print(f"  {name:<14} ours {1000 * ours:6.1f} ms   bare {1000 * bare:6.1f} ms   ratio {ratios[name]:.2f}")
    print(f"{outcome['claim']}: ratio {ratio:.2f}, worst {worst} {ratios[worst]:.2f} (bound {BOUND}); holds: {outcome['holds']}")
    print(f"an epoch of one second takes {fused_s:.2f} s fused, {unfused_s:.2f} s unfused, on one core")


if __name__ == "__main__":
    main()
