"""Verify an advice with real kills: run the application with the plan, and kill its sources and PEs one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.app import Graph
from holdfast.app.load import load_app
from holdfast.assess.targets import target_name
from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Contract, Feed, Job
from holdfast.errors import HoldfastError
from holdfast.job_layout import layout_of
from holdfast.log import Store
from holdfast.log.output_files import OutputVersion, list_output_files
from holdfast.log.timeline import Timeline
from holdfast.trial.checkers import Verdict, check_run
from holdfast.trial.job_run import Show, create_run_folder, run_job
from holdfast.trial.local_cluster import LocalCluster

FIRST_S, EVERY_S, AFTER_S = 12.0, 8.0, 8.0
"""When the first PE is killed, the time between kills (each must be repaired before the next), and the time from the last kill to
the end; all in seconds of the run. An epoch takes at most one second."""
SAME = 1e-9
CONDITION = (
    "A kill may cost at most as many seconds of output as the worst injected outage. With a replica, every epoch must also be "
    "exact at first."
)
"""The condition that is verified."""
SCOPE = (
    "Each kill ends all primaries of one PE or source, on nodes that stay up. A PE without a replica restarts from its checkpoint "
    "before an outage of the trials would end, so a real kill should cost at most what was stated. The run shows that it costs no "
    "more. It does not show the cost of an outage of that length, of the loss of a node, or of several failures at once."
)
"""What the kills show and do not show."""

Score = Callable[[pa.Table], float]
"""Computes the application's score over rows of the scored sink."""


@dataclass(frozen=True)
class StatedCost:
    """The cost of a failure that the advice states: whether the unit has a replica, the range of the output's quality over offsets
    and seeds, and the lost or excess output of the worst outage in seconds. A quality depends on the stretch that it is computed
    over, which differs between an outage and a kill. Seconds of output can be compared."""

    protected: bool
    least: float
    greatest: float
    cost_s: float


@dataclass(frozen=True)
class Kill:
    """A unit whose primaries were killed, and the output until the next kill.

    `at_s` is None if the run ended before the kill. `noticed` is whether the orchestrator detected it. `epochs` is the number of
    output epochs, and `inexact` how many of them were not exact at every sink. `quality` is that of the scored sink's output:
    None without a score, infinite if there was output where none was expected. `epoch_s` is the length of an epoch in the trace.
    """

    operator: str
    at_s: float | None
    noticed: bool
    epochs: int
    inexact: int
    quality: float | None
    stated: StatedCost
    epoch_s: float

    @property
    def cost_s(self) -> float | None:
        """The lost or excess output in seconds; None without a quality."""
        return None if self.quality is None else abs(self.quality - 1) * self.epochs * self.epoch_s

    @property
    def holds(self) -> bool | None:
        """Whether the stated cost held; None if there is no evidence."""
        if not self.noticed or not self.epochs:
            return None
        if self.stated.protected and self.inexact:
            return False
        return self.cost_s is None or self.cost_s <= self.stated.cost_s + SAME

    def __str__(self) -> str:
        who = f"{self.operator} ({'with a replica' if self.stated.protected else 'without one'})"
        if self.at_s is None:
            return f"{who}: the run ended before the kill, so it shows nothing"
        if not self.noticed:
            return f"{who}: the orchestrator did not detect the kill after {self.at_s:.0f} s, so it shows nothing"
        output = f"{self.inexact} of {self.epochs} epochs were tentative or absent at first"
        quality = ""
        if self.quality is not None:
            quality = f"; {describe_quality(self.quality)}{self._cost_text}"
        return f"{who} killed after {self.at_s:.0f} s: {output}{quality}"

    @property
    def _cost_text(self) -> str:
        if self.cost_s is None or not isfinite(self.cost_s):
            return ""
        stated = f"stated: {self.stated.cost_s:.3g} s of it at most (quality {self.stated.least:.4g} to {self.stated.greatest:.4g})"
        return f", which costs {self.cost_s:.3g} s of output; {stated}"


def describe_quality(quality: float) -> str:
    """Return a quality as text.

    >>> describe_quality(0.98), describe_quality(inf)
    ('quality 0.98', 'infinite quality: there was output where none was expected')
    """
    return f"quality {quality:.4g}" if isfinite(quality) else "infinite quality: there was output where none was expected"


