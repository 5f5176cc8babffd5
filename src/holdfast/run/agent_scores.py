"""How good an agent's own predictions were, told when the truth has come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from holdfast.predict import Columns
from holdfast.predict.rank import TOLERANCE
from holdfast.predict.rows import numbers_of

MOST = 64
"""Predicted epochs that are remembered until their truth comes."""


@dataclass
class Scores:
    """Predicted epochs of one stream against what they should have been, number by number: the share within 5 % of the truth."""

    columns: Columns
    values: int = 0
    within: int = 0
    missing: int = 0
    epochs: int = 0
    _open: OrderedDict[int, pa.Table] = field(default_factory=OrderedDict)

    @property
    def accuracy(self) -> float | None:
        """Of the numbers that were to be predicted, those that were right; one of a row that was not foreseen was not."""
        due = self.values + self.missing
        return self.within / due if due else None

    def predicted(self, epoch: int, rows: pa.Table) -> None:
        self._open[epoch] = rows
        while len(self._open) > MOST:
            self._open.popitem(last=False)

    def came(self, epoch: int, truth: pa.Table) -> None:
        """The truth about an epoch, whether or not it was predicted."""
        guess = self._open.pop(epoch, None)
        if guess is None:
            return
        self.epochs += 1
        ours, theirs = self._by_key(guess), self._by_key(truth)
        for key, value in theirs.items():
            if key not in ours:
                self.missing += value.size
                continue
            known = np.isfinite(value)
            self.values += int(known.sum())
            self.within += int((np.abs(ours[key] - value)[known] <= TOLERANCE * np.abs(value[known])).sum())

    def _by_key(self, rows: pa.Table) -> dict[Hashable, np.ndarray]:
        """The numbers of each row, by its key and its place among that key's rows."""
        numbers = numbers_of(self.columns, rows)
        keys = list(zip(*(rows[name].to_pylist() for name in self.columns.keys), strict=True)) or [()] * rows.num_rows
        seen: dict[Hashable, int] = {}
        found: dict[Hashable, np.ndarray] = {}
        for key, row in zip(keys, numbers, strict=True):
            seen[key] = seen.get(key, -1) + 1
            found[key, seen[key]] = row
        return found
