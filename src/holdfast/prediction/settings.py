"""How a stand-in learns, and what it does where it knows too little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.errors import CompoundError
from holdfast.prediction.ranking.rank import TOLERANCE, Measure

Short = Literal["last-outcome", "abstain"]
LEAST = {"depth": 2, "train_every": 1, "reach": 2, "least_outputs": 1, "most_keys": 1, "forget_after": 1, "penalty": 1}


@dataclass(frozen=True)
class PredictorSettings:
    """What may be set of a stand-in; the same for every stream unless the contract says otherwise.

    `depth`: values cached per key and number (n = 50 in ISORC'16, section V). `train_every`: epochs until a series is trained
    again. `reach`: epochs ahead on which going on for longer is judged. `measure` and `tolerance`: what counts as accurate. A key
    with fewer than `least_outputs` outputs has too little history: its last outcome stands in, or it is left out (`short`). At
    most `most_keys` keys are remembered, each until it is unseen for `forget_after` epochs. An algorithm that takes more than
    `slow_s` for a round, raises or gives NaN is out for `penalty` epochs, and twice as long every further time until it has done
    well for ten times `penalty`; one that has not returned after ten times `slow_s` is not asked again. `from_input`: whether what
    the late epoch's input says already may be taken from there.
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

    def __post_init__(self) -> None:
        errors = [
            f"{name} wants a whole number of at least {least}, got {getattr(self, name)}"
            for name, least in LEAST.items()
            if getattr(self, name) < least
        ]
        if self.measure not in get_args(Measure):
            errors.append(f"measure wants one of {', '.join(get_args(Measure))}, got '{self.measure}'")
        if not 0 < self.tolerance < 1:
            errors.append(f"tolerance wants a share between 0 and 1, got {self.tolerance:g}")
        if self.short not in get_args(Short):
            errors.append(f"short wants {' or '.join(get_args(Short))}, got '{self.short}'")
        if self.slow_s <= 0:
            errors.append(f"slow_s wants more than 0 seconds, got {self.slow_s:g}")
        if errors:
            raise CompoundError("settings of prediction", errors)
