"""The promise held against real kills: the application run with the plan, its PEs killed one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.model import Graph
from holdfast.model.job import Contract, Feed, Job
from holdfast.model.load import load_app
from holdfast.model.schedule import Schedule, ScheduledFault
from holdfast.run.checkers import Verdict, check_run
from holdfast.run.cluster import LocalCluster
from holdfast.run.experiment import new_folder, run_job
from holdfast.run.history import Event
from holdfast.run.layout import layout_of
from holdfast.run.output import Which, written_by

FIRST_S, EVERY_S, AFTER_S = 12.0, 8.0, 8.0
"""When the first PE is killed, how far the kills are apart (each must have been repaired before the next), and how long the run
goes on after the last; all in seconds of the run, of which an epoch takes at most one."""
SAME = 1e-9

Score = Callable[[pa.Table], float]
"""The application's score over rows of the scored sink."""


@dataclass(frozen=True)
class Stated:
    """What was stated of a failure: whether it has a replica, and the range of the output's quality over offsets and seeds."""

    protected: bool
    least: float
    greatest: float

    def allows(self, quality: float) -> bool:
        """Whether a quality is as good as was stated: no further from 1 than the worst that was measured."""
        return abs(quality - 1) <= max(abs(self.least - 1), abs(self.greatest - 1)) + SAME


@dataclass(frozen=True)
class Kill:
    """A PE that was killed: its operators, when, whether anybody noticed, the epochs that left the sinks until the next kill and
    how many of them were not exact, and the quality of what left the scored sink then (None without a score to take)."""

    operators: tuple[str, ...]
    at_s: float
    noticed: bool
    epochs: int
    inexact: int
    quality: float | None
    stated: Stated

    @property
    def holds(self) -> bool | None:
        """Whether what was stated held; None where there is nothing to tell it from."""
        if not self.noticed or not self.epochs:
            return None
        if self.stated.protected and self.inexact:
            return False
        return self.quality is None or self.stated.allows(self.quality)

    def __str__(self) -> str:
        has = "with a replica" if self.stated.protected else "without one"
        if not self.noticed:
            return f"{'+'.join(self.operators)} ({has}): nobody noticed the kill after {self.at_s:.0f} s, so it shows nothing"
        left = f"{self.inexact} of {self.epochs} epochs left tentative or absent at first"
        quality = ""
        if self.quality is not None:
            quality = f"; quality {self.quality:.4g}, stated {self.stated.least:.4g} to {self.stated.greatest:.4g}"
        return f"{'+'.join(self.operators)} ({has}) killed after {self.at_s:.0f} s: {left}{quality}"


