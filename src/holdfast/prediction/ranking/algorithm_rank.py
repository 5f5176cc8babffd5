"""The algorithm rank (ISORC'16, section IV-B): the recent accuracy of each algorithm on each series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.saved_arrays import SavedArrays
from holdfast.prediction.value_cache import grow

Measure = Literal["within", "mae", "rmse", "mse"]
TOLERANCE = 0.05
MEMORY = 50  # outcomes that count, as many as the cache holds
PRIOR = 20.0  # the weight, in outcomes, of the whole column in the accuracy on a series

TIE_BREAK = 1e-6  # weight of the error, for algorithms that are within the tolerance equally often
SMALLEST = 1e-6  # least size of a series, in mean sizes of its column: a series of zeros has no size of its own
WORST = 10.0  # greatest mean error that counts, in sizes of the series, so that one key does not decide for its column
MOST = 1e140  # greatest error or size that counts, so that sums of squares stay finite


@dataclass(frozen=True)
class Accuracy:
    """The recent accuracy of an algorithm on a column: the share within the tolerance, and the errors of ISORC'16, section IV-B."""

    outcomes: float
    within: float
    mae: float
    mse: float

    @property
    def rmse(self) -> float:
        return float(np.sqrt(self.mse))


class AlgorithmRank(SavedArrays):
    """The outcomes of all algorithms on all series. Older outcomes count less. Each value was predicted before it was known.

    `measure` is the share of predictions within `tolerance` of the truth, or one of the errors of ISORC'16, section IV-B, relative
    to the size of the series. The accuracy on a series includes that on its column with the weight of `prior` outcomes, so that a
    new key uses what works for its column.
    """

    PER_KEY = ("_sums", "_size")

    def __init__(
        self, numbers: int, algorithms: int, *, measure: Measure = "within", tolerance: float = TOLERANCE, prior: float = PRIOR
    ) -> None:
        self.measure, self.tolerance, self.prior, self.keys = measure, tolerance, prior, 0
        self._sums = np.zeros((16, numbers, algorithms, 4))  # outcomes, those within the tolerance, absolute and squared errors
        self._size = np.zeros((16, numbers))

    @property
    def outcomes(self) -> Floats:
        """The weighted number of outcomes by key, number and algorithm."""
        return self._sums[: self.keys, :, :, 0]

    def make_room(self, keys: int) -> None:
        self._sums, self._size = grow(self._sums, keys), grow(self._size, keys)
        self.keys = keys

    def keep(self, kept_slots: Ints) -> None:
        """Forget all keys but these. They get new slots in this order."""
        self._sums, self._size, self.keys = self._sums[kept_slots], self._size[kept_slots], len(kept_slots)

    def carry_over(self, former: list[int]) -> None:
        """Change the algorithms. The n-th one had the number `former[n]`, or is new (-1)."""
        sums = np.zeros((*self._sums.shape[:2], len(former), 4))
        for number, old_number in enumerate(former):
            if old_number >= 0:
                sums[:, :, number] = self._sums[:, :, old_number]
        self._sums = sums

    def score(self, paths: Floats, steps: Ints, *, slots: Ints, truth: Floats) -> None:
        """Compare predicted paths (algorithm, key, number, step) with rows, and add each row to its key's count in `steps`."""
        _score(self._sums, self._size, paths, steps, slots, truth, self.tolerance, 1 - 1 / MEMORY)

    def accuracies(self) -> Floats:
        """Return the accuracy by key, number and algorithm; greater is better, and -inf without an outcome in the column."""
        sums = self._sums[: self.keys]
        index = {"within": 1, "mae": 2, "rmse": 3, "mse": 3}[self.measure]
        score = sums[..., index]
        size = self._sizes()[..., np.newaxis]
        if self.measure == "within":
            score = score - TIE_BREAK * np.minimum(sums[..., 2] / size, sums[..., 0])
        else:
            power = 1 if self.measure == "mae" else 2
            with np.errstate(over="ignore"):
                score = -np.minimum(score / size**power, WORST**power * sums[..., 0])
        total = sums[..., 0].sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            column = np.where(total > 0, score.sum(axis=0) / total, -np.inf)
        mixed = np.asarray((score + self.prior * column) / (sums[..., 0] + self.prior))
        return np.asarray(-np.sqrt(-mixed)) if self.measure == "rmse" else mixed

    def _sizes(self) -> Floats:
        """Return the mean absolute value of each series, to which its errors are relative."""
        own = self._size[: self.keys]
        known = np.count_nonzero(own, axis=0)
        mean = own.sum(axis=0) / np.maximum(known, 1)
        return np.asarray(np.maximum(own, np.where(known, np.maximum(SMALLEST * mean, 1 / MOST), 1.0)))

    def by_column(self) -> list[list[Accuracy | None]]:
        """Return the accuracy of each algorithm on each column, over all keys; None without an outcome."""
        return [[_accuracy(*sums) for sums in algorithms] for algorithms in self._sums[: self.keys].sum(axis=0).tolist()]


def _accuracy(outcomes: float, within: float, absolute: float, squared: float) -> Accuracy | None:
    return Accuracy(outcomes, within / outcomes, absolute / outcomes, squared / outcomes) if outcomes else None


@compiled
def _score(
    sums: Floats, size: Floats, paths: Floats, steps: Ints, slots: Ints, truth: Floats, tolerance: float, keep: float
) -> None:
    algorithms, keys, numbers, longest = paths.shape
    for r in range(len(slots)):
        key = slots[r]
        if key >= keys or steps[key] >= longest:
            continue
        for c in range(numbers):
            value = truth[r, c]
            if not np.isfinite(value):
                continue
            magnitude = min(abs(value), MOST)
            size[key, c] = magnitude if size[key, c] == 0.0 else keep * size[key, c] + (1 - keep) * magnitude
            for a in range(algorithms):
                predicted = paths[a, key, c, steps[key]]
                if predicted != predicted:
                    continue
                error = abs(predicted - value)
                outcome = sums[key, c, a]
                for index in range(4):
                    outcome[index] *= keep
                outcome[0] += 1.0
                outcome[1] += error <= tolerance * abs(value)
                error = min(error, MOST)
                outcome[2] += error
                outcome[3] += error * error
        steps[key] += 1
