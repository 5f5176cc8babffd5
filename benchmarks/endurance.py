"""An hour of a stream, replayed faster: memory, open files, threads and the log must not grow.

    python benchmarks/endurance.py [--epochs 3600] [--speed 10] [--json]

Bargain Discovery runs on two nodes with one PE per operator: an hour of epochs of one second with 100 tuples each, replayed --speed
times faster. There are only 200 tickers, because the application's own state grows during the whole hour with thousands. Twice a
second the benchmark reads the resources of the PE hosts, the orchestrator and the node controllers, and the size of the log. It
compares the last quarter of the run with the second quarter. The first is the warm-up.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import psutil

from holdfast.documents.job import Contract, Feed, Job
from holdfast.job_layout import layout_of
from holdfast.log.timeline import Timeline
from holdfast.trace import write_market
from holdfast.trial.job_run import run_job
from holdfast.trial.local_cluster import LocalCluster

BOUND = 1.15
ROWS, TICKERS = 100, 200
EXAMPLE = Path(__file__).parents[1] / "examples" / "bargain_discovery.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3600)
    parser.add_argument("--speed", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        folder = Path(name)
        trace = folder / "market.parquet"
        write_market(trace, events=ROWS * options.epochs, seed=1, rate=float(ROWS), peak=1.5 * ROWS, tickers=TICKERS)
        readings, seconds = endure(trace, folder / "run", speed=options.speed)
    early = {what: fmean(values[len(values) // 4 : len(values) // 2]) for what, values in readings.items()}
    late = {what: fmean(values[-(len(values) // 4) :]) for what, values in readings.items()}
    ratios = {what: late[what] / early[what] for what in readings}
    document = {
        "claim": f"over {options.epochs} epochs in {seconds:.0f} s no resource grows: last quarter against second quarter",
        "ours": late,
        "theirs": early,
        "ratio": ratios,
        "bound": BOUND,
        "holds": all(ratio <= BOUND for ratio in ratios.values()),
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for what in readings:
        print(f"{what:30} {early[what]:12,.1f} then {late[what]:12,.1f}: {ratios[what]:.2f} (bound {BOUND:g})")
    print("holds" if document["holds"] else "does not hold")


def endure(trace: Path, work: Path, *, speed: float) -> tuple[dict[str, list[float]], float]:
    """Run the trace. Returns all readings of each resource, and the duration of the run in seconds."""
    job = Job(
        job="endurance",
        type="finite",
        application=str(EXAMPLE),
        feed=Feed(trace=str(trace), speed=speed),
        log=str(work / "log"),
        out=str(work / "out"),
        contract=Contract(checkpoint_epochs=30),
    )
    readings: dict[str, list[float]] = {}
    with LocalCluster(work, nodes=2) as cluster:
        cluster.start()
        result = run_job(job, layout_of(job), cluster, show=reader(readings, cluster, work / "log"))
    if result.state != "completed":
        raise SystemExit(f"the run ended as {result.state}: {result.reason}")
    return readings, result.seconds


def reader(
    readings: dict[str, list[float]], cluster: LocalCluster, log: Path
) -> Callable[[dict[str, Any], list[dict[str, Any]], Timeline | None], None]:
    """Return a function that adds a reading every half second and prints the progress every half minute."""
    read_s = printed_s = 0.0

    def show(document: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> None:
        nonlocal read_s, printed_s
        if timeline is None or time.monotonic() - read_s < 0.5:
            return
        read_s = time.monotonic()
        hosts = [node["host_status"] for node in nodes if node["host_status"]]
        files = [path for path in log.rglob("*") if path.is_file()]
        now = {
            "memory of hosts (MiB)": sum(host["memory_bytes"] for host in hosts) / 2**20,
            "open files of hosts": sum(host["files"] for host in hosts),
            "threads of hosts": sum(host["threads"] for host in hosts),
            **of_processes("orchestrator", [cluster.pid("orchestrator")]),
            **of_processes("controllers", [cluster.pid(name) for name in cluster.names]),
            "files in the log": len(files),
            "log (MiB)": sum(_size(path) for path in files) / 2**20,
        }
        for what, value in now.items():
            readings.setdefault(what, []).append(value)
        if time.monotonic() - printed_s > 30:
            printed_s = time.monotonic()
            statuses = [replica["status"] or {} for task in document["tasks"] for replica in task["replicas"]]
            clean = [status["clean"] for status in statuses if status.get("clean") is not None]
            at = f"epochs {min(clean)} to {max(clean)}" if clean else "starting"
            print(f"{at}: {', '.join(f'{what} {value:,.1f}' for what, value in now.items())}", file=sys.stderr)

    return show


def of_processes(whose: str, pids: Sequence[int]) -> dict[str, float]:
    """Return the memory, open files and threads of processes, without their children."""
    processes = [psutil.Process(pid) for pid in pids]
    return {
        f"memory of {whose} (MiB)": sum(process.memory_info().rss for process in processes) / 2**20,
        f"open files of {whose}": sum(process.num_fds() for process in processes),
        f"threads of {whose}": sum(process.num_threads() for process in processes),
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # trimmed meanwhile
        return 0


if __name__ == "__main__":
    main()
