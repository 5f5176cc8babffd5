"""The runs of one setting with several seeds: medians, and the least and greatest seed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast_papers.isorc16.late_runs import Cell, LateRun


@dataclass(frozen=True)
class Interval:
    """The median of some seeds, and the least and greatest value. With five seeds these enclose the true median 94 times in 100."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Interval:
        """Return the interval of some values.

        >>> Interval.of([3.0, 1.0, 2.0])
        Interval(median=2.0, low=1.0, high=3.0)
        """
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])

    def text(self, form: str) -> str:
        """Return the interval in a number format; only the median if all seeds are equal.

        >>> Interval(0.2, 0.1, 0.25).text(".0%")
        '20% (10% to 25%)'
        """
        median, low, high = (format(value, form) for value in (self.median, self.low, self.high))
        return median if low == high else f"{median} ({low} to {high})"


@dataclass(frozen=True)
class SeedRuns:
    """The runs of one setting in one cell, by seed."""

    by_seed: Mapping[int | None, LateRun]

    def of(self, value: Callable[[LateRun], float]) -> Interval:
        return Interval.of(map(value, self.by_seed.values()))

    @property
    def average_s(self) -> float:
        return self.of(lambda run: run.average_s).median

    @property
    def worst_s(self) -> float:
        return self.of(lambda run: run.worst_s).median


Cells = Mapping[Cell, Mapping[str, SeedRuns]]


def group_runs(runs: Sequence[LateRun]) -> dict[Cell, dict[str, SeedRuns]]:
    """Group the runs by cell, setting and seed."""
    by_seed: dict[Cell, dict[str, dict[int | None, LateRun]]] = {}
    for run in runs:
        by_seed.setdefault(run.cell, {}).setdefault(run.setting, {})[run.seed] = run
    return {cell: {setting: SeedRuns(seeds) for setting, seeds in settings.items()} for cell, settings in by_seed.items()}


def ratio(cells: Cells, ours: str, theirs: str, value: Callable[[LateRun], float]) -> Interval:
    """Return the sum of a value over the cells in one setting, as a share of that in another: one share for each common seed."""
    seeds = set.intersection(*(set(settings[name].by_seed) for settings in cells.values() for name in (ours, theirs)))
    totals = [[sum(value(settings[name].by_seed[s]) for settings in cells.values()) for name in (ours, theirs)] for s in seeds]
    return Interval.of(mine / other if other else float("inf") for mine, other in totals)
