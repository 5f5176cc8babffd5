"""The plausible range of a series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Bools, Floats


@dataclass(frozen=True)
class ValueRange:
    """The bounds of each series, and which series have whole numbers."""

    low: Floats
    high: Floats
    whole: Bools

    def clip(self, paths: Floats) -> Floats:
        """Return the paths clipped to the bounds, and rounded where the column has whole numbers.

        >>> plausible_range(np.array([[4.0, 8.0], [1.0, 3.0]]), (False, True)).clip(np.array([[9.0, 99.0], [-3.0, 2.4]])).tolist()
        [[9.0, 12.0], [0.0, 2.0]]
        """
        bounded = np.clip(paths, self.low[:, np.newaxis], self.high[:, np.newaxis])
        return np.where(self.whole[:, np.newaxis], np.rint(bounded), bounded) if self.whole.any() else bounded


def plausible_range(history: Floats, whole: tuple[bool, ...]) -> ValueRange:
    """Return the range of each series: its past range, widened by its width at both ends, but not below zero if it never was.

    `whole` states which numbers of a key are whole numbers. The series of a key are adjacent.
    """
    low, high = _bounds(history)
    return ValueRange(low, high, np.tile(np.array(whole, dtype=np.bool_), len(history) // max(1, len(whole))))


@compiled
def _bounds(history: Floats) -> tuple[Floats, Floats]:
    low, high = np.full(len(history), np.nan), np.full(len(history), np.nan)
    for i in range(len(history)):
        least, most = np.inf, -np.inf
        for value in history[i]:
            if value < least:
                least = value
            if value > most:
                most = value
        if least <= most:
            width = most - least
            low[i] = least - width if least < 0.0 else max(least - width, 0.0)
            high[i] = most + width
    return low, high
