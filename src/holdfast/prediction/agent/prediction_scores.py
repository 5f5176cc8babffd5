"""The accuracy of the predictions that an agent committed, computed when the exact output arrives."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from holdfast.prediction.column_roles import ColumnRoles
from holdfast.prediction.ranking.algorithm_rank import TOLERANCE
from holdfast.prediction.series_rows import number_matrix, row_keys

MOST_PENDING = 64
"""The most predicted epochs that wait for their exact output."""


@dataclass
class PredictionScores:
    """Compares predicted epochs of a stream with the exact ones: the share of numbers that are within 5 % of the truth."""

    columns: ColumnRoles
    epochs: int = 0
    due: np.ndarray = field(init=False)
    within: np.ndarray = field(init=False)
    _pending: OrderedDict[int, pa.Table] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.due, self.within = (np.zeros(len(self.columns.numbers), dtype=np.int64) for _ in range(2))

    @property
    def accuracy(self) -> float | None:
        """The share of the numbers to predict that were right. Numbers of a row that was not predicted count as wrong."""
        due = int(self.due.sum())
        return int(self.within.sum()) / due if due else None

    @property
    def by_column(self) -> dict[str, float]:
        """The accuracy of each column that had a number to predict."""
        names = self.columns.numbers
        return {name: int(w) / int(d) for name, w, d in zip(names, self.within, self.due, strict=True) if d}

    def add_prediction(self, epoch: int, rows: pa.Table) -> None:
        self._pending[epoch] = rows
        while len(self._pending) > MOST_PENDING:
            self._pending.popitem(last=False)

    def add_truth(self, epoch: int, truth: pa.Table) -> None:
        """Score the prediction of an epoch, if there is one."""
        prediction = self._pending.pop(epoch, None)
        if prediction is None:
            return
        self.epochs += 1
        predicted = self._by_key(prediction)
        for key, value in self._by_key(truth).items():
            is_number = np.isfinite(value)
            self.due += is_number
            if key in predicted:
                self.within += is_number & (np.abs(predicted[key] - value) <= TOLERANCE * np.abs(value))

    def _by_key(self, rows: pa.Table) -> dict[Hashable, np.ndarray]:
        """Return the numbers of each row, by its key and its position among the key's rows."""
        count: dict[Hashable, int] = {}
        numbers: dict[Hashable, np.ndarray] = {}
        for key, row in zip(row_keys(self.columns.keys, rows), number_matrix(self.columns, rows), strict=True):
            count[key] = count.get(key, -1) + 1
            numbers[key, count[key]] = row
        return numbers
