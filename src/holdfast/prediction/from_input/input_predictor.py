"""Predicts from the input of a late epoch, and ranks how accurate that is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from holdfast.prediction.column_roles import ColumnRoles
from holdfast.prediction.from_input.echo import Echo
from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.ranking.algorithm_rank import AlgorithmRank, Measure

MOST_PENDING = 64
"""The most predictions from inexact inputs that wait for their truth."""


class InputPredictor:
    """An echo and its accuracy for each key, ranked separately for predictions from exact and from inexact inputs.

    While no prediction from inexact inputs was judged, those count as accurate as the others. An input's aggregates cannot tell
    apart several rows of a key in one epoch, so such keys are not judged.
    """

    def __init__(self, columns: ColumnRoles, streams: Sequence[str], new_rank: Callable[[], AlgorithmRank]) -> None:
        self.echo = Echo(columns, streams=streams)
        self._ranks = {exact: new_rank() for exact in (True, False)}
        for rank in self._ranks.values():
            rank.carry_over([-1])
        self._pending: dict[int, Floats] = {}

    @property
    def ranks(self) -> tuple[AlgorithmRank, AlgorithmRank]:
        """The accuracy of predictions from exact and from inexact inputs."""
        return self._ranks[True], self._ranks[False]

    @property
    def rank(self) -> AlgorithmRank:
        """The accuracy of predictions from exact inputs."""
        return self._ranks[True]

    def use_measure(self, measure: Measure) -> None:
        for rank in self._ranks.values():
            rank.measure = measure

    def observe(self, epoch: int, *, keys: Sequence[Hashable], slots: Ints, truth: Floats, key_count: int) -> None:
        """Judge what was, or would have been, predicted of an epoch. Then learn from it."""
        for rank in self._ranks.values():
            rank.make_room(key_count)
        if self.echo.has_input(epoch) and self.echo.is_exact(epoch):
            self._judge(True, self._path(self.echo.predict(epoch, keys), slots, key_count), slots=slots, truth=truth)
        pending = self._pending.pop(epoch, None)
        if pending is not None:
            self._judge(False, pending, slots=slots, truth=truth)
        self.echo.learn(epoch, keys, truth)

    def predict(self, epoch: int, *, keys: Sequence[Hashable], slots: Ints, key_count: int) -> tuple[Floats, Floats]:
        """Return the predicted numbers of these keys, one column each, and their accuracy; NaN where the input has no value."""
        values = self.echo.predict(epoch, keys)
        exact = self.echo.is_exact(epoch)
        accuracy = self._ranks[exact].accuracies()[slots, :, 0]
        if not exact:
            self._pending[epoch] = self._path(values, slots, key_count)
            while len(self._pending) > MOST_PENDING:
                del self._pending[min(self._pending)]
            accuracy = np.where(np.isneginf(accuracy), self._ranks[True].accuracies()[slots, :, 0], accuracy)
        return values, accuracy

    def keep(self, slots: Ints) -> None:
        """Forget all keys but these. They get new slots in this order."""
        for rank in self._ranks.values():
            rank.keep(slots)
        self._pending = {}

    def _judge(self, exact: bool, path: Floats, *, slots: Ints, truth: Floats) -> None:
        self._ranks[exact].score(path, np.zeros(path.shape[1], dtype=np.int64), slots=slots, truth=truth)

    @staticmethod
    def _path(values: Floats, slots: Ints, key_count: int) -> Floats:
        """Return the values in the shape that a rank scores: algorithm, key, number, step."""
        path = np.full((1, key_count, values.shape[1], 1), np.nan)
        single = np.bincount(slots, minlength=key_count)[slots] == 1
        path[0, slots[single], :, 0] = values[single]
        return path
