"""ISORC'16, sections V and VI, as real runs: the datacenter monitor under stalls, unprotected, with upstream backup, predicted."""

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
"""What is compared. 30 s is the paper's timeout, Storm's default; the third is upstream backup as fast as prediction may be."""
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
"""Operators that run as one PE in the small system: 5 PEs of 9 operators, three deep."""
SHARES: Mapping[str, float] = {"small": 0.1, "large": 0.5}
SERVERS: Mapping[str, int] = {"small": 50, "medium": 200, "large": 800}
WARM_S, WARM_EPOCHS = 15.0, 60
"""What a run leaves out at its beginning, and how many epochs a job before all runs takes: until then a JVM compiles."""
EVERY_S, FOR_S = 30.0, 8.0
SINK = "racks"


@dataclass(frozen=True)
class Cell:
    """One row of Table 4: how many PEs, how many of them stall, and how much data flows."""

    pes: int
    fault: Size
    data: Size

    @property
    def name(self) -> str:
        return f"{self.pes} PEs, {self.fault} faults, {self.data} input"

    @property
    def short(self) -> str:
        """How it is called in a list, and by --cells."""
        return f"{self.pes}/{self.fault}/{self.data}"


@dataclass(frozen=True)
class Usage:
    """What the PE hosts and agents of a cluster have used so far, in total."""

    cpu_s: float = 0.0
    memory_bytes: int = 0
    written_bytes: int = 0
    agents_cpu_s: float = 0.0

    def since(self, before: Usage) -> Usage:
        """What was used since then; the memory is what it is now."""
        return Usage(
            self.cpu_s - before.cpu_s,
            self.memory_bytes,
            self.written_bytes - before.written_bytes,
            self.agents_cpu_s - before.agents_cpu_s,
        )


@dataclass(frozen=True)
class LateRun:
    """One setting in one cell. `latencies_s` is per epoch from its close to its first output, from the first stall on; `rows_s` the
    rows that left in each second of the run; `by_column` the accuracy of predictions, by 'stream.column'. `seconds` and `seed` are
    what the run was asked for, `cluster` names the one that it ran on; None: kept by an earlier version, which did not say."""

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
        """From a tuple's arrival, where the paper's clock starts: they come evenly, on average half an epoch before its close."""
        return self.average_s + self.epoch_s / 2

    @property
    def worst_s(self) -> float:
        return max(self.latencies_s)

    def document(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> LateRun:
        """The run that `document` gave, read from JSON."""
        data = dict(document)
        data |= {"cell": Cell(**data["cell"]), "usage": Usage(**data["usage"])}
        data |= {name: tuple(data[name]) for name in ("latencies_s", "times_s", "rows_s")}
        data["stalls"] = tuple((at, tuple(who)) for at, who in data["stalls"])
        return cls(**data)


def fused_application(example: Path, pes: int, path: Path) -> Path:
    """The datacenter monitor with as many PEs, written to `path`: the example as it is (9), or with operators fused (5)."""
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
    seconds: float = 75.0,
    seed: int = 1,
    done: Callable[[LateRun], None] = lambda run: None,
    progress: Callable[[float], None] = lambda passed_s: None,
) -> list[LateRun]:
    """Every setting of a cell, one after the other on one cluster that was warmed up before: the same trace, the same stalls.

    `progress` hears several times a second how much of `cell_s` has passed.
    """
    work.mkdir(parents=True, exist_ok=True)
    application = fused_application(example, cell.pes, work / "monitor.py")
    servers = SERVERS[cell.data]
    write_servers(work / "servers.parquet", events=int(servers * seconds / epoch_s), seed=seed, servers=servers)
    write_servers(work / "warm.parquet", events=servers * WARM_EPOCHS, seed=seed, servers=servers)
    stalls = Stalls(share=SHARES[cell.fault], every_s=EVERY_S, for_s=FOR_S, from_s=WARM_S, to_s=seconds - FOR_S - 2)
    made: list[LateRun] = []
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
            show=_counted(progress, 0.0, WARM_EPOCHS),
        )
        for number, setting in enumerate(settings):
            before = _usage(cluster)
            ran = _run(
                cluster,
                setting.replace(" ", "-"),
                application,
                work / "servers.parquet",
                contract_for(setting, epoch_s=epoch_s),
                epoch_s=epoch_s,
                schedule=Schedule(seed=seed, stalls=stalls),
                show=_counted(progress, WARM_EPOCHS + number * seconds, seconds),
            )
            run = _measured(cell, setting, ran, epoch_s=epoch_s, cluster=cluster, before=before)
            run = replace(run, seconds=seconds, seed=seed, cluster=began)
            made.append(run)
            done(run)
    return made


