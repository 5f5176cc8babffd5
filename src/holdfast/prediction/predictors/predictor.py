"""The interface of all predictors: from the last values of many series to their next values."""

from functools import cache
from typing import Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from holdfast.errors import HoldfastError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
LARGEST = 1e100
"""The largest value that predictors must handle. Squares of larger values, and sums of them, may overflow."""


class Predictor(Protocol):
    """A prediction algorithm, called for many series at once. A series is one numeric column of one key.

    `history` has one row per series: its values, oldest first and right-aligned, and NaN before the first. A row of a result must
    depend only on the same row of the arguments: not on other series, the clock or random numbers. Arguments must not be written
    to. Results for a series with a value beyond LARGEST are not used.
    """

    @property
    def name(self) -> str:
        """The name of the algorithm in contracts and documents."""

    @property
    def least(self) -> int:
        """How many values a series must have before the algorithm predicts it; at least 1."""

    def train(self, history: Floats) -> Floats:
        """Return the model of each series, one row of numbers each, to be kept until the next training.

        A row of NaN means that there is no model, and the series is not predicted. No columns: there is nothing to train.
        """

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        """Return the next `steps` values of each series, one column per step; NaN where the algorithm cannot predict.

        `model` is the result of `train` for these series, perhaps from some values ago.
        """


class SelectivePredictor(Predictor, Protocol):
    """A predictor of holdfast that predicts only some of the series with `least` values.

    Predictors of other packages cannot be selective: `predictable` is called without a guard against errors.
    """

    def predictable(self, history: Floats) -> Bools:
        """Return which series it predicts now; of these, each one with a model must get a forecast."""


def is_selective(predictor: Predictor) -> TypeGuard[SelectivePredictor]:
    """Return whether a predictor is selective, and one of holdfast."""
    return _is_selective(type(predictor))


@cache
def _is_selective(kind: type) -> bool:
    return is_ours(kind) and hasattr(kind, "predictable")


def is_ours(kind: type) -> bool:
    """Return whether a class of predictors is one of holdfast, and not of another package."""
    return kind.__module__.partition(".")[0] == "holdfast"


def count_values(history: Floats) -> Ints:
    """Return how many values each series has.

    >>> count_values(np.array([[np.nan, 1.0, 2.0], [np.nan, np.nan, np.nan]])).tolist()
    [2, 0]
    """
    return np.asarray(history.shape[1] - np.isnan(history).sum(axis=1), dtype=np.int64)


def no_model(history: Floats) -> Floats:
    """Return the model of an algorithm that needs no training."""
    return np.empty((len(history), 0))


def check_whole(name: str, parameter: str, value: int, *, least: int, most: int | None = None) -> int:
    """Return a parameter's value if it is a whole number in its range. Raises HoldfastError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        expected = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise HoldfastError(f"predictor '{name}': {parameter} must be a whole number {expected}, got {value!r}")
    return value
