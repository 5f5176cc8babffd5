"""Stride and long stride: repeat the last change."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Floats, check_whole, no_model

LONG = 4


@dataclass(frozen=True)
class Stride:
    """Adds the mean change over the last `span` values at every step (ISORC'16, section IV-A).

    A span of 1 is the stride of Wang and Franklin. A longer one is the paper's long stride ("stride multiple" in Table 2), whose
    length the paper does not give.

    >>> Stride(span=2).forecast(np.array([[1.0, 2.0, 5.0]]), np.empty((1, 0)), steps=2).tolist()
    [[7.0, 9.0]]
    """

    span: int = 1

    def __post_init__(self) -> None:
        check_whole(self.name, "span", self.span, least=1)

    @property
    def name(self) -> str:
        return "stride" if self.span == 1 else "long-stride"

    @property
    def least(self) -> int:
        return self.span + 1

    def train(self, history: Floats) -> Floats:
        return no_model(history)

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        if history.shape[1] < self.least:
            return np.full((len(history), steps), np.nan)
        last = history[:, -1:]
        return np.asarray(last + (last - history[:, -self.least, np.newaxis]) / self.span * np.arange(1, steps + 1))