def cell_s(settings: Sequence[str], *, seconds: float) -> float:
    """How long the runs of a cell take, its warm-up included; starting and ending them comes on top."""
    return WARM_EPOCHS + len(settings) * seconds


def _counted(progress: Callable[[float], None], before_s: float, length_s: float) -> Show:
    """Tells how much of a cell has passed, of which this run is a part."""

    def show(story: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> None:
        if timeline is not None:
            progress(before_s + min(length_s, max(0.0, time.time() - timeline.opened_s)))

    return show


def contract_for(setting: str, *, epoch_s: float) -> dict[str, Any]:
    """The contract of a setting: an epoch is due one epoch after its last input, and predicted shortly before."""
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


def _measured(cell: Cell, setting: str, ran: JobRun, *, epoch_s: float, cluster: LocalCluster, before: Usage) -> LateRun:
    timeline = ran.timeline
    if timeline is None or ran.state != "completed":
        raise HoldfastError(f"{cell.name}, {setting}: the job ended as {ran.state}: {ran.reason or 'no reason given'}")
    events = [event for event in ran.events if event.at_s >= timeline.opened_s]
    outputs = [event for event in events if event.kind == "output" and event.about["as"] == "first"]
    after = [event for event in outputs if timeline.closes_s(event.about["epoch"]) >= timeline.opened_s + WARM_S]
    qualities: dict[str, int] = {}
    for event in after:
        qualities[event.about["quality"]] = qualities.get(event.about["quality"], 0) + 1
    return LateRun(
        cell,
        setting,
        epoch_s,
        ran.state,
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
    """Of the PE hosts with their JVMs, and of the agents that live; what ended agents used is in their last words."""
    cpu_s, memory, written = 0.0, 0, 0
    for process in _host_processes(cluster):
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker of Spark's that has ended since
            times, used, moved = process.cpu_times(), process.memory_info(), process.io_counters()
            cpu_s += times.user + times.system
            memory += used.rss
            written += moved.write_chars
    statuses = cluster.agent_statuses()
    agents_s = sum(status["cpu_s"] for status in statuses)
    memory += sum(status["memory_bytes"] for status in statuses)
    written += sum(status["about"]["written_bytes"] for status in statuses)
    return Usage(cpu_s + agents_s, memory, written, agents_s)


def _host_processes(cluster: LocalCluster) -> Iterable[psutil.Process]:
    for pid in cluster.pe_host_pids():
        with contextlib.suppress(psutil.NoSuchProcess):
            host = psutil.Process(pid)
            yield from (host, *host.children(recursive=True))


def _accuracy(cluster: LocalCluster) -> float | None:
    """Of the numbers that agents predicted and that were corrected, the share within 5 % of the truth."""
    shares = [(stream["accuracy"], stream["scored_epochs"]) for stream in _predicted(cluster).values()]
    weight = sum(epochs for _, epochs in shares)
    return sum(share * epochs for share, epochs in shares) / weight if weight else None


def _by_column(cluster: LocalCluster) -> dict[str, float]:
    streams = _predicted(cluster)
    return {f"{name}.{column}": round(share, 4) for name in streams for column, share in streams[name]["by_column"].items()}


def _predicted(cluster: LocalCluster) -> dict[str, dict[str, Any]]:
    """What agents say of the streams that they predicted, by name."""
    streams = [item for status in cluster.agent_statuses() for item in status.get("about", {}).get("streams", {}).items()]
    return {name: stream for name, stream in sorted(streams) if stream.get("accuracy") is not None}
