"""Recent mode: where most of the values have been."""

from dataclasses import dataclass

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, counts
from holdfast.prediction.ranking.rank import TOLERANCE


@dataclass(frozen=True)
class RecentMode:
    """The value that has most of the series' values within `tolerance` of themselves around it; newer ones count more.

    For series that jump between levels or scatter without a trend, of which any mean is a value that they never take. A value v
    is within the tolerance of a truth y if |v - y| <= tolerance |y|. Each value back in time counts `keep` times the one after it.
    """

    tolerance: float = TOLERANCE
    keep: float = 0.96
    name: str = "recent-mode"
    least: int = 6

    def __post_init__(self) -> None:
        for what, value in (("tolerance", self.tolerance), ("keep", self.keep)):
            if not 0 < value < 1:
                raise HoldfastError(f"predictor '{self.name}': {what} lies between 0 and 1, got {value!r}")

    def train(self, history: Floats) -> Floats:
        return _modes(history, self.tolerance, self.keep, self.least)[:, np.newaxis]

    def forecast(self, history: Floats, learned: Floats, *, steps: int) -> Floats:
        return np.repeat(np.where(counts(history)[:, np.newaxis] >= self.least, learned, np.nan), steps, axis=1)


@compiled
def _modes(history: Floats, tolerance: float, keep: float, least: int) -> Floats:
    """A window slides over the sorted values; the answer is the weighted mean of the heaviest window that one v can serve."""
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
            # v = top - tolerance |top| still serves the greatest value; it must not lie too far above the least one
            while top - tolerance * abs(top) > _reach(history[i, order[low]], tolerance):
                gone = keep ** (length - 1 - order[low])
                weight -= gone
                total -= gone * history[i, order[low]]
                low += 1
            if weight > heaviest + 1e-12:
                bottom = history[i, order[low]]
                heaviest = weight
                middle = total / weight
                answer[i] = min(max(middle, top - tolerance * abs(top)), bottom + tolerance * abs(bottom))
    return answer


@compiled
def _reach(value: float, tolerance: float) -> float:
    return value + tolerance * abs(value)
