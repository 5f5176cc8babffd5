"""Sliding mean: what leaves a window is known before it leaves."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, whole


@dataclass(frozen=True)
class SlidingMean:
    """For outputs that are means over a sliding window of w readings which scatter, as a smoothing operator makes them.

    With y(t) the mean of z(t-w+1) to z(t), w (y(t) - y(t-1)) = z(t) - z(t-w): summed over every w-th value this gives the readings
    up to a constant, which is their mean. The next output is y(t-1) + (mean - z(t-w)) / w: only what enters the window is unknown.
    w, from 2 to `most`, is the one that would have served the newer half of the series best.

    >>> z = np.tile([1.0, 5.0, 3.0], 10)
    >>> y = np.convolve(z, np.ones(3) / 3, "valid")[np.newaxis]
    >>> SlidingMean().forecast(y, np.array([[3.0]]), steps=1).tolist()
    [[3.0]]
    """

    most: int = 12
    name: str = "sliding-mean"
    least: int = 12

    def __post_init__(self) -> None:
        whole(self.name, "most", self.most, least=2)

    def train(self, history: Floats) -> Floats:
        return _windows(history, self.most, self.least)[:, np.newaxis]

    def forecast(self, history: Floats, learned: Floats, *, steps: int) -> Floats:
        return _followed(history, learned[:, 0], steps, self.least)


@compiled
def _windows(history: Floats, most: int, least: int) -> Floats:
    """The length of each series' window."""
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
    """The squared error of predicting the newer half of a series one step ahead."""
    n = len(y)
    sums, total = np.zeros(n), np.zeros(w)
    count = np.zeros(w)
    error = 0.0
    for t in range(n):
        c = t % w
        if t >= w:
            # what is known of this place in the window is its readings up to t - w
            expected = y[t - 1] + (total[c] / count[c] - sums[t - w]) / w
            if 2 * t >= n:
                error += (expected - y[t]) ** 2
            sums[t] = sums[t - w] + w * (y[t] - y[t - 1])
        total[c] += sums[t]
        count[c] += 1.0
    return error


@compiled
def _followed(history: Floats, windows: Floats, steps: int, least: int) -> Floats:
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
            if h < w:  # later, all that is in the window is unknown
                c = (n + h) % w
                last += (total[c] / count[c] - sums[n + h - w]) / w
            answer[i, h] = last
    return answer
