"""Recovery after 30 epochs of backlog: a PE on a standby node against plain Structured Streaming restarted from its checkpoint.

    python benchmarks/recovery.py [--backlog 30] [--json]

Bargain Discovery as one PE (theirs: as one query), 1,000 tuples a second. Both are killed with SIGKILL when they run smoothly;
nothing is done for --backlog seconds; then recovery begins. Ours: the orchestrator notices the lost node (its patience is set
to the backlog), a standby node restores the checkpoint and runs the backlog as one Spark job. Theirs: the process is started
again. The time is from the beginning of recovery until the output is current again. A third run has an active replica: its
longest silence is the gap.

Detection is told apart, and is in neither time. Ours is how long after the kill the node was taken for lost in the third run, whose
patience is that of `holdfast run`. Theirs is 0, which is assumed: something beside it notices at once that the process is dead.
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
from holdfast.documents.job import Contract, Feed, Job
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
    rival = Rival(work / "input", work, queries="one")
    feeder = Feeder(trace, rival.source, rows=ROWS, epochs=epochs)
    rival.start()
    rival.wait_ready()
    feeder.start()
    time.sleep(SMOOTH_S)
    rival.kill()
    time.sleep(backlog)
    begun, before = time.time(), len(rival.outputs())
    rival.start()
    first = current = 0.0
    while not current and time.time() < begun + 300:
        outputs = rival.outputs()
        if not first and len(outputs) > before:
            first = float(str(outputs[before]["at_s"]))
        left = rival.left_by(feeder.closed, ROWS)
        newest = max(left, default=-1)
        if first and newest >= 0 and left[newest] - feeder.closed[newest][0] < 3.0 and left[newest] > begun:
            current = left[newest]
        time.sleep(0.2)
    rival.kill()
    return {"restart_s": first - begun, "catch_up_s": current - first, "until_current_s": current - begun}


def run(
    trace: Path, app: Path, work: Path, *, contract: Contract, lost_after_s: float, replicas: dict[str, int]
) -> tuple[JobRun, float]:
    """Run the trace with the primary's node killed on the way; the moment of the kill beside."""
    job = Job(
        job="recovery",
        type="finite",
        application=str(app),
        feed=Feed(trace=str(trace)),
        log=str(work / "log"),
        out=str(work / "out"),
        contract=contract,
        replicas=replicas,
    )
    cluster = LocalCluster(work, nodes=2, lost_after_s=lost_after_s)
    try:
        cluster.start()
        victim = Victim(cluster)
        ran = run_job(job, layout_of(job), cluster, schedule=Schedule(), show=victim.show)
    finally:
        cluster.close()
    return ran, victim.at_s


class Victim:
    """Kills the node of the PE's primary once the job has run smoothly for a while."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.done, self.at_s = cluster, False, 0.0

    def show(self, story, nodes, timeline) -> None:  # type: ignore[no-untyped-def]  # as run_job calls it
        if self.done or timeline is None or time.time() < timeline.opened_s + SMOOTH_S:
            return
        primary = next(r for task in story["tasks"] if task["task"] == "all/0" for r in task["replicas"] if r["rank"] == 0)
        self.done, self.at_s = True, time.time()
        self.cluster.kill_node(primary["node"])


def checkpointed(trace: Path, app: Path, work: Path, *, backlog: int) -> dict[str, float]:
    contract = Contract(checkpoint_epochs=10)
    ran, _ = run(trace, app, work, contract=contract, lost_after_s=float(backlog), replicas={"market": 2, "bargains": 2})
    (recovery,) = [each for each in recoveries(ran.events) if each.task == "all/0"]
    outputs = [e for e in ran.events if e.kind == "output" and e.about["as"] == "first" and e.at_s > recovery.detected_s]
    current = next(e.at_s for e in outputs if e.about["latency_s"] < 3.0)
    return {
        "restart_s": recovery.started_s - recovery.detected_s,
        "catch_up_s": current - recovery.started_s,
        "until_current_s": current - recovery.detected_s,
    }


def replicated(trace: Path, app: Path, work: Path) -> tuple[float, float]:
    """How long after its kill a node was taken for lost, and the longest silence of a sink whose PE has an active replica."""
    replicas = {"market": 2, "all": 2, "bargains": 2}
    ran, killed_s = run(trace, app, work, contract=Contract(), lost_after_s=3.0, replicas=replicas)
    assert ran.timeline is not None
    gap = output_gap_s(ran.events, sink="bargains", after_s=ran.timeline.opened_s + SMOOTH_S - 5)
    assert gap is not None
    return min(event.at_s for event in ran.events if event.kind == "detected" and event.at_s > killed_s) - killed_s, gap


if __name__ == "__main__":
    main()
