"""Predictions that wait for the output, to be judged on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.ranking.algorithm_rank import AlgorithmRank


@dataclass
class PendingPrediction:
    """Paths that were predicted at one moment (algorithm, key, number, step), and the steps that each key has made since.

    The first epoch after that moment counts for the rank of the next epoch, the following ones for the rank of later epochs. After
    `reach` epochs the prediction is spent.
    """

    paths: Floats
    steps: Ints
    epochs: int
    reach: int

    @property
    def spent(self) -> bool:
        return self.epochs >= self.reach

    def judge(self, next_rank: AlgorithmRank, later_rank: AlgorithmRank, *, slots: Ints, truth: Floats, skip_next: bool) -> None:
        """Score the paths on the rows of the next epoch. With `skip_next` the first epoch is counted but not scored."""
        self.epochs += 1
        if self.epochs > 1:
            later_rank.score(self.paths, self.steps, slots=slots, truth=truth)
        elif skip_next:
            np.add.at(self.steps, slots[slots < len(self.steps)], 1)
        else:
            next_rank.score(self.paths, self.steps, slots=slots, truth=truth)
