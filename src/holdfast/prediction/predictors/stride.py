"""Stride and long stride: add the last change, if the same change occurred twice."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Bools, Floats, check_whole, count_values, no_model

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
        if history.shape[1] < self.least:
            return np.zeros(len(history), dtype=np.bool_)
        recent = history[:, -self.least :]
        with np.errstate(over="ignore", invalid="ignore"):  # values may be beyond LARGEST; results for them are not used
            stride, stride_before = (recent[:, end] - recent[:, end - self.span] for end in (-1, -2))
            same = np.abs(stride - stride_before) <= SAME * np.abs(recent).max(axis=1)
        return np.asarray(same & (count_values(history) >= self.least))

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        steady = self.predictable(history)
        answer = np.full((len(history), steps), np.nan)
        last, before = history[steady, -1:], history[steady, -self.span - 1 :][:, :1]
        answer[steady] = last + (last - before) / self.span * np.arange(1, steps + 1)
        return answer
