"""ISORC'16, sections V and VI, as real runs: the datacenter monitor stalls, without protection, with upstream backup, or with
prediction."""

from __future__ import annotations

import contextlib
import re
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from holdfast.documents import HistoryEvent, Job, Schedule, Stalls, check_document
from holdfast.errors import HoldfastError
from holdfast.log import Timeline
from holdfast.prediction import compile_predictors
from holdfast.trace import write_servers
from holdfast.trial import JobRun, LocalCluster, Show, all_corrected, layout_of, run_job

Size = Literal["small", "medium", "large"]
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "baseline": {"protection": "none"},
    "upstream": {"protection": "upstream", "reroute_after_s": 30.0},
    "upstream at the deadline": {"protection": "upstream"},
    "prediction": {"protection": "prediction"},
}
"""The settings to compare. 30 s is the paper's timeout, Storm's default. The third has the same deadline as prediction."""
FUSED: Mapping[str, str] = {
    "smooth_cpu": "cpu",
    "rack_cpu": "cpu",
    "smooth_memory": "memory",
    "rack_memory": "memory",
    "smooth_network": "network",
    "rack_network": "network",
    "rack_status": "status",
    "rack_heat": "status",
}
"""The PE of each operator in the small system: 5 PEs for 9 operators, three levels deep."""
SHARES: Mapping[str, float] = {"small": 0.1, "large": 0.5}
SERVERS: Mapping[str, int] = {"small": 50, "medium": 200, "large": 800}
WARM_S, WARM_EPOCHS = 15.0, 60
"""Seconds at the start of a run that do not count, and epochs of a warm-up job before all runs, during which the JVM compiles."""
EVERY_S, FOR_S = 30.0, 8.0


@dataclass(frozen=True)
class Cell:
    """One row of Table 4: the number of PEs, the share that stalls, and the amount of input."""

    pes: int
    fault: Size
    data: Size

    @property
    def name(self) -> str:
        return f"{self.pes} PEs, {self.fault} faults, {self.data} input"

    @property
    def short(self) -> str:
        """The name in lists and for --cells."""
        return f"{self.pes}/{self.fault}/{self.data}"


@dataclass(frozen=True)
class Usage:
    """Resources that the PE hosts and agents of a cluster have used so far, in total."""

    cpu_s: float = 0.0
    memory_bytes: int = 0
    written_bytes: int = 0
    agents_cpu_s: float = 0.0
    read_bytes: int = 0

    def since(self, before: Usage) -> Usage:
        """Return the resources used since then; the memory is the current one."""
        return Usage(
            self.cpu_s - before.cpu_s,
            self.memory_bytes,
            self.written_bytes - before.written_bytes,
            self.agents_cpu_s - before.agents_cpu_s,
            self.read_bytes - before.read_bytes,
        )


@dataclass(frozen=True)
class LateRun:
    """The run of one setting in one cell.

    `latencies_s` has an entry per epoch, from its close to its first output, starting with the first stall. `rows_s` has the rows
    that left in each second. `by_column` is the accuracy of predictions by 'stream.column'. `seconds` and `seed` are the requested
    ones, and `cluster` names the cluster; they are None in records of earlier versions.
    """

    cell: Cell
    setting: str
    epoch_s: float
    state: str
    latencies_s: tuple[float, ...]
    times_s: tuple[float, ...]
    rows_s: tuple[float, ...]
    stalls: tuple[tuple[float, tuple[str, ...]], ...]
    qualities: Mapping[str, int]
    corrected: bool | None
    accuracy: float | None
    usage: Usage = field(default_factory=Usage)
    load: float = 0.0
    by_column: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    seed: int | None = None
    cluster: str | None = None

    @property
    def average_s(self) -> float:
        return statistics.fmean(self.latencies_s)

    @property
    def tuple_average_s(self) -> float:
        """The average from a tuple's arrival, as in the paper: tuples arrive on average half an epoch before its close."""
        return self.average_s + self.epoch_s / 2

    @property
    def worst_s(self) -> float:
        return max(self.latencies_s)

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> LateRun:
        """Return the run that `document` wrote."""
        data = dict(document)
        data |= {"cell": Cell(**data["cell"]), "usage": Usage(**data["usage"])}
        data |= {name: tuple(data[name]) for name in ("latencies_s", "times_s", "rows_s")}
        data["stalls"] = tuple((at, tuple(who)) for at, who in data["stalls"])
        return cls(**data)


