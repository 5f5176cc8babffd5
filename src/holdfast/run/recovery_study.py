"""PPA's Figures 7, 8 and 10 as real runs on Spark, at a scale that fits one machine: tasks die one at a time and all at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError
from holdfast.model.document import check_document
from holdfast.model.finding import Finding
from holdfast.model.job import Job
from holdfast.model.schedule import Schedule, ScheduledFault
from holdfast.run.checkers import recoveries
from holdfast.run.cluster import LocalCluster
from holdfast.run.experiment import Ran, run_job
from holdfast.run.history import Event
from holdfast.run.layout import layout_of

PES = ("o1", "o2", "o3")
WINDOW, RATE, KEYS = 10, 400, 200
ONE_S, ALL_S, SECONDS = 17.0, 32.0, 48
"""When o2 dies, when all three die, and how long a run is."""
NEVER = 10_000
"""Epochs between checkpoints where there are none, so that everything is replayed from the source."""

APPLICATION = f'''
from pyspark.sql import functions as F

from holdfast import App, last_epochs

app = App("windows", epoch_s=1.0)
before = app.source("source", "seq long, time timestamp, key long, value double")


def window(rows):
    """Per key the sum over a sliding window of {WINDOW} epochs: half as many rows as come in."""
    reach = F.explode(F.expr("sequence(epoch, epoch + {WINDOW - 1})"))
    spread = rows.select("seq", reach.alias("epoch"), "key", "value")
    return spread.groupBy("epoch", "key").agg(F.max("seq").alias("seq"), F.sum("value").alias("value"))


for name in {PES!r}:
    before = app.operator(inputs=before, keep=last_epochs({WINDOW - 1}), name=name)(window)
app.sink("out", before)
app.score("out", "sum(value)")
'''


@dataclass(frozen=True, slots=True)
class Technique:
    """A way to survive: the PEs with an active replica, and the epochs between checkpoints."""

    name: str
    replicated: tuple[str, ...]
    checkpoint_epochs: int


TECHNIQUES = (
    Technique("active (PPA-1.0)", PES, 5),
    Technique("half active (PPA-0.5)", ("o2", "o3"), 15),
    Technique("checkpoint 5 s", (), 5),
    Technique("checkpoint 15 s (PPA-0)", (), 15),
    Technique("source replay", (), NEVER),
)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a run showed, after one task died and after all did.

    Silence: the longest that the sink waited for an epoch, over an epoch's length. Latency: from noticing until the last task
    that died was where it had been, by the paper's definition; None where no task of which nothing was left died.
    """

    technique: str
    one_silence_s: float
    all_silence_s: float
    one_latency_s: float | None
    all_latency_s: float | None
    load: float

    def document(self) -> dict[str, Any]:
        return asdict(self)


def run_techniques(
    techniques: Sequence[Technique], work: Path, *, done: Callable[[Recovered], None] = lambda run: None
) -> list[Recovered]:
    """Every technique, one after the other on one cluster that was warmed up before."""
    work.mkdir(parents=True, exist_ok=True)
    application = work / "windows.py"
    application.write_text(APPLICATION)
    write_windows(work / "trace.parquet", seconds=SECONDS)
    write_windows(work / "warm.parquet", seconds=12)
    found = []
    with LocalCluster(work / "cluster", nodes=2) as cluster:
        cluster.start()
        _run(cluster, "warm-up", Technique("warm-up", (), 5), application, work / "warm.parquet", Schedule())
        for number, technique in enumerate(techniques):
            ran = _run(cluster, f"run-{number}", technique, application, work / "trace.parquet", schedule())
            run = measured(technique, ran)
            found.append(run)
            done(run)
    return found


def schedule() -> Schedule:
    """The primary of o2 dies, and later those of all three at once."""
    crashes = ((ONE_S, ("o2/0.0",)), (ALL_S, tuple(f"{pe}/0.0" for pe in PES)))
    return Schedule(faults=tuple(ScheduledFault(at_s=at_s, kind="crash", what="pe", target=who) for at_s, who in crashes))


def write_windows(path: Path, *, seconds: int, rate: int = RATE, keys: int = KEYS) -> None:
    """A trace of evenly spaced tuples whose keys come in turn."""
    count = rate * seconds
    begins = datetime(2024, 1, 1, tzinfo=UTC)
    times = [begins + timedelta(seconds=(n + 0.5) / rate) for n in range(count)]
    seq = np.arange(1, count + 1)
    columns = {"seq": seq, "time": pa.array(times, pa.timestamp("us", "UTC")), "key": seq % keys, "value": (seq % 97).astype(float)}
    pq.write_table(pa.table(columns), path)


