"""An hour of a stream, compressed: memory, open files, threads and the log must stay as they are.

    python benchmarks/endurance.py [--epochs 3600] [--speed 10] [--json]

Bargain Discovery, every operator a PE of its own, over two nodes: an hour of epochs of a second, 100 tuples each, replayed --speed
times faster. There are 200 tickers; with thousands, what the application itself remembers of them grows all hour long. What the PE
hosts, the orchestrator and the nodes' controllers hold and what lies in the log is read twice a second; the last quarter of the run
is compared with the second one (the first warms up).
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
        held, seconds = endure(trace, folder / "run", speed=options.speed)
    early = {what: fmean(values[len(values) // 4 : len(values) // 2]) for what, values in held.items()}
    late = {what: fmean(values[-(len(values) // 4) :]) for what, values in held.items()}
    ratios = {what: late[what] / early[what] for what in held}
    document = {
        "claim": f"over {options.epochs} epochs in {seconds:.0f} s nothing that is held grows: last quarter against second quarter",
        "ours": late,
        "theirs": early,
        "ratio": ratios,
        "bound": BOUND,
        "holds": all(ratio <= BOUND for ratio in ratios.values()),
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for what in held:
        print(f"{what:30} {early[what]:12,.1f} then {late[what]:12,.1f}: {ratios[what]:.2f} (bound {BOUND:g})")
    print("holds" if document["holds"] else "does not hold")


def endure(trace: Path, work: Path, *, speed: float) -> tuple[dict[str, list[float]], float]:
    """Run the trace, and return all readings of what is held, with the seconds that it took."""
    job = Job(
        job="endurance",
        type="finite",
        application=str(EXAMPLE),
        feed=Feed(trace=str(trace), speed=speed),
        log=str(work / "log"),
        out=str(work / "out"),
        contract=Contract(checkpoint_epochs=30),
    )
    held: dict[str, list[float]] = {}
    with LocalCluster(work, nodes=2) as cluster:
        cluster.start()
        ran = run_job(job, layout_of(job), cluster, show=reader(held, cluster, work / "log"))
    if ran.state != "completed":
        raise SystemExit(f"the run ended as {ran.state}: {ran.reason}")
    return held, ran.seconds


def reader(
    held: dict[str, list[float]], cluster: LocalCluster, log: Path
) -> Callable[[dict[str, Any], list[dict[str, Any]], Timeline | None], None]:
    """Keeps a reading every half second, and says every half minute how far it is."""
    last, said = [0.0], [0.0]

    def show(story: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> None:
        if timeline is None or time.monotonic() - last[0] < 0.5:
            return
        last[0] = time.monotonic()
        hosts = [node["host_status"] for node in nodes if node["host_status"]]
        files = [found for found in log.rglob("*") if found.is_file()]
        now = {
            "memory of hosts (MiB)": sum(host["memory_bytes"] for host in hosts) / 2**20,
            "open files of hosts": sum(host["files"] for host in hosts),
            "threads of hosts": sum(host["threads"] for host in hosts),
            **of_processes("orchestrator", [cluster.pid("orchestrator")]),
            **of_processes("controllers", [cluster.pid(name) for name in cluster.names]),
            "files in the log": len(files),
            "log (MiB)": sum(_size(found) for found in files) / 2**20,
        }
        for what, value in now.items():
            held.setdefault(what, []).append(value)
        if time.monotonic() - said[0] > 30:
            said[0] = time.monotonic()
            statuses = [replica["status"] or {} for task in story["tasks"] for replica in task["replicas"]]
            clean = [status["clean"] for status in statuses if status.get("clean") is not None]
            at = f"epochs {min(clean)} to {max(clean)}" if clean else "starting"
            print(f"{at}: {', '.join(f'{what} {value:,.1f}' for what, value in now.items())}", file=sys.stderr)

    return show


def of_processes(whose: str, pids: Sequence[int]) -> dict[str, float]:
    """What processes hold, without those that they have started."""
    found = [psutil.Process(pid) for pid in pids]
    return {
        f"memory of {whose} (MiB)": sum(process.memory_info().rss for process in found) / 2**20,
        f"open files of {whose}": sum(process.num_fds() for process in found),
        f"threads of {whose}": sum(process.num_threads() for process in found),
    }


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # trimmed meanwhile
        return 0


if __name__ == "__main__":
    main()
