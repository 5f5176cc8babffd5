"""What the input says of the output, and how often that was right."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from holdfast.prediction.column_roles import Columns
from holdfast.prediction.echo import Echo
from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.ranking.rank import Measure, Rank

MOST = 64
"""Answers from inexact inputs that are remembered until their truth comes."""


class FromInput:
    """An echo and its ranks, key by key: one of answers from final inputs, one of answers from inputs that were predicted too.

    As long as none of the latter was judged, they count as good as the former. Keys have the numbers that the census gave them; of
    a key with several rows in an epoch the input's digest says nothing.
    """

    def __init__(self, columns: Columns, streams: Sequence[str], new_rank: Callable[[], Rank]) -> None:
        self.echo = Echo(columns, streams=streams)
        self._ranks = {exact: new_rank() for exact in (True, False)}
        for rank in self._ranks.values():
            rank.carry_over([-1])
        self._open: dict[int, Floats] = {}

    @property
    def rank(self) -> Rank:
        """How well answers from final inputs did."""
        return self._ranks[True]

    def use(self, measure: Measure) -> None:
        for rank in self._ranks.values():
            rank.measure = measure

    def observe(self, epoch: int, *, keys: Sequence[Hashable], slots: Ints, truth: Floats, known: int) -> None:
        """Judge what was, or would have been, answered about an epoch, then learn from it; `known` keys have a number now."""
        for rank in self._ranks.values():
            rank.make_room(known)
        if self.echo.knows(epoch) and self.echo.exact(epoch):
            self._judge(True, self._path(self.echo.values(epoch, keys), slots, known), slots=slots, truth=truth)
        guessed = self._open.pop(epoch, None)
        if guessed is not None:
            self._judge(False, guessed, slots=slots, truth=truth)
        self.echo.learn(epoch, keys, truth)

    def answer(self, epoch: int, *, keys: Sequence[Hashable], slots: Ints, known: int) -> tuple[Floats, Floats]:
        """What the input of a late epoch says of these keys, a number each column, and how accurate that is; NaN: nothing."""
        values = self.echo.values(epoch, keys)
        exact = self.echo.exact(epoch)
        accuracy = self._ranks[exact].accuracies()[slots, :, 0]
        if not exact:
            self._open[epoch] = self._path(values, slots, known)
            while len(self._open) > MOST:
                del self._open[min(self._open)]
            accuracy = np.where(np.isneginf(accuracy), self._ranks[True].accuracies()[slots, :, 0], accuracy)
        return values, accuracy

    def keep(self, kept: Ints) -> None:
        """Forget all keys but these, which are numbered anew in this order."""
        for rank in self._ranks.values():
            rank.keep(kept)
        self._open = {}

    def _judge(self, exact: bool, path: Floats, *, slots: Ints, truth: Floats) -> None:
        self._ranks[exact].score(path, np.zeros(path.shape[1], dtype=np.int64), slots=slots, truth=truth)

    @staticmethod
    def _path(values: Floats, slots: Ints, known: int) -> Floats:
        """Answers as the rank takes them: algorithm, key, number, step."""
        path = np.full((1, known, values.shape[1], 1), np.nan)
        single = np.bincount(slots, minlength=known)[slots] == 1
        path[0, slots[single], :, 0] = values[single]
        return path