def _run(cluster: LocalCluster, name: str, technique: Technique, application: Path, trace: Path, faults: Schedule) -> Ran:
    terms = {
        "replicas": dict.fromkeys(technique.replicated, 2),
        "contract": {"checkpoint_epochs": technique.checkpoint_epochs},
    }
    return completed(cluster, name, application, trace, terms, what=technique.name, faults=faults)


def completed(
    cluster: LocalCluster,
    name: str,
    application: Path,
    trace: Path,
    terms: Mapping[str, Any],
    *,
    what: str,
    faults: Schedule | None = None,
) -> Ran:
    """A job's run over a trace, to its end; `terms` are what else the job says. Raises HoldfastError of `what` where it fails."""
    document = {
        "job": name,
        "type": "finite",
        "application": str(application),
        "feed": {"trace": str(trace)},
        "log": str(cluster.work / name / "log"),
        "out": str(cluster.work / name / "out"),
        **terms,
    }
    job = check_document(document, Job, thing="the study's job")
    ran = run_job(job, layout_of(job), cluster, schedule=faults)
    if ran.state != "completed" or ran.timeline is None:
        raise HoldfastError(f"{what}: the job ended as {ran.state}: {ran.reason or 'no reason given'}")
    return ran


def measured(technique: Technique, ran: Ran) -> Recovered:
    """What a run showed, from its history."""
    timeline = ran.timeline
    assert timeline is not None
    events = [event for event in ran.events if event.at_s >= timeline.opened_s]
    faults = [event.at_s for event in events if event.kind == "fault"]
    if len(faults) != 2:
        raise HoldfastError(f"{technique.name}: two faults were to strike, and {len(faults)} did")
    one_s, all_s = faults
    back = recoveries(events)
    return Recovered(
        technique.name,
        silence_s(events, one_s, all_s, epoch_s=timeline.epoch_s),
        silence_s(events, all_s, float("inf"), epoch_s=timeline.epoch_s),
        max((each.latency_s for each in back if one_s <= each.detected_s < all_s), default=None),
        max((each.latency_s for each in back if each.detected_s >= all_s), default=None),
        round(psutil.getloadavg()[0], 2),
    )


def silence_s(events: Sequence[Event], since_s: float, until_s: float, *, epoch_s: float) -> float:
    """The longest that a sink waited for its next epoch in a stretch of time, over the length of an epoch."""
    times = [e.at_s for e in events if e.kind == "output" and e.about["as"] == "first"]
    gaps = [later - earlier for earlier, later in pairwise(times) if since_s <= later and earlier < until_s]
    return max(0.0, max(gaps, default=0.0) - epoch_s)


def findings(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """What section VI-A says, as checks of real runs."""
    by = {row["technique"]: row for row in rows}
    active, half, short, long, replay = (by[technique.name] for technique in TECHNIQUES)
    passive = (short, long, replay)

    def said(figure: str) -> str:
        return ", ".join(f"{name} {row[figure]:.1f}" for name, row in by.items()) + " s"

    return [
        Finding(
            "really run: with active replicas the output is back soonest after one task died",
            "much lower than the passive ones",
            said("one_silence_s"),
            all(active["one_silence_s"] < row["one_silence_s"] for row in passive),
        ),
        Finding(
            "really run: and after all died at once",
            "much lower than the passive ones",
            said("all_silence_s"),
            all(active["all_silence_s"] < row["all_silence_s"] for row in passive),
        ),
        Finding(
            "really run: recovery from checkpoints grows with their interval",
            "increases",
            f"one task: {short['one_latency_s']:.1f} and {long['one_latency_s']:.1f} s; "
            f"all: {short['all_latency_s']:.1f} and {long['all_latency_s']:.1f} s",
            short["all_latency_s"] < long["all_latency_s"],
        ),
        Finding(
            "really run: source replay takes longer than checkpoints of 5 s",
            "most",
            f"all tasks: {replay['all_latency_s']:.1f} against {short['all_latency_s']:.1f} s",
            replay["all_latency_s"] > short["all_latency_s"],
        ),
        Finding(
            "really run: PPA-0.5 lies between PPA-1.0 and PPA-0",
            "in this order",
            f"{active['all_silence_s']:.1f}, {half['all_silence_s']:.1f}, {long['all_silence_s']:.1f} s until output is back",
            active["all_silence_s"] <= half["all_silence_s"] <= long["all_silence_s"],
        ),
    ]
