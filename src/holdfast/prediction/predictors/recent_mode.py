"""Recent mode: predicts the value around which most recent values lie."""

from dataclasses import dataclass

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, count_values
from holdfast.prediction.ranking.algorithm_rank import TOLERANCE


@dataclass(frozen=True)
class RecentMode:
    """Predicts the value that is within `tolerance` of most values of the series. Newer values count more.

    It suits series that jump between levels or scatter without a trend, whose mean is a value they never take. A value v is within
    the tolerance of a truth y if |v - y| <= tolerance |y|. Each value counts `keep` times as much as the one after it.
    """

    tolerance: float = TOLERANCE
    keep: float = 0.96
    name: str = "recent-mode"
    least: int = 6

    def __post_init__(self) -> None:
        for parameter, value in (("tolerance", self.tolerance), ("keep", self.keep)):
            if not 0 < value < 1:
                raise HoldfastError(f"predictor '{self.name}': {parameter} must be between 0 and 1, got {value!r}")

    def train(self, history: Floats) -> Floats:
        return _modes(history, self.tolerance, self.keep, self.least)[:, np.newaxis]

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        return np.repeat(np.where(count_values(history)[:, np.newaxis] >= self.least, model, np.nan), steps, axis=1)


@compiled
def _modes(history: Floats, tolerance: float, keep: float, least: int) -> Floats:
    """Slide a window over the sorted values, and return the weighted mean of the heaviest window that fits within the tolerance."""
    series, length = history.shape
    answer = np.full(series, np.nan)
    for i in range(series):
        first = first_value(history[i])
        if length - first < least:
            continue
        order = np.argsort(history[i, first:]) + first
        heaviest, low, weight, total = -1.0, 0, 0.0, 0.0
        for high in range(len(order)):
            top = history[i, order[high]]
            own = keep ** (length - 1 - order[high])
            weight += own
            total += own * top
            # v = top - tolerance |top| is just within the tolerance of the greatest value; it must be within that of the least one
            while top - tolerance * abs(top) > _upper(history[i, order[low]], tolerance):
                dropped = keep ** (length - 1 - order[low])
                weight -= dropped
                total -= dropped * history[i, order[low]]
                low += 1
            if weight > heaviest + 1e-12:
                bottom = history[i, order[low]]
                heaviest = weight
                middle = total / weight
                answer[i] = min(max(middle, top - tolerance * abs(top)), bottom + tolerance * abs(bottom))
    return answer


@compiled
def _upper(value: float, tolerance: float) -> float:
    """Return the greatest v that is within the tolerance of a value."""
    return value + tolerance * abs(value)
