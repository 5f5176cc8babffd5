"""The data cache: the last values of each key's numbers."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import LARGEST, Bools, Floats, Ints
from holdfast.prediction.saved_arrays import SavedArrays

A = TypeVar("A", bound=np.generic)
NULL_MEMORY = 0.8  # weight of the earlier rows in a share of nulls


def grow(array: npt.NDArray[A], size: int, *, fill: float = 0) -> npt.NDArray[A]:
    """Return the array with at least `size` rows, new ones filled. The size doubles, so adding keys one by one stays cheap.

    >>> grow(np.ones(3), 4, fill=0).tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    """
    if size <= len(array):
        return array
    larger = np.full((max(size, 2 * len(array)), *array.shape[1:]), fill, dtype=array.dtype)
    larger[: len(array)] = array
    return larger


class ValueCache(SavedArrays):
    """The last `depth` finite values of each series, oldest first and right-aligned (ISORC'16, section IV-B).

    A series is one number of one key. A null, NaN or infinite value is not stored, but counts towards the share of nulls.
    """

    PER_KEY = ("_values", "_nulls")
    WITH_NAN = ("_values",)

    def __init__(self, numbers: int, *, depth: int) -> None:
        self.keys = 0
        self._values = np.full((16, numbers, depth), np.nan)
        self._nulls = np.zeros((16, numbers))

    @property
    def history(self) -> Floats:
        """One row per series, all numbers of a key together. This is a view."""
        return self._values[: self.keys].reshape(-1, self._values.shape[2])

    @property
    def usable(self) -> Ints:
        """How many values each series has; 0 if one of them is larger than LARGEST."""
        return _usable(self.history, LARGEST)

    @property
    def mostly_null(self) -> Bools:
        """For each key and number, whether more than half of the recent values were null."""
        return np.asarray(self._nulls[: self.keys] > 0.5)

    @property
    def size_bytes(self) -> int:
        return self._values.nbytes + self._nulls.nbytes

    def append(self, slots: Ints, values: Floats, *, keys: int) -> None:
        """Add rows in order. Row r belongs to the key at `slots[r]`; there are `keys` keys now."""
        self._values = grow(self._values, keys, fill=np.nan)
        self._nulls = grow(self._nulls, keys)
        self.keys = keys
        _append(self._values, self._nulls, slots, values)

    def keep(self, kept_slots: Ints) -> None:
        """Forget all keys but these. They get new slots in this order."""
        self._values = np.ascontiguousarray(self._values[kept_slots])
        self._nulls = self._nulls[kept_slots]
        self.keys = len(kept_slots)


@compiled
def _usable(history: Floats, largest: float) -> Ints:
    counts = np.zeros(len(history), dtype=np.int64)
    for i in range(len(history)):
        greatest = 0.0
        for value in history[i]:
            if value == value:  # NaN differs from itself
                counts[i] += 1
                greatest = max(greatest, abs(value))
        if greatest > largest:
            counts[i] = 0
    return counts


@compiled
def _append(values: Floats, nulls: Floats, slots: Ints, rows: Floats) -> None:
    depth = values.shape[2]
    for r in range(len(slots)):
        for c in range(rows.shape[1]):
            value, series = rows[r, c], values[slots[r], c]
            missing = not np.isfinite(value)
            nulls[slots[r], c] = NULL_MEMORY * nulls[slots[r], c] + (1 - NULL_MEMORY) * missing
            if not missing:
                for t in range(1, depth):
                    series[t - 1] = series[t]
                series[depth - 1] = value
