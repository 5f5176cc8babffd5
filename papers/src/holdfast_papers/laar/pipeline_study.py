"""LAAR's Figure 3 with real processes: the load of two PEs doubles, with static replication and with activation by load.

A third run, with activation by load and the descriptor's shares of Low and High, kills a node in High: the promise must hold.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.documents import Contract, Descriptor, DescriptorNode, Feed, Job, Schedule, ScheduledFault, write_document
from holdfast.errors import HoldfastError
from holdfast.log import Timeline
from holdfast.planning.laar import Instance, Strategy, figure_1, plan_strategy, static_replication
from holdfast.trial import JobRun, LocalCluster, internal_completeness, layout_of, run_job, switches
from holdfast_papers.finding import Finding

LOW, HIGH = 4, 8
WAYS = ("static", "by load")
KILLED = "by load, a node killed in High"
VICTIM = "n1"
DEADLINE_S = 3.0
"""How long after its input an epoch of a PE counts as processed. The paper's queues hold 2 s of tuples."""
KEEPS_UP = 0.95
"""The share of the input's rate that the output must reach in the second half of High."""


@dataclass(frozen=True)
class Load:
    """The seconds of Low, of High, and of Low again."""

    low_s: int = 20
    high_s: int = 30
    after_s: int = 20

    def __post_init__(self) -> None:
        if min(self.low_s, self.high_s, self.after_s) < 5:
            raise HoldfastError(f"each part of the load takes at least 5 s, got {self.low_s}, {self.high_s}, {self.after_s}")

    @property
    def rates(self) -> list[int]:
        """Tuples in each second."""
        return [LOW] * self.low_s + [HIGH] * self.high_s + [LOW] * self.after_s

    @property
    def as_described(self) -> "Load":
        """The load with High for the descriptor's share of the time, a fifth."""
        return Load(self.low_s, max(5, (self.low_s + self.after_s) // 4), self.after_s)


@dataclass
class PipelineRun:
    """Measurements of one run: tuples in and out per second, CPU per node, and the decisions of the activation controller."""

    way: str
    tuples_in: list[int]
    tuples_out: list[int]
    latency_s: list[float]
    cpu: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    decisions: list[tuple[float, str]] = field(default_factory=list)
    switches: list[dict[str, Any]] = field(default_factory=list)
    completeness: float | None = None
    promised: float = 0.0

    def kept_up(self, load: Load) -> float:
        """Return the output as a share of the input in the second half of High, when replicas have been switched."""
        half = slice(load.low_s + load.high_s // 2, load.low_s + load.high_s)
        return sum(self.tuples_out[half]) / sum(self.tuples_in[half])

    def describe(self, load: Load) -> str:
        """Describe how the run coped with High."""
        return (
            f"output at {self.kept_up(load):.0%} of the input in the second half of High, "
            f"whose last epoch was {self.late_s(load):.1f} s late"
        )

    def late_s(self, load: Load) -> float:
        """Return the latency of the last epoch of High."""
        return self.latency_s[load.low_s + load.high_s - 1]


def write_load(path: Path, rates: Sequence[int]) -> None:
    """Write a trace with the given number of evenly spaced tuples in each second."""
    begins = datetime(2024, 1, 1, tzinfo=UTC)
    times = [
        begins + timedelta(seconds=second + (place + 0.5) / rate) for second, rate in enumerate(rates) for place in range(rate)
    ]
    count = len(times)
    columns = {"seq": pa.array(range(1, count + 1), pa.int64()), "time": pa.array(times, pa.timestamp("us", "UTC"))}
    pq.write_table(pa.table({**columns, "value": pa.array([float(n) for n in range(count)])}), path)


def pipeline_descriptor(sla: float = 0.6) -> Descriptor:
    """Return the descriptor of the paper's Figure 1, on nodes n1 and n2."""
    paper = figure_1(sla=sla)
    nodes = dict(zip(paper.nodes, ("n1", "n2"), strict=True))
    assert paper.placement is not None
    return Descriptor(
        **{
            **dict(paper),
            "application": "pipeline",
            "nodes": {name: DescriptorNode(cores=1) for name in nodes.values()},
            "placement": {pe: tuple(nodes[node] for node in placed) for pe, placed in paper.placement.items()},
        }
    )


def strategies(sla: float = 0.6) -> dict[str, Strategy]:
    """Return two strategies: all replicas always active (SR), and the planner's for the SLA."""
    descriptor = pipeline_descriptor(sla)
    instance = Instance.of(descriptor)
    static = Strategy.of(instance, static_replication(instance), solver="SR")
    return {"static": static, "by load": plan_strategy(descriptor).strategy}


def kill_in_high(load: Load) -> Schedule:
    """Return the schedule of a node's crash in the middle of High. It does not come back."""
    at_s = load.low_s + load.high_s / 2
    return Schedule(faults=(ScheduledFault(at_s=at_s, kind="crash", what="node", target=(VICTIM,)),))


def run_way(
    way: str, application: Path, work: Path, *, load: Load, strategy: Strategy, faults: Schedule | None = None
) -> PipelineRun:
    """Run the load through the pipeline on two one-core nodes, and inject faults."""
    work.mkdir(parents=True)
    trace, document = work / "load.parquet", work / "strategy.json"
    write_load(trace, load.rates)
    write_document(document, strategy)
    job = Job(
        job="pipeline",
        type="finite",
        application=str(application),
        feed=Feed(trace=str(trace)),
        log=str(work / "log"),
        out=str(work / "out"),
        strategy=str(document),
        replicas={"source": 2},  # the promise is about PEs: the model has no failures of sources
        contract=Contract(patience_s=2.0, deadline_s=DEADLINE_S),
    )
    cpu: dict[str, list[tuple[float, float]]] = {}

    def show(history: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> None:
        if timeline is not None:
            for node in nodes:
                status = node["host_status"] or {}
                cpu.setdefault(node["name"], []).append((status.get("beat_s", 0.0) - timeline.opened_s, status.get("cpu_s", 0.0)))

    with LocalCluster(work / "cluster", nodes=2) as cluster:
        cluster.start()
        job_run = run_job(job, layout_of(job), cluster, schedule=faults, show=show)
    if job_run.state != "completed" or job_run.timeline is None:
        raise HoldfastError(f"the pipeline with replicas {way} ended as {job_run.state}: {job_run.reason}")
    return measure(way, job_run, load, cpu, promised=strategy.internal_completeness)


def measure(way: str, job_run: JobRun, load: Load, cpu: dict[str, list[tuple[float, float]]], *, promised: float) -> PipelineRun:
    """Measure a run from its history."""
    assert job_run.timeline is not None
    deadlines = {task.pe: DEADLINE_S for task in job_run.tasks}
    completeness = internal_completeness(job_run.events, job_run.timeline, tasks=job_run.tasks, deadlines=deadlines)
    opened_s = job_run.timeline.opened_s
    outputs = [e for e in job_run.events if e.kind == "output" and e.about["as"] == "first"]
    seconds = max([len(load.rates), *(int(e.at_s - opened_s) + 1 for e in outputs)])
    out = [0] * seconds
    for event in outputs:
        out[int(event.at_s - opened_s)] += event.about["rows"]
    decisions = [
        (e.at_s - opened_s, e.about["text"])
        for e in job_run.events
        if e.kind == "orchestrator" and "input configuration is now" in e.about["text"]
    ]
    latencies = {e.about["epoch"] - job_run.timeline.first: e.about["latency_s"] for e in outputs}
    tuples_in = [*load.rates, *[0] * (seconds - len(load.rates))]
    return PipelineRun(
        way,
        tuples_in,
        out,
        [latencies[n] for n in sorted(latencies)],
        cpu,
        decisions,
        [asdict(switch) for switch in switches(job_run.events)],
        completeness.share if completeness is not None else None,
        promised,
    )


def findings(runs: Sequence[PipelineRun], load: Load) -> list[Finding]:
    """Check both halves of Figure 3, that no run lost a tuple, and the promise of the run whose node was killed."""
    static, by_load, killed = (next(run for run in runs if run.way == way) for way in (*WAYS, KILLED))
    return [
        Finding(
            "static replication falls behind in High",
            "both nodes saturate; the output does not keep up with the input",
            static.describe(load),
            static.kept_up(load) < KEEPS_UP,
        ),
        Finding(
            "activation by load keeps up in High",
            "the output follows the input",
            by_load.describe(load),
            by_load.kept_up(load) >= KEEPS_UP,
        ),
        Finding(
            "nothing is lost either way",
            "(the paper drops what does not fit its queues)",
            ", ".join(f"{run.way}: {sum(run.tuples_out)} of {sum(run.tuples_in)} tuples" for run in (static, by_load)),
            all(sum(run.tuples_out) == sum(run.tuples_in) for run in (static, by_load)),
        ),
        Finding(
            "the IC promise holds when a node is killed in High",
            "(Figure 11, here one real run) IC much higher than promised",
            f"measured {killed.completeness or 0:.3f} with a deadline of {DEADLINE_S:g} s per PE, promised {killed.promised:.3f}",
            killed.completeness is not None and killed.completeness >= killed.promised,
        ),
    ]