def fused_application(example: Path, pes: int, path: Path) -> Path:
    """Write the datacenter monitor with this number of PEs to `path`: the example itself (9), or with fused operators (5)."""
    text = example.read_text()
    if pes == 5:
        text, count = re.subn(r"@app\.operator\((.*)\)\ndef (\w+)\(", _with_pe, text)
        if count < len(FUSED):
            raise HoldfastError(f"'{example}' is not the datacenter monitor that this study knows; it has {count} operators")
    elif pes != 9:
        raise HoldfastError(f"the study runs 5 or 9 PEs, got {pes}")
    path.write_text(text)
    return path


def _with_pe(match: re.Match[str]) -> str:
    pe = FUSED.get(match[2])
    return f"@app.operator({match[1]}{f', pe={pe!r}' if pe else ''})\ndef {match[2]}("


def run_cell(
    cell: Cell,
    settings: Sequence[str],
    *,
    example: Path,
    work: Path,
    epoch_s: float = 1.0,
    seconds: float = 150.0,
    seed: int = 1,
    done: Callable[[LateRun], None] = lambda run: None,
    progress: Callable[[float], None] = lambda passed_s: None,
) -> list[LateRun]:
    """Run settings of a cell, one after the other, on one warm cluster. The seed determines the trace and the stalls.

    `progress` is called several times a second with the part of `cell_s` that has passed.
    """
    work.mkdir(parents=True, exist_ok=True)
    application = fused_application(example, cell.pes, work / "monitor.py")
    servers = SERVERS[cell.data]
    write_servers(work / "servers.parquet", events=int(servers * seconds / epoch_s), seed=seed, servers=servers)
    write_servers(work / "warm.parquet", events=servers * WARM_EPOCHS, seed=seed, servers=servers)
    stalls = Stalls(share=SHARES[cell.fault], every_s=EVERY_S, for_s=FOR_S, from_s=WARM_S, to_s=seconds - FOR_S - 2)
    runs: list[LateRun] = []
    began = datetime.now(UTC).isoformat(timespec="seconds")
    compile_predictors()
    with LocalCluster(work / "cluster", nodes=2) as cluster:
        cluster.start()
        _run(
            cluster,
            "warm-up",
            application,
            work / "warm.parquet",
            SETTINGS["baseline"],
            epoch_s=1.0,
            schedule=Schedule(),
            show=_progress_callback(progress, 0.0, WARM_EPOCHS),
        )
        for number, setting in enumerate(settings):
            before = _usage(cluster)
            job_run = _run(
                cluster,
                setting.replace(" ", "-"),
                application,
                work / "servers.parquet",
                contract_for(setting, epoch_s=epoch_s),
                epoch_s=epoch_s,
                schedule=Schedule(seed=seed, stalls=stalls),
                show=_progress_callback(progress, WARM_EPOCHS + number * seconds, seconds),
            )
            run = _measure(cell, setting, job_run, epoch_s=epoch_s, cluster=cluster, before=before)
            run = replace(run, seconds=seconds, seed=seed, cluster=began)
            runs.append(run)
            done(run)
    return runs


def cell_s(settings: Sequence[str], *, seconds: float) -> float:
    """Return how long the runs of a cell take, with the warm-up but without starting and ending them."""
    return WARM_EPOCHS + len(settings) * seconds


