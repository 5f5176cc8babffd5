"""The algorithm rank: how well each algorithm did of late, on every series, before it knew the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.value_cache import grown

Measure = Literal["within", "mae", "rmse", "mse"]
TOLERANCE = 0.05
MEMORY = 50  # outcomes: as many as the cache holds
PRIOR = 20.0  # outcomes of the whole column that weigh as much as the series' own

CLOSER = 1e-6  # of two that are within the tolerance equally often, the one with the smaller error is more accurate
SMALLEST = 1e-6  # of its column's mean size is the least that a series counts as: one that is always zero has no size of its own
WORST = 10.0  # times its series' size is what an error counts as at most on average: one key shall not decide for its column
MOST = 1e140  # what an error or a size counts as at most, so that sums of squares are numbers still


@dataclass(frozen=True)
class Accuracy:
    """How well an algorithm predicted a column of late: share within the tolerance, and the errors of section IV-B."""

    outcomes: float
    within: float
    mae: float
    mse: float

    @property
    def rmse(self) -> float:
        return float(np.sqrt(self.mse))


class Rank:
    """Outcomes of all algorithms on all series; older ones count less. Every outcome is of a value predicted before it was known.

    `measure` decides who is better: the share of predictions within `tolerance` of the truth, or one of the errors of ISORC'16,
    section IV-B, in units of the series' own size. A series' own outcomes are mixed with its column's, which weigh as much as
    `prior` of them, so that a new key is served by what serves its column.
    """

    def __init__(
        self, numbers: int, algorithms: int, *, measure: Measure = "within", tolerance: float = TOLERANCE, prior: float = PRIOR
    ) -> None:
        self.measure, self.tolerance, self.prior, self.keys = measure, tolerance, prior, 0
        self._sums = np.zeros((16, numbers, algorithms, 4))  # outcomes, within, absolute and squared error
        self._size = np.zeros((16, numbers))

    @property
    def outcomes(self) -> Floats:
        """How many outcomes count, per key, number and algorithm."""
        return self._sums[: self.keys, :, :, 0]

    def make_room(self, keys: int) -> None:
        self._sums, self._size = grown(self._sums, keys), grown(self._size, keys)
        self.keys = keys

    def keep(self, kept: Ints) -> None:
        """Forget all keys but these, which are numbered anew in this order."""
        self._sums, self._size, self.keys = self._sums[kept], self._size[kept], len(kept)

    def carry_over(self, former: list[int]) -> None:
        """Go on with other algorithms: the n-th was number `former[n]` until now, or is new (-1)."""
        sums = np.zeros((*self._sums.shape[:2], len(former), 4))
        for number, place in enumerate(former):
            if place >= 0:
                sums[:, :, number] = self._sums[:, :, place]
        self._sums = sums

    def score(self, path: Floats, seen: Ints, *, slots: Ints, truth: Floats) -> None:
        """Hold predicted paths (algorithm, key, number, step) against rows as they come; `seen` counts the steps made."""
        _score(self._sums, self._size, path, seen, slots, truth, self.tolerance, 1 - 1 / MEMORY)

    def accuracies(self) -> Floats:
        """Per key, number and algorithm how accurate it is, greater is better; -inf where there is no outcome in the column."""
        sums = self._sums[: self.keys]
        place = {"within": 1, "mae": 2, "rmse": 3, "mse": 3}[self.measure]
        found = sums[..., place]
        size = self._sizes()[..., np.newaxis]
        if self.measure == "within":
            found = found - CLOSER * np.minimum(sums[..., 2] / size, sums[..., 0])
        else:
            power = 1 if self.measure == "mae" else 2
            with np.errstate(over="ignore"):
                found = -np.minimum(found / size**power, WORST**power * sums[..., 0])
        total = sums[..., 0].sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            column = np.where(total > 0, found.sum(axis=0) / total, -np.inf)
        mixed = np.asarray((found + self.prior * column) / (sums[..., 0] + self.prior))
        return np.asarray(-np.sqrt(-mixed)) if self.measure == "rmse" else mixed

    def _sizes(self) -> Floats:
        """The size of each series, in which its errors are counted."""
        own = self._size[: self.keys]
        known = np.count_nonzero(own, axis=0)
        mean = own.sum(axis=0) / np.maximum(known, 1)
        return np.asarray(np.maximum(own, np.where(known, np.maximum(SMALLEST * mean, 1 / MOST), 1.0)))

    def of_column(self, number: int, algorithm: int) -> Accuracy | None:
        """How one algorithm did on one column, all keys together; None without an outcome."""
        outcomes, within, absolute, squared = self._sums[: self.keys, number, algorithm].sum(axis=0)
        if not outcomes:
            return None
        return Accuracy(float(outcomes), float(within / outcomes), float(absolute / outcomes), float(squared / outcomes))


@compiled
def _score(sums: Floats, size: Floats, path: Floats, seen: Ints, slots: Ints, truth: Floats, tolerance: float, keep: float) -> None:
    algorithms, keys, numbers, steps = path.shape
    for r in range(len(slots)):
        key = slots[r]
        if key >= keys or seen[key] >= steps:
            continue
        for c in range(numbers):
            value = truth[r, c]
            if not np.isfinite(value):
                continue
            large = min(abs(value), MOST)
            size[key, c] = large if size[key, c] == 0.0 else keep * size[key, c] + (1 - keep) * large
            for a in range(algorithms):
                predicted = path[a, key, c, seen[key]]
                if predicted != predicted:
                    continue
                error = abs(predicted - value)
                outcome = sums[key, c, a]
                for place in range(4):
                    outcome[place] *= keep
                outcome[0] += 1.0
                outcome[1] += error <= tolerance * abs(value)
                error = min(error, MOST)
                outcome[2] += error
                outcome[3] += error * error
        seen[key] += 1
