"""Recovery after 30 epochs of backlog: a PE on a standby node against plain Structured Streaming restarted from its checkpoint.

    python benchmarks/recovery.py [--backlog 30] [--json]

Bargain Discovery runs as one PE (plain Spark: as one query) with 1,000 tuples per second. Both are killed with SIGKILL when they
run smoothly, and recovery begins --backlog seconds later. With holdfast, the job's policy delays the restart for that time;
then a standby node restores the checkpoint and processes the backlog as one Spark job. Plain Spark is restarted. The measured time
begins with the recovery and ends when the output is current again. In a third run the PE has an active replica; its longest silence
is the gap.

The time to detect the failure is reported separately and is in neither result. For holdfast it is the time from the kill until the
node counts as lost in the third run. For plain Spark it is assumed to be 0.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from rival import Feeder, Rival

from holdfast.documents.fault_schedule import Schedule
from holdfast.documents.job import Contract, Feed, Job, Policy
from holdfast.job_layout import layout_of
from holdfast.trace import write_market
from holdfast.trial.checkers import output_gap_s, recoveries
from holdfast.trial.job_run import JobRun, run_job
from holdfast.trial.local_cluster import LocalCluster

BOUND, GAP_BOUND = 3.0, 10.0
ROWS = 1000
SMOOTH_S = 30
EXAMPLE = Path(__file__).parents[1] / "examples" / "bargain_discovery.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backlog", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        folder = Path(name)
        seconds = SMOOTH_S + options.backlog + 30
        trace = folder / "market.parquet"
        write_market(trace, events=ROWS * seconds, seed=1, rate=float(ROWS), peak=float(2 * ROWS))
        fused = folder / "fused.py"
        fused.write_text(EXAMPLE.read_text().replace("@app.operator(", '@app.operator(pe="all", '))
        theirs = plain(trace, folder / "plain", backlog=options.backlog, epochs=seconds)
        ours = checkpointed(trace, fused, folder / "ours", backlog=options.backlog)
        detection, gap = replicated(trace, fused, folder / "replica")
    silence = options.backlog + theirs["until_current_s"]
    document = {
        "claim": f"after {options.backlog} epochs of backlog the output is current again at least {BOUND:g} times sooner than with "
        f"plain Structured Streaming; with a replica the silence is at least {GAP_BOUND:g} times shorter",
        "ours": {"detection_s": detection, **ours, "gap_with_replica_s": gap},
        "theirs": {"detection_s": 0.0, **theirs},
        "ratio": theirs["until_current_s"] / ours["until_current_s"],
        "bound": BOUND,
        "gap_ratio": silence / gap,
        "gap_bound": GAP_BOUND,
        "holds": theirs["until_current_s"] / ours["until_current_s"] >= BOUND and silence / gap >= GAP_BOUND,
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for key, value in document.items():
        print(f"{key}: {value}")


def plain(trace: Path, work: Path, *, backlog: int, epochs: int) -> dict[str, float]:
    """Kill and restart plain Structured Streaming, and return how long it takes until its output is current."""
    rival = Rival(work / "input", work, queries="one")
    feeder = Feeder(trace, rival.source, rows=ROWS, epochs=epochs)
    rival.start()
    rival.wait_ready()
    feeder.start()
    time.sleep(SMOOTH_S)
    rival.kill()
    time.sleep(backlog)
    began_s, outputs_before = time.time(), len(rival.outputs())
    rival.start()
    first_s = current_s = 0.0
    while not current_s and time.time() < began_s + 300:
        outputs = rival.outputs()
        if not first_s and len(outputs) > outputs_before:
            first_s = float(str(outputs[outputs_before]["at_s"]))
        output_s = rival.output_times(feeder.closed, ROWS)
        newest = max(output_s, default=-1)
        if first_s and newest >= 0 and output_s[newest] - feeder.closed[newest][0] < 3.0 and output_s[newest] > began_s:
            current_s = output_s[newest]
        time.sleep(0.2)
    rival.kill()
    return {"restart_s": first_s - began_s, "catch_up_s": current_s - first_s, "until_current_s": current_s - began_s}


def run(
    trace: Path, app: Path, work: Path, *, contract: Contract, replicas: dict[str, int], backoff_s: float = 0.0
) -> tuple[JobRun, float]:
    """Run the trace and kill the node of the primary on the way. Returns the run and the time of the kill."""
    job = Job(
        job="recovery",
        type="finite",
        application=str(app),
        feed=Feed(trace=str(trace)),
        log=str(work / "log"),
        out=str(work / "out"),
        contract=contract,
        replicas=replicas,
        policy=Policy(backoff_s=backoff_s),
    )
    cluster = LocalCluster(work, nodes=2)
    try:
        cluster.start()
        killer = NodeKiller(cluster)
        result = run_job(job, layout_of(job), cluster, schedule=Schedule(), show=killer.show)
    finally:
        cluster.close()
    return result, killer.killed_s


class NodeKiller:
    """Kills the node of the PE's primary once the job has run smoothly for a while."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.killed_s = cluster, 0.0

    def show(self, document, nodes, timeline) -> None:  # type: ignore[no-untyped-def]  # as run_job calls it
        if self.killed_s or timeline is None or time.time() < timeline.opened_s + SMOOTH_S:
            return
        primary = next(r for task in document["tasks"] if task["task"] == "all/0" for r in task["replicas"] if r["rank"] == 0)
        self.killed_s = time.time()
        self.cluster.kill_node(primary["node"])


def checkpointed(trace: Path, app: Path, work: Path, *, backlog: int) -> dict[str, float]:
    """Kill a node, and return how long a standby node takes until the output is current."""
    contract = Contract(checkpoint_epochs=10)
    result, _ = run(trace, app, work, contract=contract, replicas={"market": 2, "bargains": 2}, backoff_s=float(backlog))
    (recovery,) = [recovery for recovery in recoveries(result.events) if recovery.task == "all/0"]
    begun_s = recovery.detected_s + backlog
    outputs = [e for e in result.events if e.kind == "output" and e.about["as"] == "first" and e.at_s > begun_s]
    current_s = next(e.at_s for e in outputs if e.about["latency_s"] < 3.0)
    return {
        "restart_s": recovery.started_s - begun_s,
        "catch_up_s": current_s - recovery.started_s,
        "until_current_s": current_s - begun_s,
    }


def replicated(trace: Path, app: Path, work: Path) -> tuple[float, float]:
    """Return how long after its kill a node counts as lost, and the longest silence of the sink with an active replica."""
    replicas = {"market": 2, "all": 2, "bargains": 2}
    result, killed_s = run(trace, app, work, contract=Contract(), replicas=replicas)
    assert result.timeline is not None
    gap_s = output_gap_s(result.events, sink="bargains", after_s=result.timeline.opened_s + SMOOTH_S - 5)
    assert gap_s is not None
    detected_s = min(event.at_s for event in result.events if event.kind == "detected" and event.at_s > killed_s)
    return detected_s - killed_s, gap_s


if __name__ == "__main__":
    main()
