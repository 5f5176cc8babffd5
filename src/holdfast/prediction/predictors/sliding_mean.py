"""Sliding mean: predicts means over a sliding window, because the values that leave the window are known."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, check_whole


@dataclass(frozen=True)
class SlidingMean:
    """Predicts outputs of a smoothing operator: means y over a sliding window of w noisy readings z.

    If y(t) is the mean of z(t-w+1) to z(t), then w (y(t) - y(t-1)) = z(t) - z(t-w). Summing over every w-th value gives the
    readings, up to a constant, which is their mean. The next output is y(t-1) + (mean - z(t-w)) / w, since only the reading that
    enters the window is unknown. Training chooses the w, from 2 to `most`, that predicts the newer half of the series best.

    >>> z = np.tile([1.0, 5.0, 3.0], 10)
    >>> y = np.convolve(z, np.ones(3) / 3, "valid")[np.newaxis]
    >>> SlidingMean().forecast(y, np.array([[3.0]]), steps=1).tolist()
    [[3.0]]
    """

    most: int = 12
    name: str = "sliding-mean"
    least: int = 12

    def __post_init__(self) -> None:
        check_whole(self.name, "most", self.most, least=2)

    def train(self, history: Floats) -> Floats:
        return _windows(history, self.most, self.least)[:, np.newaxis]

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        return _forecast(history, model[:, 0], steps, self.least)


@compiled
def _windows(history: Floats, most: int, least: int) -> Floats:
    """Return the window length of each series."""
    series, length = history.shape
    answer = np.full(series, np.nan)
    for i in range(series):
        first = first_value(history[i])
        n = length - first
        if n < least:
            continue
        lowest = np.inf
        for w in range(2, min(most, n // 4) + 1):
            error = _error(history[i, first:], w)
            if error < lowest:
                lowest, answer[i] = error, w
    return answer


@compiled
def _error(y: Floats, w: int) -> float:
    """Return the squared error of predicting the newer half of a series one step ahead."""
    n = len(y)
    sums, total = np.zeros(n), np.zeros(w)
    count = np.zeros(w)
    error = 0.0
    for t in range(n):
        c = t % w
        if t >= w:
            # at this position of the window, the readings up to t - w are known
            expected = y[t - 1] + (total[c] / count[c] - sums[t - w]) / w
            if 2 * t >= n:
                error += (expected - y[t]) ** 2
            sums[t] = sums[t - w] + w * (y[t] - y[t - 1])
        total[c] += sums[t]
        count[c] += 1.0
    return error


@compiled
def _forecast(history: Floats, windows: Floats, steps: int, least: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    for i in range(series):
        first = first_value(history[i])
        n = length - first
        if n < least or windows[i] != windows[i]:
            continue
        y, w = history[i, first:], int(windows[i])
        sums, total = np.zeros(n), np.zeros(w)
        count = np.zeros(w)
        for t in range(n):
            if t >= w:
                sums[t] = sums[t - w] + w * (y[t] - y[t - 1])
            total[t % w] += sums[t]
            count[t % w] += 1.0
        last = y[n - 1]
        for h in range(steps):
            if h < w:  # beyond, the whole window is unknown
                c = (n + h) % w
                last += (total[c] / count[c] - sums[n + h - w]) / w
            answer[i, h] = last
    return answer
