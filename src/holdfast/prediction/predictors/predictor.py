"""What every algorithm that predicts takes and gives: the last values of many series in, their next ones out."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from holdfast.errors import HoldfastError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
LARGEST = 1e100
"""The largest value that algorithms are asked to calculate with: squares of larger ones, and sums of them, are no numbers."""


class Predictor(Protocol):
    """One algorithm, for all series at once. A series is one numeric column of one key.

    `history` has a row per series: its values oldest first, against the right edge, NaN before the first. A row of every
    answer depends on the same row of the arguments and on nothing else: not on the other series, the clock or a random
    number. Arguments are never written to. About a series with a value beyond LARGEST it may say what it likes: it is not asked.
    """

    @property
    def name(self) -> str:
        """How contracts, documents and the manager's view call the algorithm."""

    @property
    def least(self) -> int:
        """How many values a series must have before the algorithm says anything about it; at least 1."""

    def train(self, history: Floats) -> Floats:
        """What is to be remembered of each series until the next training: a row of numbers per series.

        A row of NaN: nothing was learned, so nothing is predicted. No columns: there is nothing to learn.
        """

    def forecast(self, history: Floats, learned: Floats, *, steps: int) -> Floats:
        """The next `steps` values of each series, a column per step; NaN where the algorithm has nothing to say.

        `learned` is what `train` gave for these series, perhaps some values ago.
        """


def counts(history: Floats) -> Ints:
    """How many values each series has.

    >>> counts(np.array([[np.nan, 1.0, 2.0], [np.nan, np.nan, np.nan]])).tolist()
    [2, 0]
    """
    return np.asarray(history.shape[1] - np.isnan(history).sum(axis=1), dtype=np.int64)


def nothing(history: Floats) -> Floats:
    """What an algorithm that needs no training has learned."""
    return np.empty((len(history), 0))


def whole(name: str, what: str, value: int, *, least: int, most: int | None = None) -> int:
    """The parameter itself, if it is large enough and not too large. Raises HoldfastError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise HoldfastError(f"predictor '{name}': {what} is a whole number {wanted}, got {value!r}")
    return value
