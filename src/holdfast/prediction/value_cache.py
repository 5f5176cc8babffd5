"""The data cache: the last values of every key and number, bounded in depth and in keys."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import LARGEST, Bools, Floats, Ints

A = TypeVar("A", bound=np.generic)
NULL_MEMORY = 0.8  # how much of the share of nulls is kept from one row to the next


def grown(array: npt.NDArray[A], size: int, *, fill: float = 0) -> npt.NDArray[A]:
    """The array with room for at least `size` rows, what is new filled: doubling, so that a key costs the same on average.

    >>> grown(np.ones(3), 4, fill=0).tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    """
    if size <= len(array):
        return array
    more = np.full((max(size, 2 * len(array)), *array.shape[1:]), fill, dtype=array.dtype)
    more[: len(array)] = array
    return more


class Cache:
    """The last `depth` finite values of every key and number, oldest first, against the right edge (ISORC'16, section IV-B).

    A null, NaN or infinite value is no value: it leaves the series as it is, and counts towards its share of nulls.
    """

    def __init__(self, numbers: int, *, depth: int) -> None:
        self.keys = 0
        self._values = np.full((16, numbers, depth), np.nan)
        self._nulls = np.zeros((16, numbers))

    @property
    def history(self) -> Floats:
        """A row per series, all numbers of a key together. A view: copy it to keep it."""
        return self._values[: self.keys].reshape(-1, self._values.shape[2])

    @property
    def usable(self) -> Ints:
        """How many values each series has to predict from: none where one of them is too large to calculate with."""
        return _usable(self.history)

    @property
    def mostly_null(self) -> Bools:
        """Per key and number, whether lately more than half of its values were null."""
        return np.asarray(self._nulls[: self.keys] > 0.5)

    @property
    def size_bytes(self) -> int:
        return self._values.nbytes + self._nulls.nbytes

    def append(self, slots: Ints, values: Floats, *, keys: int) -> None:
        """Take in rows in their order: row r is of key number `slots[r]`; `keys` is how many there are now."""
        self._values = grown(self._values, keys, fill=np.nan)
        self._nulls = grown(self._nulls, keys)
        self.keys = keys
        _append(self._values, self._nulls, slots, values)

    def keep(self, kept: Ints) -> None:
        """Forget all keys but these, which are numbered anew in this order."""
        self._values = np.ascontiguousarray(self._values[kept])
        self._nulls = self._nulls[kept]
        self.keys = len(kept)


@compiled
def _usable(history: Floats) -> Ints:
    found = np.zeros(len(history), dtype=np.int64)
    for i in range(len(history)):
        large = 0.0
        for value in history[i]:
            if value == value:  # NaN alone differs from itself
                found[i] += 1
                large = max(large, abs(value))
        if large > LARGEST:
            found[i] = 0
    return found


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
