"""What a series can plausibly do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Bools, Floats


@dataclass(frozen=True)
class Range:
    """The bounds of each series, and which are of whole numbers."""

    low: Floats
    high: Floats
    whole: Bools

    def hold(self, paths: Floats) -> Floats:
        """The paths as they would be written: within the bounds, and whole where the column is.

        >>> plausible(np.array([[4.0, 8.0], [1.0, 3.0]]), (False, True)).hold(np.array([[9.0, 99.0], [-3.0, 2.4]])).tolist()
        [[9.0, 12.0], [0.0, 2.0]]
        """
        bounded = np.clip(paths, self.low[:, np.newaxis], self.high[:, np.newaxis])
        return np.where(self.whole[:, np.newaxis], np.rint(bounded), bounded) if self.whole.any() else bounded


def plausible(history: Floats, whole: tuple[bool, ...]) -> Range:
    """A series goes at most its whole range beyond what it was, and not below zero if it never was.

    `whole` says of each number of a key whether it is a whole one; the series of a key stand together.
    """
    low, high = _bounds(history)
    return Range(low, high, np.tile(np.array(whole, dtype=np.bool_), len(history) // max(1, len(whole))))


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
            reach = most - least
            low[i] = least - reach if least < 0.0 else max(least - reach, 0.0)
            high[i] = most + reach
    return low, high
