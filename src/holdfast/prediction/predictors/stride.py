"""Stride and long stride: add the last change, if the same change occurred twice."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Bools, Floats, check_whole, no_model

LONG = 4
SAME = 1e-12
"""The greatest difference of equal strides, in sizes of the values: differences of decimal fractions are not exact."""


@dataclass(frozen=True)
class Stride:
    """Adds the mean change over the last `span` values at every step, in the steady state only (ISORC'16, section IV-A).

    A span of 1 is the stride of Wang and Franklin: a series is in the steady state when the same stride occurred twice in
    succession. Other series are not predicted. A longer span is the paper's long stride ("stride multiple" in Table 2), whose
    length and states the paper does not give.

    >>> Stride().forecast(np.array([[1.0, 3.0, 5.0], [1.0, 3.0, 4.0]]), np.empty((2, 0)), steps=2).tolist()
    [[7.0, 9.0], [nan, nan]]
    """

    span: int = 1

    def __post_init__(self) -> None:
        check_whole(self.name, "span", self.span, least=1)

    @property
    def name(self) -> str:
        return "stride" if self.span == 1 else "long-stride"

    @property
    def least(self) -> int:
        return self.span + 2

    def train(self, history: Floats) -> Floats:
        return no_model(history)

    def predictable(self, history: Floats) -> Bools:
        """Return which series are in the steady state."""
        return _steady(history, self.span)

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        steady = self.predictable(history)
        answer = np.full((len(history), steps), np.nan)
        last, before = history[steady, -1:], history[steady, -self.span - 1 :][:, :1]
        answer[steady] = last + (last - before) / self.span * np.arange(1, steps + 1)
        return answer


@compiled
def _steady(history: Floats, span: int) -> Bools:
    """Return which series changed as much over the last `span` values as over those one value before."""
    series, length = history.shape
    steady = np.zeros(series, dtype=np.bool_)
    if length >= span + 2:
        for i in range(series):
            last = history[i, length - 1] - history[i, length - 1 - span]
            before = history[i, length - 2] - history[i, length - 2 - span]
            size = 0.0
            for t in range(length - span - 2, length):
                size = max(size, abs(history[i, t]))
            steady[i] = abs(last - before) <= SAME * size  # not if a value is NaN
    return steady
