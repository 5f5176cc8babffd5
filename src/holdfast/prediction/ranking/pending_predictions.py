"""Predictions that wait for the truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.ranking.rank import Rank


@dataclass
class PendingPrediction:
    """Paths predicted at one moment (algorithm, key, number, step), and how many steps each key has made since.

    What came in the first epoch after that moment judges how well the next epoch is predicted; what came later, how well going on
    is. After `reach` epochs it is spent.
    """

    paths: Floats
    seen: Ints
    epochs: int
    reach: int

    @property
    def spent(self) -> bool:
        return self.epochs >= self.reach

    def judge(self, near: Rank, far: Rank, *, slots: Ints, truth: Floats, skip_next: bool) -> None:
        """Hold the rows of the next epoch against the paths. `skip_next`: another trial judges the first one."""
        self.epochs += 1
        if self.epochs > 1:
            far.score(self.paths, self.seen, slots=slots, truth=truth)
        elif skip_next:
            pass_by(self.seen, slots)
        else:
            near.score(self.paths, self.seen, slots=slots, truth=truth)


def pass_by(seen: Ints, slots: Ints) -> None:
    """Count the steps without judging them."""
    np.add.at(seen, slots[slots < len(seen)], 1)
