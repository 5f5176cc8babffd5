"""Shared by the compiled kernels of the predictors."""

from holdfast.compiled import compiled
from holdfast.prediction.predictors.predictor import Floats

__all__ = ["compiled", "first_value"]


@compiled
def first_value(row: Floats) -> int:
    """Return the index of a series' first value; the length of the row if it has none."""
    for i in range(len(row)):
        if row[i] == row[i]:  # NaN differs from itself
            return i
    return len(row)
