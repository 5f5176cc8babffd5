"""Compares the cluster simulator with real runs: the same applications, strategies and faults, once for real and once simulated.

    python benchmarks/simulator_fidelity.py [--only pipeline] [--json]

The applications are LAAR's pipeline of two PEs whose load doubles, with all replicas active and with activation by load; and
Bargain Discovery as three PEs, as `holdfast profile` describes it, with a node killed. The values that a descriptor does not
contain are measured first, in a short calibration run of each application with one replica per PE at a steady rate (for Bargain
Discovery, one PE and one replica of the feed are killed): the time of a job apart from its tuples, the CPU time of an idle and
of a working node, the time until a PE is back without an ordinary job, and the CPU time of a restart. From the compared runs
only the placement is taken. A warm-up run has a replica of everything on every node, so that the JVMs compile the code;
compilation on a node that takes over is not modelled. "ours" is the simulation, "theirs" the real run.

These results can differ and are compared: when tuples leave, the pace at the highest load, CPU time, and recovery latency.
Dropped tuples and internal completeness cannot differ on our side: the epoch log keeps what a PE has not read, so the
simulator's queues have no bound here and it runs until everything is processed. In the real run they are counted from the
history; if they agree, the real run lost nothing. `benchmarks/simulator.py` compares the simulator's drops with another
simulator.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from holdfast.documents.descriptor import Descriptor, DescriptorNode
from holdfast.documents.document import read_document, write_document
from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.history import HistoryEvent, read_history
from holdfast.documents.job import Contract, Feed, Job
from holdfast.job_layout import layout_of
from holdfast.planning.laar import Instance, Strategy, static_replication
from holdfast.trace import write_market
from holdfast.trial.checkers import recoveries
from holdfast.trial.completeness import count_unprocessed_rows, internal_completeness
from holdfast.trial.job_run import JobRun, run_job
from holdfast.trial.local_cluster import LocalCluster
from holdfast_papers.laar.pipeline_study import Load, pipeline_descriptor, strategies, write_load
from holdfast_papers.simulate import (
    Control,
    Deployment,
    FailureHandling,
    RateTrace,
    SimulationOutcome,
    SimulationSettings,
    simulate,
)

BOUNDS = {"curve": 0.1, "pace": 0.15, "cpu": 0.25, "completeness": 0.02, "dropped": 0.0, "latency_s": 3.0}
"""Largest differences: the mean distance between the curves of emitted tuples, as a share of all tuples (single moments vary,
because a late PE takes many epochs as one job); pace at the highest load and CPU time, as shares of the real values; completeness
and dropped tuples; and recovery latency in seconds."""
VERDICTS = {True: "holds", False: "does not hold", None: "unknown: other processes kept the machine busy"}
REHEARSAL_S = 60.0
"""How long the nodes may rehearse before the measurement."""
OTHERS_CORES = 0.2
"""If other processes use more cores than this during a real run, the verdict is unknown."""
WARM_S, CALM_S, LOAD, BARGAIN_S, KILL_S, RATE = 45, 40, Load(8, 16, 8), 36, 15.0, 500
CALM_KILL_S, SETTLED_S = 12.0, 24.0
"""When a calibration run kills something, and when it has recovered; jobs and working nodes are measured from then on."""
NODES, EPOCH_S, CHECKPOINT_EPOCHS, LOST_AFTER_S = 3, 1.0, 10, 3.0
EXAMPLES = Path(__file__).parents[1] / "examples"
FUSED = {"trade_quote": "split", "quote_filter": "split", "trade_filter": "trades", "aggregator": "trades", "vwap": "trades"}


@dataclass(frozen=True)
class Cost:
    """Results of the calibration: seconds of a job apart from its tuples, by PE; cores of an idle node; cores per simulated
    second of work; seconds until a PE is back; CPU seconds of a restart of any replica."""

    job_s: Mapping[str, float]
    idle_cores: float
    busy_cores: float
    restart_s: float
    restart_cpu_s: float


@dataclass
class Watch:
    """CPU seconds that the nodes report while a job runs: (wall clock, total). A restarted PE host counts from 0 again."""

    readings: list[tuple[float, float]] = field(default_factory=list)
    _last: dict[str, float] = field(default_factory=dict)
    _total: float = 0.0

    def show(self, story: dict[str, Any], nodes: list[dict[str, Any]], timeline: object) -> None:
        for node in nodes:
            used = (node["host_status"] or {}).get("cpu_s")
            if used is not None:
                before = self._last.get(node["name"], used)
                self._total += used - before if used >= before else used
                self._last[node["name"]] = used
        self.readings.append((time.time(), self._total))

    def used(self, since_s: float, until_s: float) -> float:
        at, total = np.array(self.readings).T
        return float(np.interp(until_s, at, total) - np.interp(since_s, at, total))


def rehearsals(events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """Return the rehearsals of idle nodes, which are part of neither a job nor a simulation."""
    return [event for event in events if event.kind == "rehearsed"]


class Stage:
    """The cluster that everything runs on, one job after the other."""

    def __init__(self, work: Path) -> None:
        self.work, self.cluster = work, LocalCluster(work, nodes=NODES, lost_after_s=LOST_AFTER_S)
        self.idle_cores = 0.0

    def begin(self) -> None:
        self.cluster.start()
        ends_s = time.monotonic() + REHEARSAL_S
        while len(rehearsals(read_history(self.work))) < NODES and time.monotonic() < ends_s:
            time.sleep(0.25)
        watch, begun = Watch(), time.time()
        while time.time() < begun + 4:  # the length of the measurement
            watch.show({}, self.cluster.client.nodes(), None)
            time.sleep(0.25)
        self.idle_cores = watch.used(begun + 0.5, time.time() - 0.5) / (time.time() - begun - 1) / len(self.cluster.names)

    def run(
        self,
        name: str,
        application: Path,
        trace: Path,
        *,
        strategy: Path | None = None,
        faults: Schedule | None = None,
        replicas: dict[str, int] | None = None,
    ) -> "Real":
        """Run a job to its end."""
        job = Job(
            job=name,
            type="finite",
            application=str(application),
            feed=Feed(trace=str(trace)),
            log=str(self.work / name / "log"),
            out=str(self.work / name / "out"),
            strategy=None if strategy is None else str(strategy),
            contract=Contract(checkpoint_epochs=CHECKPOINT_EPOCHS, patience_s=2.0),
            replicas=replicas or {},
        )
        print(f"{name}: load average {os.getloadavg()[0]:.1f} ...", file=sys.stderr)
        watch, since, others = Watch(), time.time(), Others()

        def show(story: dict[str, Any], nodes: list[dict[str, Any]], timeline: object) -> None:
            watch.show(story, nodes, timeline)
            others.look()

        ran = run_job(job, layout_of(job), self.cluster, schedule=faults or Schedule(), show=show)
        others_cores = others.cores()
        if ran.state != "completed" or ran.timeline is None:
            raise SystemExit(f"{name} ended as {ran.state}: {ran.reason}")
        events = [event for event in ran.events if event.at_s >= since]
        return Real(ran, events, watch, others_cores)


class Others:
    """CPU seconds that this machine spends on processes other than this one and its descendants, including killed ones."""

    def __init__(self) -> None:
        self._own: dict[tuple[int, float], float] = {}
        self._since = time.time()
        self.look()
        self._before = self._spent()

    def look(self) -> None:
        """Record the CPU time of this process and its descendants, so that it is known after they are killed."""
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                used = process.cpu_times()
                self._own[process.pid, process.create_time()] = used.user + used.system

    def cores(self) -> float:
        """Return the mean number of cores that other processes have used since the beginning."""
        self.look()
        return max(0.0, self._spent() - self._before) / (time.time() - self._since)

    def _spent(self) -> float:
        whole = psutil.cpu_times()
        return float(whole.user + whole.nice + whole.system + whole.irq + whole.softirq + whole.steal) - sum(self._own.values())


@dataclass(frozen=True)
class Real:
    """A real run, its history and its CPU readings."""

    ran: JobRun
    events: Sequence[HistoryEvent]
    watch: Watch
    others_cores: float

    @property
    def opened_s(self) -> float:
        assert self.ran.timeline is not None
        return self.ran.timeline.opened_s

    def completeness(self) -> float:
        """Return the share of due tuples that were processed in time."""
        assert self.ran.timeline is not None
        measured = internal_completeness(self.events, self.ran.timeline, tasks=self.ran.tasks, deadlines={})
        return measured.share if measured is not None else 0.0

    def output(self, seconds: int) -> np.ndarray:
        """Return the tuples that left the sink in each second."""
        counts = np.zeros(seconds)
        for event in self.events:
            if event.kind == "output" and event.about["as"] == "first":
                counts[min(seconds - 1, max(0, int(event.at_s - self.opened_s)))] += event.about["rows"]
        return counts

    def leaving(self) -> list[tuple[float, float]]:
        """Return when tuples left the sink, in seconds from the start, and how many."""
        outputs = [e for e in self.events if e.kind == "output" and e.about["as"] == "first"]
        return sorted((event.at_s - self.opened_s, float(event.about["rows"])) for event in outputs)

    def commits(self) -> list[HistoryEvent]:
        """Return the commits of PEs and sources, without absent epochs."""
        return [event for event in self.events if event.kind == "commit" and event.about["quality"] != "absent"]

    def rows(self, stream: str) -> list[int]:
        """Return the rows of a stream by epoch."""
        by_epoch = {e.about["epoch"]: e.about["rows"] for e in self.commits() if e.about["stream"] == stream}
        return [by_epoch[epoch] for epoch in sorted(by_epoch)]

    def jobs(self, stream: str, tails: Sequence[str], *, since_s: float) -> list[tuple[float, int]]:
        """Return duration and input rows of each job of a stream that ended after `since_s`.

        An idle PE takes all epochs with complete inputs as one job, and commits them one after the other.
        """
        at = {
            (e.about["stream"], e.about["epoch"]): (e.at_s, e.about["rows"])
            for e in self.commits()
            if e.about["as"] == "first" and e.about["stream"] in (stream, *tails)
        }
        epochs = sorted(epoch for name, epoch in at if name == stream and all((tail, epoch) in at for tail in tails))
        there = [max(at[tail, epoch][0] for tail in tails) for epoch in epochs]
        rows = [sum(at[tail, epoch][1] for tail in tails) for epoch in epochs]
        spans: list[tuple[float, int]] = []
        first, ended_s = 0, 0.0
        while first < len(epochs):
            begun_s = max(ended_s, there[first])
            last = first
            while last + 1 < len(epochs) and there[last + 1] <= begun_s:
                last += 1
            ended_s = at[stream, epochs[last]][0]
            if ended_s >= since_s:
                spans.append((ended_s - begun_s, sum(rows[first : last + 1])))
            first = last + 1
        return spans

    def placed(self) -> dict[str, str]:
        """Return the node on which each replica (such as vwap/0.1) first started."""
        node_of: dict[str, str] = {}
        for event in self.events:
            if event.kind == "start":
                node_of.setdefault(event.about["replica"].split(":", 1)[1], event.about["node"])
        return node_of

    def restarts(self) -> int:
        """Return how many replicas were restarted."""
        return sum(event.kind == "start" for event in self.events) - len(self.placed())


def calibrated(calm: Real, descriptor: Descriptor, stage: Stage, streams: Mapping[str, str], *, seconds: float) -> Cost:
    """Return the costs from a calibration run. `streams` maps each stream to its PE.

    CPU time is divided by the work that the simulator would count for the same jobs. So time that a job waits, which the
    simulator does not count, does not count here either.
    """
    stream_of = {pe: stream for stream, pe in reversed(list(streams.items()))}
    killed, settled, end = (calm.opened_s + at_s for at_s in (CALM_KILL_S, SETTLED_S, seconds))
    job_s, worked_s = dict[str, float](), 0.0
    for pe, stream in stream_of.items():
        inputs = descriptor.pes[pe].inputs
        tails = [s for s, maker in streams.items() if maker in inputs] + [s for s in inputs if s in descriptor.sources]
        cost = statistics.fmean(edge.cost for edge in inputs.values())
        jobs = calm.jobs(stream, tails, since_s=settled)
        job_s[pe] = max(0.0, statistics.median(took - cost * rows for took, rows in jobs))
        worked_s += sum(job_s[pe] + cost * rows for _, rows in jobs)
    steady_cores = calm.watch.used(settled, end) / (end - settled)
    busy = max(0.0, steady_cores - stage.idle_cores * len(stage.cluster.names)) * (end - settled)
    restarted = calm.watch.used(killed, settled) - steady_cores * (settled - killed)
    restart_cpu_s = max(0.0, restarted) / calm.restarts() if calm.restarts() else 0.0
    late = [each.latency_s - job_s[each.task.split("/")[0]] for each in recoveries(calm.events) if each.task.split("/")[0] in job_s]
    restart_s = max(0.0, statistics.fmean(late)) if late else 1.0  # the first job builds its plan, which is part of the restart
    return Cost(job_s, stage.idle_cores, busy / worked_s, restart_s, restart_cpu_s)


def simulated(
    deployment: Deployment, rates: Sequence[float], cost: Cost, *, drain_s: float, faults: Schedule | None = None
) -> SimulationOutcome:
    """Simulate the same run. A PE's CPU time during a restart is part of the restart's duration."""
    restart_cost_s = cost.restart_cpu_s / cost.busy_cores
    settings = SimulationSettings(
        queue_s=float("inf"),
        interval_s=0.1,
        drain_s=drain_s,
        epoch_s=EPOCH_S,
        jobs=cost.job_s,
        control=Control(every_s=EPOCH_S, switch_s=0.5, resync_s=0.5),
        failure_handling=FailureHandling(
            scheme="checkpoint",
            checkpoint_s=CHECKPOINT_EPOCHS * EPOCH_S,
            detect_s=LOST_AFTER_S,
            restart_s=max(0.0, cost.restart_s - restart_cost_s),
            restart_cost_s=restart_cost_s,
        ),
    )
    trace = RateTrace(tuple(deployment.descriptor.sources), np.array(rates, dtype=float)[:, None])
    return simulate(deployment, trace, schedule=faults or Schedule(), settings=settings)


def pace_of(leaving: Sequence[tuple[float, float]], due: Sequence[float], peak: slice) -> float:
    """Return the rate at which the tuples of the epochs `peak` left, as a share of the rate at which they were due.

    `due` are the tuples of each epoch. The time runs from the job that emitted the last tuple before these epochs to the job that
    emitted their last. A mean over a fixed time would vary, because a late PE emits many epochs at once.
    """
    first, last = sum(due[: peak.start]), sum(due[: peak.stop])
    sums = np.cumsum([tuples for _, tuples in leaving])
    at = [min(len(sums) - 1, int(np.searchsorted(sums, number - 0.5))) for number in (first, last)]
    begins, ends = (leaving[n][0] for n in at)
    return float((sums[at[1]] - sums[at[0]]) / max(0.1, ends - begins)) / (sum(due[peak]) / EPOCH_S / len(due[peak]))


def compared(
    name: str,
    real: Real,
    outcome: SimulationOutcome,
    cost: Cost,
    *,
    seconds: int,
    fed: Sequence[float],
    due: Sequence[float],
    peak: slice,
    dead_s: float = 0.0,
    moved: int = 0,
) -> dict[str, Any]:
    """Return the results of both sides, their differences and a verdict, which is unknown if other processes disturbed the run.

    `dead_s` is how long a node was dead and used no CPU at all. `moved` counts the replicas of feeds and sinks that restarted
    elsewhere; those do not fail in a simulation.
    """
    fine, per_second = outcome.output_tuples, round(1 / outcome.interval_s)
    long = len(fine) // per_second
    theirs, ours = real.output(long), fine[: long * per_second].reshape(long, per_second).sum(axis=1)
    moments = [((n + 1) * outcome.interval_s, float(tuples)) for n, tuples in enumerate(fine) if tuples > 0]
    until_s = real.opened_s + seconds
    aside = sum(event.about["cpu_s"] for event in rehearsals(real.events) if real.opened_s < event.at_s < until_s)
    cpu = real.watch.used(real.opened_s, until_s) - aside
    busy = float(outcome.ledger.cpu[: seconds * per_second].sum())
    real_recoveries, simulated_recoveries = recoveries(real.events), outcome.recoveries()
    expected = [rows * float(ours.sum()) / sum(fed) for rows in fed]  # the simulator's PEs have a constant selectivity
    sides = {
        "ours": {
            "tuples": float(ours.sum()),
            "peak_pace": pace_of(moments, expected, peak),
            "cpu_s": cost.idle_cores * (NODES * seconds - dead_s) + cost.busy_cores * busy + cost.restart_cpu_s * moved,
            "completeness": outcome.internal_completeness,
            "dropped": outcome.dropped,
            "latency_s": max((recovery.latency_s for recovery in simulated_recoveries), default=0.0),
        },
        "theirs": {
            "tuples": float(theirs.sum()),
            "peak_pace": pace_of(real.leaving(), due, peak),
            "cpu_s": cpu,
            "completeness": real.completeness(),
            "dropped": count_unprocessed_rows(real.events, tasks=real.ran.tasks),
            "latency_s": max((recovery.latency_s for recovery in real_recoveries), default=0.0),
        },
    }
    mine, other = sides["ours"], sides["theirs"]
    under_way = 1 + max(np.flatnonzero(ours > 0.5).max(), np.flatnonzero(theirs).max())
    apart = {
        "curve": float(np.abs(ours.cumsum() - theirs.cumsum())[:under_way].mean() / theirs.sum()),
        "pace": abs(mine["peak_pace"] / other["peak_pace"] - 1),
        "cpu": abs(mine["cpu_s"] / other["cpu_s"] - 1),
        "completeness": abs(mine["completeness"] - other["completeness"]),
        "dropped": abs(mine["dropped"] - other["dropped"]),
        "latency_s": abs(mine["latency_s"] - other["latency_s"]),
    }
    wide = {key: value for key, value in apart.items() if value > BOUNDS[key]}
    return {
        "run": name,
        **sides,
        "apart": apart,
        "too_wide": wide,
        "others_cores": real.others_cores,
        "holds": None if real.others_cores > OTHERS_CORES else not wide,
        "curves": {"ours": ours.cumsum().round(2).tolist(), "theirs": theirs.cumsum().tolist()},
        "load": os.getloadavg()[0],
    }


def pipeline(stage: Stage, work: Path) -> list[dict[str, Any]]:
    descriptor = pipeline_descriptor()
    instance = Instance.of(descriptor)
    lone = static_replication(instance)
    lone[:, 0, 1] = lone[:, 1, 0] = False  # pe1 on its first node, pe2 on the other
    plans = {"calm": Strategy.of(instance, lone, solver="NR"), **strategies()}
    for way, plan in plans.items():
        write_document(work / f"{way}.json".replace(" ", "-"), plan)
    write_load(work / "calm.parquet", [4] * CALM_S)
    write_load(work / "load.parquet", LOAD.rates)
    streams = {"pe1": "pe1", "pe2": "pe2"}
    write_load(work / "warm.parquet", [4] * WARM_S)
    stage.run("pipeline-warm-up", EXAMPLES / "pipeline.py", work / "warm.parquet", strategy=work / "static.json")
    calm = stage.run("pipeline-calm", EXAMPLES / "pipeline.py", work / "calm.parquet", strategy=work / "calm.json")
    cost = calibrated(calm, descriptor, stage, streams, seconds=CALM_S)
    print(f"pipeline: {cost}", file=sys.stderr)
    comparisons = []
    high = slice(LOAD.low_s, LOAD.low_s + LOAD.high_s)
    for way in ("static", "by load"):
        file = work / f"{way}.json".replace(" ", "-")
        real = stage.run(f"pipeline-{way}".replace(" ", "-"), EXAMPLES / "pipeline.py", work / "load.parquet", strategy=file)
        drain_s = 60.0
        outcome = simulated(Deployment.of(descriptor, plans[way]), LOAD.rates, cost, drain_s=drain_s)
        comparisons.append(
            compared(f"pipeline, {way}", real, outcome, cost, seconds=len(LOAD.rates), fed=LOAD.rates, due=LOAD.rates, peak=high)
        )
    return comparisons


def bargains(stage: Stage, work: Path) -> list[dict[str, Any]]:
    application = work / "bargains.py"
    text = (EXAMPLES / "bargain_discovery.py").read_text()
    application.write_text(
        re.sub(
            r"@app\.operator\((.*)\)\ndef (\w+)\(",
            lambda m: f"@app.operator({m[1]}, pe={FUSED.get(m[2], m[2])!r})\ndef {m[2]}(",
            text,
        )
    )
    write_market(work / "warm-market.parquet", events=RATE * WARM_S, seed=3, rate=float(RATE), peak=float(RATE) * 1.5)
    write_market(work / "calm-market.parquet", events=RATE * CALM_S, seed=2, rate=float(RATE), peak=float(RATE) * 1.5)
    write_market(work / "market.parquet", events=RATE * BARGAIN_S, seed=1, rate=float(RATE), peak=float(RATE) * 1.5)
    command = [sys.executable, "-m", "holdfast.cli.main", "profile", str(application), "--trace", str(work / "market.parquet")]
    subprocess.run([*command, "--out", str(work / "bargains.yaml")], check=True, stdout=subprocess.DEVNULL)
    profiled = read_document(work / "bargains.yaml", Descriptor)
    descriptor = profiled.model_copy(update={"nodes": {name: DescriptorNode(cores=1) for name in stage.cluster.names}})
    streams = {"trade_quote": "split", "quote_filter": "split", "vwap": "trades", "bargain_index": "bargain_index"}
    twice = {"market": 2, "bargains": 2}  # the feed and the sink continue, as in the simulator
    everywhere = dict.fromkeys(("market", "bargains", "split", "trades", "bargain_index"), NODES)
    stage.run("bargains-warm-up", application, work / "warm-market.parquet", replicas=everywhere)
    two = ScheduledFault(at_s=CALM_KILL_S, kind="crash", what="pe", target=("trades/0", "market/0.1"))
    calm = stage.run("bargains-calm", application, work / "calm-market.parquet", faults=Schedule(faults=(two,)), replicas=twice)
    cost = calibrated(calm, descriptor, stage, streams, seconds=CALM_S)
    print(f"bargains: {cost}", file=sys.stderr)
    victim = "n2"
    node = Schedule(faults=(ScheduledFault(at_s=KILL_S, kind="crash", what="node", target=(victim,)),))
    real = stage.run("bargains-killed", application, work / "market.parquet", faults=node, replicas=twice)
    placed, nodes = real.placed(), list(descriptor.nodes)
    deployment = Deployment(
        descriptor=descriptor,
        node_of=np.array([[nodes.index(placed[f"{pe}/0.0"])] for pe in descriptor.topological_order]),
        configurations=("steady",),
        active=np.ones((1, len(descriptor.pes), 1), dtype=bool),
        rates=np.array([[float(RATE)]]),
    )
    outcome = simulated(deployment, real.rows("market"), cost, drain_s=30.0, faults=node)
    steady = slice(3, int(KILL_S) - 2)  # emitted on both sides before the node dies
    due = [float(rows) for rows in real.rows("bargain_index")]
    return [
        compared(
            "bargain discovery, a node killed",
            real,
            outcome,
            cost,
            seconds=BARGAIN_S,
            fed=real.rows("market"),
            due=due,
            peak=steady,
            dead_s=BARGAIN_S - KILL_S,
            moved=sum(at == victim for replica, at in placed.items() if replica.split("/")[0] not in descriptor.pes),
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["pipeline", "bargains"])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster is closed
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-benchmark-") as name:
        stage = Stage(Path(name) / "cluster")
        try:
            stage.begin()
            for part in (pipeline, bargains):
                if options.only in (None, part.__name__):
                    rows += part(stage, Path(name))
        finally:
            stage.cluster.close()
    document = {
        "claim": "the simulator's output, CPU time and recovery are those of real runs within the bounds, and these lose nothing",
        "ours": {row["run"]: row["ours"] for row in rows},
        "theirs": {row["run"]: row["theirs"] for row in rows},
        "ratio": {row["run"]: row["apart"] for row in rows},
        "bound": BOUNDS,
        "holds": verdict([row["holds"] for row in rows]),
        "runs": rows,
    }
    if options.json:
        print(json.dumps(document, indent=2))
        return
    for row in rows:
        print(f"{row['run']} (others used {row['others_cores']:.2f} cores): {VERDICTS[row['holds']]}")
        for side in ("ours", "theirs"):
            print(f"  {side:6} " + ", ".join(f"{key} {value:.2f}" for key, value in row[side].items()))
        print("  apart  " + ", ".join(f"{key} {value:.3f} (bound {BOUNDS[key]:g})" for key, value in row["apart"].items()))
    print(VERDICTS[document["holds"]])


def verdict(held: Sequence[bool | None]) -> bool | None:
    """Return False if an undisturbed run differs too much, or else None if a run was disturbed."""
    return False if False in held else None if None in held else True


if __name__ == "__main__":
    main()
