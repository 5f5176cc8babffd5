"""How good an agent's own predictions were, told when the truth has come."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from holdfast.prediction import Columns
from holdfast.prediction.ranking.rank import TOLERANCE
from holdfast.prediction.series_rows import keys_of, numbers_of

MOST = 64
"""Predicted epochs that are remembered until their truth comes."""


@dataclass
class Scores:
    """Predicted epochs of one stream against what they should have been, number by number: the share within 5 % of the truth."""

    columns: Columns
    epochs: int = 0
    due: np.ndarray = field(init=False)
    within: np.ndarray = field(init=False)
    _open: OrderedDict[int, pa.Table] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.due, self.within = (np.zeros(len(self.columns.numbers), dtype=np.int64) for _ in range(2))

    @property
    def accuracy(self) -> float | None:
        """Of the numbers that were to be predicted, those that were right; one of a row that was not foreseen was not."""
        due = int(self.due.sum())
        return int(self.within.sum()) / due if due else None

    @property
    def by_column(self) -> dict[str, float]:
        """The accuracy of every column of which there was something to predict."""
        names = self.columns.numbers
        return {name: int(w) / int(d) for name, w, d in zip(names, self.within, self.due, strict=True) if d}

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
            known = np.isfinite(value)
            self.due += known
            if key in ours:
                self.within += known & (np.abs(ours[key] - value) <= TOLERANCE * np.abs(value))

    def _by_key(self, rows: pa.Table) -> dict[Hashable, np.ndarray]:
        """The numbers of each row, by its key and its place among that key's rows."""
        numbers = numbers_of(self.columns, rows)
        seen: dict[Hashable, int] = {}
        found: dict[Hashable, np.ndarray] = {}
        for key, row in zip(keys_of(self.columns.keys, rows), numbers, strict=True):
            seen[key] = seen.get(key, -1) + 1
            found[key, seen[key]] = row
        return found