@dataclass(frozen=True)
class Verified:
    """The result of a run with real kills. `compared` is the condition that is verified, `shown` what the kills show."""

    kills: tuple[Kill, ...]
    verdicts: tuple[Verdict, ...]
    compared: ClassVar[str] = CONDITION
    shown: ClassVar[str] = SCOPE

    @property
    def holds(self) -> bool:
        """Whether every kill had an effect within the stated cost, and no checker failed."""
        return all(kill.holds for kill in self.kills) and all(verdict.holds is not False for verdict in self.verdicts)

    @property
    def conclusion(self) -> str:
        return f"Real kills: the promise {'held' if self.holds else 'did NOT hold'}."

    def lines(self) -> list[str]:
        """Return the result as lines of text, the conclusion first."""
        verdicts = [f"{each.name}: {'BROKEN' if each.holds is False else 'holds'} ({each.reason})" for each in self.verdicts]
        return [f"{self.conclusion} {self.compared}", *map(str, self.kills), *verdicts, self.shown]

    def document(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON; values that are not finite are None."""
        kills = [
            {
                "operator": kill.operator,
                "replica": kill.stated.protected,
                "at_s": None if kill.at_s is None else round(kill.at_s, 2),
                "noticed": kill.noticed,
                "epochs": kill.epochs,
                "inexact": kill.inexact,
                "quality": kill.quality if kill.quality is not None and isfinite(kill.quality) else None,
                "text": str(kill),
                "cost_s": kill.cost_s if kill.cost_s is not None and isfinite(kill.cost_s) else None,
                "stated": [kill.stated.least, kill.stated.greatest],
                "stated_cost_s": kill.stated.cost_s,
                "holds": kill.holds,
            }
            for kill in self.kills
        ]
        verdicts = [{"name": v.name, "holds": v.holds} for v in self.verdicts]
        return {"holds": self.holds, "compared": self.compared, "shown": self.shown, "kills": kills, "verdicts": verdicts}


def speed_of(epoch_s: float) -> float:
    """Return the replay speed at which an epoch takes at most a second."""
    return max(1.0, epoch_s)


def run_s(kills: int) -> float:
    """Return the duration of a run with this many kills, from its first epoch on."""
    return FIRST_S + EVERY_S * (kills - 1) + AFTER_S


def seconds_for(kills: int, epoch_s: float) -> float:
    """Return how many seconds of trace this many kills need."""
    return run_s(kills) * speed_of(epoch_s)


def progress_of(kills: int, report: Callable[[int, int], None], *, clock: Callable[[], float] = time.time) -> Show:
    """Return a callback that reports the seconds since the run's first epoch, out of the duration of the run."""

    def show(job: object, nodes: object, timeline: Timeline | None) -> None:
        if timeline is not None:
            report(max(0, min(int(run_s(kills)), int(clock() - timeline.opened_s))), int(run_s(kills)))

    return show


def victims_of(graph: Graph, units: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the tasks of each unit, which are killed together."""
    tasks = {source.name: (source.name, source.parallelism) for source in graph.sources}
    tasks |= {target_name(part): (pe, graph.operator(part[0]).parallelism) for pe, part in graph.pes.items()}
    return {unit: tuple(f"{tasks[unit][0]}/{number}" for number in range(tasks[unit][1])) for unit in units}


def schedule_of(victims: Iterable[Sequence[str]]) -> Schedule:
    """Return the schedule that kills the primaries of all tasks of a unit at once, one unit after the other."""
    return Schedule(
        faults=tuple(
            ScheduledFault(at_s=FIRST_S + EVERY_S * number, kind="crash", what="pe", target=tuple(f"{task}.0" for task in tasks))
            for number, tasks in enumerate(victims)
        )
    )


def verify(
    application: Path,
    trace: Path,
    plan: Path,
    work: Path,
    *,
    stated: Mapping[str, StatedCost],
    sink: str,
    score: Score | None,
    show: Show | None = None,
) -> Verified:
    """Run a trace with a plan on two local nodes, kill every unit in `stated` one after the other, and compare the costs."""
    app = load_app(application)
    victims = victims_of(app.graph(), stated)
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
    with LocalCluster(create_run_folder(work / "run"), nodes=2) as cluster:
        cluster.start()
        result = run_job(job, layout_of(job), cluster, schedule=schedule_of(victims.values()), show=show)
    if result.timeline is None or result.state != "completed":
        raise HoldfastError(f"the run with real kills ended as {result.state}: {result.reason}")
    assert job.out is not None
    reader = _Reader(Store(job.out), sink, score)
    kills = kills_of(result.events, victims, stated, opened_s=result.timeline.opened_s, quality=reader.quality, epoch_s=app.epoch_s)
    sinks = [task.pe for task in result.tasks if task.kind == "sink"]
    return Verified(kills, tuple(check_run(result.events, result.timeline, sinks=sinks)))


def kills_of(
    events: Sequence[HistoryEvent],
    victims: Mapping[str, tuple[str, ...]],
    stated: Mapping[str, StatedCost],
    *,
    opened_s: float,
    quality: Callable[[Sequence[int]], float | None],
    epoch_s: float,
) -> tuple[Kill, ...]:
    """Return each kill with the output until the next one. A unit that was not killed counts as not noticed."""
    spans = pairwise([*(event.at_s for event in events if event.kind == "fault"), inf])
    kills = []
    for unit, tasks in victims.items():
        begins, until = next(spans, (None, inf))
        if begins is None:
            kills.append(Kill(unit, None, False, 0, 0, None, stated[unit], epoch_s))
            continue
        within = [event for event in events if begins <= event.at_s < until]
        noticed = {task for event in within if event.kind == "detected" for task in event.about["tasks"]}
        firsts = [event for event in within if event.kind == "output" and event.about["as"] == "first"]
        inexact = {event.about["epoch"] for event in firsts if event.about["quality"] != "exact"}
        epochs = sorted({event.about["epoch"] for event in firsts})
        all_noticed = noticed.issuperset(tasks)
        kills.append(Kill(unit, begins - opened_s, all_noticed, len(epochs), len(inexact), quality(epochs), stated[unit], epoch_s))
    return tuple(kills)


@dataclass(frozen=True)
class _Reader:
    """Compares a sink's first output with its corrected output."""

    out: Store
    sink: str
    score: Score | None

    def quality(self, epochs: Sequence[int]) -> float | None:
        """Return the score of the first output divided by that of the corrected output (Eq. 1); 1 if both are zero."""
        if self.score is None or not epochs:
            return None
        first, newest = (self._scored(epochs, which) for which in ("first", "newest"))
        return first / newest if newest else 1.0 if not first else inf

    def _scored(self, epochs: Sequence[int], which: OutputVersion) -> float:
        files = [file for file in list_output_files(self.out, self.sink, which=which) if file.epoch in set(epochs)]
        tables = [pq.read_table(pa.BufferReader(self.out.read(file.name) or b"")) for file in files]
        rows = pa.concat_tables(tables) if tables else None
        assert self.score is not None
        return self.score(rows) if rows is not None and rows.num_rows else 0.0
