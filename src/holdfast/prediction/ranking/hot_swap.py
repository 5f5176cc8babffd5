"""Prediction hot-swap (ISORC'16, Algorithm 1): chooses the most accurate algorithm that answers in time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Floats, Ints

NONE = -1


@dataclass(frozen=True)
class Candidate:
    """An algorithm to choose from, with its accuracy (greater is better) and the time it takes."""

    name: str
    accuracy: float
    time_s: float


def hot_swap(candidates: Iterable[Candidate], time_left_s: float) -> Candidate | None:
    """Return the algorithm to predict with (ISORC'16, Equation 1 and Algorithm 1); None if none answers in time.

    It is the most accurate of those that need at most the time left before the deadline. Ties go to the one that takes less time,
    then to the first by name.

    >>> fast, good = Candidate("fast", 0.7, 0.001), Candidate("good", 0.9, 0.2)
    >>> hot_swap([fast, good], 0.5).name, hot_swap([fast, good], 0.1).name, hot_swap([fast, good], 0.0)
    ('good', 'fast', None)
    """
    in_time = [candidate for candidate in candidates if candidate.time_s <= time_left_s]
    return min(in_time, key=lambda candidate: (-candidate.accuracy, candidate.time_s, candidate.name), default=None)


@dataclass(frozen=True)
class Cost:
    """The time an algorithm takes: seconds per call, and seconds per series."""

    call_s: float
    series_s: float

    def of(self, series: int) -> float:
        """Return the seconds for this many series; 0 for none.

        >>> Cost(0.5, 0.25).of(2), Cost(0.5, 0.25).of(0)
        (1.0, 0.0)
        """
        return self.call_s + self.series_s * series if series else 0.0


@dataclass(frozen=True)
class Assignment:
    """The number of the algorithm that predicts each series, or NONE, and the total time."""

    predictors: Ints
    time_s: float


def assign_predictors(accuracy: Floats, costs: Sequence[Cost], names: Sequence[str], *, time_left_s: float) -> Assignment:
    """Choose an algorithm for each of many series (Algorithm 1), so that all together answer in time.

    `accuracy` has a row per series and a column per algorithm; -inf if the algorithm cannot predict the series. Algorithms that
    cannot predict one series in time are dropped. While the chosen ones take too long together, the one that takes longest is
    dropped and its series go to their next best algorithm. For a single series this equals `hot_swap`.
    """
    series, algorithms = accuracy.shape
    fastest_first = sorted(range(algorithms), key=lambda a: (costs[a].of(1), names[a]))
    candidates = [a for a in fastest_first if costs[a].of(1) <= time_left_s]
    while candidates:
        assigned = _most_accurate(accuracy[:, candidates], np.array(candidates, dtype=np.int64))
        time_s = {a: costs[a].of(int(np.count_nonzero(assigned == a))) for a in candidates}
        total_s = sum(time_s.values())
        if total_s <= time_left_s:
            return Assignment(assigned, total_s)
        candidates.remove(max(candidates, key=lambda a: (time_s[a], names[a])))
    return Assignment(np.full(series, NONE, dtype=np.int64), 0.0)


def _most_accurate(accuracy: Floats, numbers: Ints) -> Ints:
    """Return the number of each series' most accurate algorithm; of equals, the first."""
    top = accuracy.max(axis=1, keepdims=True)
    first = np.argmax(accuracy == top, axis=1)
    return np.where(np.isneginf(top[:, 0]), NONE, numbers[first])
