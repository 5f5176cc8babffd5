"""Prediction hot-swap: of the algorithms that can answer in time, the most accurate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Floats, Ints

NONE = -1


@dataclass(frozen=True)
class Candidate:
    """An algorithm as the rank knows it: how accurate it is (greater is better) and how long it takes to answer."""

    name: str
    accuracy: float
    time_s: float


def hot_swap(candidates: Iterable[Candidate], time_left_s: float) -> Candidate | None:
    """The algorithm to answer with (ISORC'16, Equation 1 and Algorithm 1); None if none can answer in time.

    Of those that need no more than the time left before the deadline, the one of highest accuracy; of several, the one that
    takes less time, then the first by name.

    >>> fast, good = Candidate("fast", 0.7, 0.001), Candidate("good", 0.9, 0.2)
    >>> hot_swap([fast, good], 0.5).name, hot_swap([fast, good], 0.1).name, hot_swap([fast, good], 0.0)
    ('good', 'fast', None)
    """
    in_time = [candidate for candidate in candidates if candidate.time_s <= time_left_s]
    return min(in_time, key=lambda candidate: (-candidate.accuracy, candidate.time_s, candidate.name), default=None)


@dataclass(frozen=True)
class Cost:
    """Seconds an algorithm takes to answer for a number of series: what a call costs, and what each series adds."""

    call_s: float
    series_s: float

    def of(self, series: int) -> float:
        """Nothing is asked about no series.

        >>> Cost(0.5, 0.25).of(2), Cost(0.5, 0.25).of(0)
        (1.0, 0.0)
        """
        return self.call_s + self.series_s * series if series else 0.0


@dataclass(frozen=True)
class Assignment:
    """Which algorithm answers for each series (its number, or NONE), and what that takes in all."""

    chosen: Ints
    time_s: float


def assign(accuracy: Floats, costs: Sequence[Cost], names: Sequence[str], *, time_left_s: float) -> Assignment:
    """Algorithm 1 for many series at once: each has its own most accurate algorithm, and all of them answer in time together.

    `accuracy` has a row per series and a column per algorithm; -inf: it has nothing to say about that series. An algorithm that
    cannot answer for a single series in time is out. While the algorithms chosen take too long together, the one that takes
    most of the time is given up, and its series go to the next best; for a single series this is `hot_swap`.
    """
    series, algorithms = accuracy.shape
    rank = np.array(sorted(range(algorithms), key=lambda a: (costs[a].of(1), names[a])), dtype=np.int64)
    open_ = [a for a in rank.tolist() if costs[a].of(1) <= time_left_s]
    while open_:
        chosen = _best(accuracy[:, open_], np.array(open_, dtype=np.int64))
        took = {a: costs[a].of(int(np.count_nonzero(chosen == a))) for a in open_}
        total = sum(took.values())
        if total <= time_left_s:
            return Assignment(chosen, total)
        open_.remove(max(open_, key=lambda a: (took[a], names[a])))
    return Assignment(np.full(series, NONE, dtype=np.int64), 0.0)


def _best(accuracy: Floats, numbers: Ints) -> Ints:
    """The number of the first algorithm of highest accuracy per series; they stand in the order that breaks ties."""
    top = accuracy.max(axis=1, keepdims=True)
    first = np.argmax(accuracy == top, axis=1)
    return np.where(np.isneginf(top[:, 0]), NONE, numbers[first])