@dataclass(frozen=True)
class Verified:
    """What a run with real kills showed."""

    kills: tuple[Kill, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def holds(self) -> bool:
        """Every kill of a PE struck and left what was stated, and the run lost nothing."""
        return all(kill.holds for kill in self.kills) and all(verdict.holds is not False for verdict in self.verdicts)

    @property
    def conclusion(self) -> str:
        return f"Real kills: the promise {'held' if self.holds else 'did NOT hold'}."

    def said(self) -> list[str]:
        """In words, the conclusion first."""
        verdicts = [f"{each.name}: {'BROKEN' if each.holds is False else 'holds'} ({each.said})" for each in self.verdicts]
        return [self.conclusion, *map(str, self.kills), *verdicts]

    def document(self) -> dict[str, Any]:
        kills = [
            {
                "operators": list(kill.operators),
                "replica": kill.stated.protected,
                "at_s": round(kill.at_s, 2),
                "noticed": kill.noticed,
                "epochs": kill.epochs,
                "inexact": kill.inexact,
                "quality": kill.quality,
                "stated": [kill.stated.least, kill.stated.greatest],
                "holds": kill.holds,
            }
            for kill in self.kills
        ]
        return {"holds": self.holds, "kills": kills, "verdicts": [{"name": v.name, "holds": v.holds} for v in self.verdicts]}


def speed_of(epoch_s: float) -> float:
    """How fast to replay so that an epoch takes at most a second."""
    return max(1.0, epoch_s)


def seconds_for(kills: int, epoch_s: float) -> float:
    """How much of a trace so many kills need."""
    return (FIRST_S + EVERY_S * (kills - 1) + AFTER_S) * speed_of(epoch_s)


def targets_of(graph: Graph, operators: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The PEs and sources to kill for these operators and sources, each once, with those that die with it."""
    pe_of = {operator: pe for pe, part in graph.pes.items() for operator in part}
    found: dict[str, tuple[str, ...]] = {}
    for name in operators:
        pe = pe_of.get(name, name)
        found[pe] = (*found.get(pe, ()), name)
    return found


def verify(
    application: Path, trace: Path, plan: Path, work: Path, *, stated: Mapping[str, Stated], sink: str, score: Score | None
) -> Verified:
    """Run a trace with a plan on two local nodes and kill the PE of every operator and source in `stated`, one after the other."""
    app = load_app(application)
    targets = targets_of(app.graph(), stated)
    faults = [
        ScheduledFault(at_s=FIRST_S + EVERY_S * number, kind="crash", what="pe", target=(f"{pe}/0.0",))
        for number, pe in enumerate(targets)
    ]
    job = Job(
        job="verify",
        type="finite",
        application=str(application.resolve()),
        feed=Feed(trace=str(trace), speed=speed_of(app.epoch_s)),
        log=str(work / "run" / "log"),
        out=str(work / "run" / "out"),
        plan=str(plan.resolve()),
        contract=Contract(checkpoint_epochs=5, tentative_after_s=1.0),
    )
    with LocalCluster(new_folder(work / "run"), nodes=2) as cluster:
        cluster.start()
        ran = run_job(job, layout_of(job), cluster, schedule=Schedule(faults=tuple(faults)))
    if ran.timeline is None or ran.state != "completed":
        raise HoldfastError(f"the run with real kills ended as {ran.state}: {ran.reason}")
    assert job.out is not None
    read = _Reader(Store(job.out), sink, score)
    kills = kills_of(ran.events, targets, stated, opened_s=ran.timeline.opened_s, quality=read.quality)
    sinks = [task.pe for task in ran.tasks if task.kind == "sink"]
    return Verified(kills, tuple(check_run(ran.events, ran.timeline, sinks=sinks)))


def kills_of(
    events: Sequence[Event],
    targets: Mapping[str, tuple[str, ...]],
    stated: Mapping[str, Stated],
    *,
    opened_s: float,
    quality: Callable[[Sequence[int]], float | None],
) -> tuple[Kill, ...]:
    """What left the sinks between each kill and the next. A kill that never came is one that nobody noticed."""
    times = [event.at_s for event in events if event.kind == "fault"]
    found = []
    for number, (pe, operators) in enumerate(targets.items()):
        begins = times[number] if number < len(times) else float("inf")
        until = times[number + 1] if number + 1 < len(times) else float("inf")
        within = [event for event in events if begins <= event.at_s < until]
        noticed = any(event.kind == "detected" and f"{pe}/0" in event.about["tasks"] for event in within)
        firsts = [event for event in within if event.kind == "output" and event.about["as"] == "first"]
        inexact = sum(event.about["quality"] != "exact" for event in firsts)
        worst = min((stated[name] for name in operators), key=lambda each: each.protected)  # one without a replica decides
        epochs = sorted({event.about["epoch"] for event in firsts})
        found.append(Kill(operators, begins - opened_s, noticed, len(firsts), inexact, quality(epochs), worst))
    return tuple(found)


@dataclass(frozen=True)
class _Reader:
    """What a sink wrote in time, held against what it should have written."""

    out: Store
    sink: str
    score: Score | None

    def quality(self, epochs: Sequence[int]) -> float | None:
        """The score of what left in time over that of the corrected output (Eq. 1); 1 where neither has anything to score."""
        if self.score is None or not epochs:
            return None
        first, newest = (self._scored(epochs, which) for which in ("first", "newest"))
        return first / newest if newest else 1.0 if not first else float("inf")

    def _scored(self, epochs: Sequence[int], which: Which) -> float:
        files = [file for file in written_by(self.out, self.sink, which=which) if file.epoch in set(epochs)]
        tables = [pq.read_table(pa.BufferReader(self.out.read(file.name) or b"")) for file in files]
        rows = pa.concat_tables(tables) if tables else None
        assert self.score is not None
        return self.score(rows) if rows is not None and rows.num_rows else 0.0
