"""End-to-end latency without faults: PEs on two nodes against plain Structured Streaming with as many queries.

    python benchmarks/steady_state.py [--seconds 60] [--warm-up 20] [--json]

Bargain Discovery runs with 1,000 tuples per second in epochs of one second. Unfused: each operator is a PE, and plain Spark has a
query per operator that passes its rows on in files. Fused: one PE, and one query. Latency is the time from the end of an epoch
until its rows have left. The first --warm-up seconds are not measured. CPU is that of all processes of a side, without their start.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent))
from rival import Feeder, Rival

from holdfast.documents.job import Feed, Job
from holdfast.job_layout import layout_of
from holdfast.trace import write_market
from holdfast.trial.job_run import run_job
from holdfast.trial.local_cluster import LocalCluster

BOUNDS = {"unfused": 1.5, "fused": 1.2}
ROWS = 1000
EXAMPLE = Path(__file__).parents[1] / "examples" / "bargain_discovery.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--only", choices=sorted(BOUNDS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ways = [options.only] if options.only else sorted(BOUNDS, reverse=True)
    ours: dict[str, dict[str, float]] = {}
    theirs: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        folder = Path(name)
        trace = folder / "market.parquet"
        write_market(trace, events=ROWS * options.seconds, seed=1, rate=float(ROWS), peak=1.1 * ROWS)
        fused = write_fused(folder)
        for way in ways:
            app, queries, nodes = (EXAMPLE, "many", 2) if way == "unfused" else (fused, "one", 1)
            ours[way] = summary(*run_ours(trace, app, folder / f"ours-{way}", nodes=nodes, warm_up=options.warm_up))
            theirs[way] = run_theirs(trace, folder / f"theirs-{way}", queries, seconds=options.seconds, warm_up=options.warm_up)
    ratios = {way: ours[way]["median_s"] / theirs[way]["median_s"] for way in ways}
    document = {
        "claim": "fault-free, the median latency after an epoch closes is at most "
        + ", ".join(f"{BOUNDS[way]:g} times that of plain Structured Streaming {way}" for way in ways),
        "ours": ours,
        "theirs": theirs,
        "ratio": ratios,
        "bound": {way: BOUNDS[way] for way in ways},
        "holds": all(ratios[way] <= BOUNDS[way] for way in ways),
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for way in ways:
        for side, result in (("ours", ours[way]), ("theirs", theirs[way])):
            latency = f"median {result['median_s']:.2f} s, 95 % within {result['p95_s']:.2f} s"
            print(f"{way:8} {side:6} {latency}, {result['cores']:.2f} cores ({result['epochs']} epochs)")
        print(f"{way:8} ratio  {ratios[way]:.2f} (bound {BOUNDS[way]:g})")
    print("holds" if document["holds"] else "does not hold")


def write_fused(folder: Path) -> Path:
    """Write the example with all operators in one PE, and return its path."""
    fused = folder / "fused.py"
    fused.write_text(EXAMPLE.read_text().replace("@app.operator(", '@app.operator(pe="all", '))
    return fused


def run_ours(trace: Path, app: Path, work: Path, *, nodes: int, warm_up: int, sync: bool = True) -> tuple[list[float], float]:
    """Return the latency of each epoch after the warm-up, and the cores that all processes used."""
    job = Job(
        job="steady",
        type="finite",
        application=str(app),
        feed=Feed(trace=str(trace)),
        log=str(work / "log"),
        out=str(work / "out"),
        sync=sync,
    )
    with LocalCluster(work, nodes=nodes) as cluster:
        cluster.start()
        names = ["orchestrator", *cluster.names]
        meter = Meter()

        def show(document, nodes, timeline) -> None:  # type: ignore[no-untyped-def]  # as run_job calls it
            if timeline is not None and time.time() >= timeline.opened_s + warm_up:
                hosts = [node.get("pid") for node in nodes]
                meter.read([cluster.pid(name) for name in names], hosts)

        result = run_job(job, layout_of(job), cluster, show=show)
    assert result.timeline is not None
    first = result.timeline.first + warm_up
    outputs = [e.about for e in result.events if e.kind == "output" and e.about["as"] == "first" and e.about["rows"]]
    return [about["latency_s"] for about in outputs if about["epoch"] >= first], meter.cores


def run_theirs(trace: Path, work: Path, queries: str, *, seconds: int, warm_up: int) -> dict[str, float]:
    rival = Rival(work / "input", work, queries=queries)
    feeder = Feeder(trace, rival.source, rows=ROWS, epochs=seconds)
    rival.start()
    try:
        rival.wait_ready()
        feeder.start()
        time.sleep(warm_up)
        meter = Meter()
        assert rival.process is not None
        meter.read([rival.process.pid], [])
        feeder.join()
        meter.read([rival.process.pid], [])
        time.sleep(10)
    finally:
        rival.kill()
    output_s = rival.output_times(feeder.closed, ROWS)
    return summary([at_s - feeder.closed[epoch][0] for epoch, at_s in output_s.items() if epoch >= warm_up], meter.cores)


class Meter:
    """Measures the cores that processes and their children use between the first and the last reading."""

    def __init__(self) -> None:
        self.readings: list[tuple[float, float]] = []

    def read(self, roots: list[int], others: list[int | None]) -> None:
        cpu_s = 0.0
        for pid in [*roots, *(other for other in others if other)]:
            try:
                root = psutil.Process(pid)
                cpu_s += sum(sum(process.cpu_times()[:2]) for process in [root, *root.children(recursive=True)])
            except psutil.Error:
                return  # a process has ended, so this reading would be too low
        self.readings.append((time.time(), cpu_s))

    @property
    def cores(self) -> float:
        (began_s, before_s), (ended_s, after_s) = self.readings[0], self.readings[-1]
        return (after_s - before_s) / (ended_s - began_s)


def summary(latencies: list[float], cores: float) -> dict[str, float]:
    ordered = sorted(latencies)
    median, p95 = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
    return {"median_s": median, "p95_s": p95, "cores": cores, "epochs": len(ordered)}


if __name__ == "__main__":
    main()
