"""Last outcome: repeats the last value."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.predictor import Floats, no_model


@dataclass(frozen=True)
class LastOutcome:
    """The next value is the last one (ISORC'16, section IV-A, after Wang and Franklin).

    >>> LastOutcome().forecast(np.array([[np.nan, 3.0, 4.0]]), np.empty((1, 0)), steps=2).tolist()
    [[4.0, 4.0]]
    """

    name: str = "last-outcome"
    least: int = 1

    def train(self, history: Floats) -> Floats:
        return no_model(history)

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        return np.repeat(history[:, -1:], steps, axis=1)
