"""PPA's Figures 7, 8 and 10 as real runs on Spark, at a scale that fits one machine: one task dies, then all tasks at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from holdfast.documents import HistoryEvent, Schedule, ScheduledFault
from holdfast.errors import HoldfastError
from holdfast.trial import JobRun, LocalCluster, recoveries
from holdfast_papers.ppa.even_windows import run_to_end, write_windows

PES = ("o1", "o2", "o3")
WINDOW, RATE, KEYS = 10, 400, 200
ONE_S, ALL_S, SECONDS = 17.0, 32.0, 48
"""When o2 dies, when all three die, and the length of a run."""
NEVER = 10_000
"""Epochs between checkpoints for source replay: no checkpoint happens within a run."""

EPOCH_S = 1.0
VARIED = ((800, WINDOW), (RATE, 20))
"""Further rates and windows for some techniques: one of the two is doubled."""

APPLICATION = """
from pyspark.sql import functions as F

from holdfast import App, last_epochs

app = App("windows", epoch_s={epoch_s})
before = app.source("source", "seq long, time timestamp, key long, value double")


def window(rows):
    \"\"\"Per key the sum over a sliding window of {window} epochs.\"\"\"
    reach = F.explode(F.expr("sequence(epoch, epoch + {window} - 1)"))
    spread = rows.select("seq", reach.alias("epoch"), "key", "value")
    return spread.groupBy("epoch", "key").agg(F.max("seq").alias("seq"), F.sum("value").alias("value"))


for name in {pes}:
    before = app.operator(inputs=before, keep=last_epochs({window} - 1), name=name)(window)
app.sink("out", before)
app.score("out", "sum(value)")
"""


@dataclass(frozen=True, slots=True)
class Technique:
    """A recovery technique: the PEs with an active replica, and the epochs between checkpoints. `varied`: also at other rates."""

    name: str
    replicated: tuple[str, ...]
    checkpoint_epochs: int
    varied: bool = True


TECHNIQUES = (
    Technique("active (PPA-1.0)", PES, 5),
    Technique("half active (PPA-0.5)", ("o2", "o3"), 15, varied=False),
    Technique("checkpoint 5 s", (), 5),
    Technique("checkpoint 15 s (PPA-0)", (), 15),
    Technique("source replay", (), NEVER),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a technique at a rate (tuples per second), with a window (epochs)."""

    technique: Technique
    rate: int = RATE
    window: int = WINDOW

    @property
    def name(self) -> str:
        plain = (self.rate, self.window) == (RATE, WINDOW)
        return self.technique.name if plain else f"{self.technique.name}, {self.rate} tuples/s, window {self.window} s"


def cells(*, varied: bool) -> list[Cell]:
    """Return the runs of the study: every technique and, if `varied`, some at other rates and windows."""
    plain = [Cell(technique) for technique in TECHNIQUES]
    further = [Cell(t, rate, window) for rate, window in VARIED for t in TECHNIQUES if t.varied]
    return [*plain, *(further if varied else ())]


@dataclass(frozen=True, slots=True)
class RecoveryTimes:
    """Measurements of a run, after one task died and after all did.

    Silence: the longest time that the sink waited for an epoch, minus the length of an epoch. Latency (the paper's definition):
    from detection until the last dead task was at its earlier epoch again; None if every dead task had a replica.
    """

    technique: str
    one_silence_s: float
    all_silence_s: float
    one_latency_s: float | None
    all_latency_s: float | None
    load: float

    def document(self) -> dict[str, Any]:
        return asdict(self)


def run_cells(cells_to_run: Sequence[Cell], work: Path, *, done: Callable[[Cell, RecoveryTimes], None]) -> None:
    """Run every cell, one after the other, on one cluster after a warm-up."""
    work.mkdir(parents=True, exist_ok=True)
    with LocalCluster(work / "cluster", nodes=2) as cluster:
        cluster.start()
        _run(cluster, "warm-up", Cell(Technique("warm-up", (), 5)), seconds=12, faults=Schedule())
        for number, cell in enumerate(cells_to_run):
            job_run = _run(cluster, f"run-{number}", cell, seconds=SECONDS, faults=schedule())
            done(cell, measure(cell, job_run))


def schedule() -> Schedule:
    """Return the faults: the primary of o2 dies, and later those of all three at once."""
    crashes = ((ONE_S, ("o2/0.0",)), (ALL_S, tuple(f"{pe}/0.0" for pe in PES)))
    return Schedule(faults=tuple(ScheduledFault(at_s=at_s, kind="crash", what="pe", target=who) for at_s, who in crashes))


def _run(cluster: LocalCluster, name: str, cell: Cell, *, seconds: int, faults: Schedule) -> JobRun:
    application, trace = cluster.work / f"{name}.py", cluster.work / f"{name}.parquet"
    application.write_text(APPLICATION.format(window=cell.window, pes=PES, epoch_s=EPOCH_S))
    write_windows(trace, seconds=seconds, rate=cell.rate, keys=KEYS)
    terms = {
        "replicas": dict.fromkeys(cell.technique.replicated, 2),
        "contract": {"checkpoint_epochs": cell.technique.checkpoint_epochs},
    }
    return run_to_end(cluster, name, application, trace, terms, what=cell.name, faults=faults)


def measure(cell: Cell, job_run: JobRun) -> RecoveryTimes:
    """Measure a run from its history."""
    timeline = job_run.timeline
    assert timeline is not None
    events = [event for event in job_run.events if event.at_s >= timeline.opened_s]
    faults = [event.at_s for event in events if event.kind == "fault"]
    if len(faults) != 2:
        raise HoldfastError(f"{cell.name}: expected two faults in the history, found {len(faults)}")
    one_s, all_s = faults
    recoveries_of_run = recoveries(events)
    return RecoveryTimes(
        cell.technique.name,
        silence_s(events, one_s, all_s, epoch_s=timeline.epoch_s),
        silence_s(events, all_s, float("inf"), epoch_s=timeline.epoch_s),
        max((each.latency_s for each in recoveries_of_run if one_s <= each.detected_s < all_s), default=None),
        max((each.latency_s for each in recoveries_of_run if each.detected_s >= all_s), default=None),
        round(psutil.getloadavg()[0], 2),
    )


def silence_s(events: Sequence[HistoryEvent], since_s: float, until_s: float, *, epoch_s: float) -> float:
    """Return the longest time that a sink waited for its next epoch within an interval, minus the length of an epoch.

    A wait that is longer than the interval counts up to its end.
    """
    times = [e.at_s for e in events if e.kind == "output" and e.about["as"] == "first"]
    gaps = [min(later, until_s) - earlier for earlier, later in pairwise(times) if since_s <= later and earlier < until_s]
    return max(0.0, max(gaps, default=0.0) - epoch_s)