def _progress_callback(progress: Callable[[float], None], before_s: float, length_s: float) -> Show:
    """Return a callback that reports how much of a cell has passed during one of its runs."""

    def show(history: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> None:
        if timeline is not None:
            progress(before_s + min(length_s, max(0.0, time.time() - timeline.opened_s)))

    return show


def contract_for(setting: str, *, epoch_s: float) -> dict[str, Any]:
    """Return the contract of a setting: an epoch is due one epoch after its last input, and is predicted shortly before that."""
    predicting = {"lead_s": min(0.2, epoch_s / 4)}
    return {"deadline_s": epoch_s, "reroute_after_s": epoch_s, "predicting": predicting, **SETTINGS[setting]}


def _run(
    cluster: LocalCluster,
    name: str,
    application: Path,
    trace: Path,
    contract: Mapping[str, Any],
    *,
    epoch_s: float,
    schedule: Schedule,
    show: Show,
) -> JobRun:
    document = {
        "job": name,
        "type": "finite",
        "application": str(application),
        "feed": {"trace": str(trace), "speed": 5.0 / epoch_s},
        "log": str(cluster.work / name / "log"),
        "out": str(cluster.work / name / "out"),
        "contract": contract,
    }
    job = check_document(document, Job, thing="the study's job")
    return run_job(job, layout_of(job), cluster, schedule=schedule, show=show)


def _measure(cell: Cell, setting: str, job_run: JobRun, *, epoch_s: float, cluster: LocalCluster, before: Usage) -> LateRun:
    timeline = job_run.timeline
    if timeline is None or job_run.state != "completed":
        raise HoldfastError(f"{cell.name}, {setting}: the job ended as {job_run.state}: {job_run.reason or 'no reason given'}")
    events = [event for event in job_run.events if event.at_s >= timeline.opened_s]
    outputs = [event for event in events if event.kind == "output" and event.about["as"] == "first"]
    after = [event for event in outputs if timeline.closes_s(event.about["epoch"]) >= timeline.opened_s + WARM_S]
    qualities: dict[str, int] = {}
    for event in after:
        qualities[event.about["quality"]] = qualities.get(event.about["quality"], 0) + 1
    return LateRun(
        cell,
        setting,
        epoch_s,
        job_run.state,
        tuple(round(event.about["latency_s"], 4) for event in after),
        tuple(round(timeline.closes_s(event.about["epoch"]) - timeline.opened_s, 3) for event in after),
        _rows_s(outputs, timeline.opened_s),
        tuple((round(e.at_s - timeline.opened_s, 2), tuple(e.about["tasks"])) for e in events if e.kind == "fault"),
        qualities,
        all_corrected(events, timeline).holds,
        _accuracy(cluster),
        _usage(cluster).since(before),
        round(psutil.getloadavg()[0], 2),
        _by_column(cluster),
    )


def _rows_s(outputs: Iterable[HistoryEvent], opened_s: float) -> tuple[float, ...]:
    counts: dict[int, float] = {}
    for event in outputs:
        second = int(event.at_s - opened_s)
        counts[second] = counts.get(second, 0.0) + event.about["rows"]
    return tuple(counts.get(second, 0.0) for second in range(max(counts, default=-1) + 1))


def _usage(cluster: LocalCluster) -> Usage:
    """Return the resources of the PE hosts with their JVMs, and of all agents. An ended agent has left its last status."""
    cpu_s, memory, written_bytes, read_bytes = 0.0, 0, 0, 0
    for process in _host_processes(cluster):
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker of Spark's that has ended since
            times, counters = process.cpu_times(), process.io_counters()
            cpu_s += times.user + times.system
            memory += process.memory_info().rss
            written_bytes += counters.write_chars
            read_bytes += counters.read_chars
    statuses = cluster.agent_statuses()
    agents_s = sum(status["cpu_s"] for status in statuses)
    memory += sum(status["memory_bytes"] for status in statuses)
    written_bytes += sum(status["about"]["written_bytes"] for status in statuses)
    read_bytes += sum(status["about"]["read_bytes"] for status in statuses)
    return Usage(cpu_s + agents_s, memory, written_bytes, agents_s, read_bytes)


def _host_processes(cluster: LocalCluster) -> Iterable[psutil.Process]:
    for pid in cluster.pe_host_pids():
        with contextlib.suppress(psutil.NoSuchProcess):
            host = psutil.Process(pid)
            yield from (host, *host.children(recursive=True))


def _accuracy(cluster: LocalCluster) -> float | None:
    """Return the share of predicted numbers that were within 5 % of the corrected value."""
    shares = [(stream["accuracy"], stream["scored_epochs"]) for stream in _predicted(cluster).values()]
    weight = sum(epochs for _, epochs in shares)
    return sum(share * epochs for share, epochs in shares) / weight if weight else None


def _by_column(cluster: LocalCluster) -> dict[str, float]:
    streams = _predicted(cluster)
    return {f"{name}.{column}": round(share, 4) for name in streams for column, share in streams[name]["by_column"].items()}


def _predicted(cluster: LocalCluster) -> dict[str, dict[str, Any]]:
    """Return the agents' reports on the streams that they predicted, by name."""
    streams = [item for status in cluster.agent_statuses() for item in status.get("about", {}).get("streams", {}).items()]
    return {name: stream for name, stream in sorted(streams) if stream.get("accuracy") is not None}
