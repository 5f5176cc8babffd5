"""Stride and long stride: what changed goes on changing."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Floats, nothing, whole

LONG = 4


@dataclass(frozen=True)
class Stride:
    """Every step adds the mean change over the last `span` values (ISORC'16, section IV-A).

    A span of 1 is the stride of Wang and Franklin, a longer one the paper's long stride ("stride multiple" in Table 2), whose
    length it leaves open.

    >>> Stride(span=2).forecast(np.array([[1.0, 2.0, 5.0]]), np.empty((1, 0)), steps=2).tolist()
    [[7.0, 9.0]]
    """

    span: int = 1

    def __post_init__(self) -> None:
        whole(self.name, "span", self.span, least=1)

    @property
    def name(self) -> str:
        return "stride" if self.span == 1 else "long-stride"

    @property
    def least(self) -> int:
        return self.span + 1

    def train(self, history: Floats) -> Floats:
        return nothing(history)

    def forecast(self, history: Floats, learned: Floats, *, steps: int) -> Floats:
        if history.shape[1] < self.least:
            return np.full((len(history), steps), np.nan)
        last = history[:, -1:]
        return np.asarray(last + (last - history[:, -self.least, np.newaxis]) / self.span * np.arange(1, steps + 1))
