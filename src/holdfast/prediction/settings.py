"""Settings of an epoch predictor: how it learns, and what it does about keys with little history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.errors import CompoundError
from holdfast.prediction.ranking.algorithm_rank import TOLERANCE, Measure

Short = Literal["last-outcome", "abstain"]
MINIMA = {"depth": 2, "train_every": 1, "reach": 2, "least_outputs": 1, "most_keys": 1, "forget_after": 1, "penalty": 1}


@dataclass(frozen=True)
class PredictorSettings:
    """The settings of an epoch predictor. The contract may change some of them.

    `depth`: cached values per key and number (n = 50 in ISORC'16, section V).
    `train_every`: epochs between two trainings of a series.
    `reach`: epochs ahead over which longer predictions are judged.
    `measure`, `tolerance`: how accuracy is measured.
    `least_outputs`, `short`: a key with fewer outputs repeats its last outcome or is left out.
    `most_keys`, `forget_after`: how many keys are remembered, and for how many epochs after their last row.
    `slow_s`, `penalty`: an algorithm that takes more than `slow_s` for a training round, raises or returns NaN is excluded for
    `penalty` epochs. Each further fault doubles the exclusion, until the algorithm has had no fault for ten times `penalty`. An
    algorithm that has not returned after ten times `slow_s` is excluded forever.
    `from_input`: whether predictions may use the input of the late epoch.
    `replace`: whether the last outcome is used where no algorithm predicts a series; otherwise the number is null.
    """

    depth: int = 50
    train_every: int = 10
    reach: int = 8
    measure: Measure = "within"
    tolerance: float = TOLERANCE
    least_outputs: int = 8
    short: Short = "last-outcome"
    most_keys: int = 100_000
    forget_after: int = 200
    slow_s: float = 1.0
    penalty: int = 20
    from_input: bool = True
    replace: bool = True

    def __post_init__(self) -> None:
        errors = [
            f"{name} must be a whole number of at least {minimum}, got {getattr(self, name)}"
            for name, minimum in MINIMA.items()
            if getattr(self, name) < minimum
        ]
        if self.measure not in get_args(Measure):
            errors.append(f"measure must be one of {', '.join(get_args(Measure))}, got '{self.measure}'")
        if not 0 < self.tolerance < 1:
            errors.append(f"tolerance must be between 0 and 1, got {self.tolerance:g}")
        if self.short not in get_args(Short):
            errors.append(f"short must be {' or '.join(get_args(Short))}, got '{self.short}'")
        if self.slow_s <= 0:
            errors.append(f"slow_s must be more than 0 seconds, got {self.slow_s:g}")
        if errors:
            raise CompoundError("settings of prediction", errors)
