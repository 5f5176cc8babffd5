"""What the contract says of covering for a late PE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from holdfast.errors import CompoundError

Late = Literal["correct", "drop"]


@dataclass(frozen=True)
class Cover:
    """How long a PE may take, and what happens in its stead when it takes longer.

    An epoch's output is due `deadline_s` after its last input was committed; a prediction is begun `lead_s` before that. After
    `most_epochs` predicted epochs in a row the recovery manager takes over. The PE's `late` output corrects the predicted one
    or is dropped.
    """

    deadline_s: float | None
    epoch_s: float
    lead_s: float = 0.2
    most_epochs: int = 30
    late: Late = "correct"

    def __post_init__(self) -> None:
        errors = list(self._errors())
        if errors:
            raise CompoundError("contract of prediction", errors)

    def _errors(self) -> list[str]:
        errors = []
        if self.deadline_s is None:
            errors.append("no deadline set; give deadline_s, the seconds after its last input by which an epoch's output is due")
        elif not math.isfinite(self.deadline_s):
            errors.append(f"deadline_s wants a number of seconds, got {self.deadline_s:g}")
        elif self.deadline_s < self.epoch_s * (1 - 1e-9):  # a length divided by a speed may lack its last digit
            errors.append(
                f"the deadline of {self.deadline_s:g} s is below the epoch length of {self.epoch_s:g} s; "
                "give a longer deadline or shorter epochs"
            )
        elif not 0 <= self.lead_s < self.deadline_s:
            errors.append(f"lead_s wants 0 or more and less than the deadline of {self.deadline_s:g} s, got {self.lead_s:g}")
        if self.most_epochs < 1:
            errors.append(f"most_epochs wants a whole number of at least 1, got {self.most_epochs}")
        if self.late not in get_args(Late):
            errors.append(f"late wants {' or '.join(get_args(Late))}, got '{self.late}'")
        return errors

    @property
    def due_s(self) -> float:
        """The deadline, which a contract that was made has."""
        assert self.deadline_s is not None
        return self.deadline_s
