"""Exponential smoothing with a trend and a season."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats

LEVEL = np.array([0.05, 0.15, 0.35, 0.6, 0.85, 1.0])
TREND = np.array([0.0, 0.1, 0.4])
SEASON = np.array([0.1, 0.4])
DAMPING = 0.9
REPEATS = 0.5  # correlation of changes a period apart from which they count as a season: 3.5 deviations of noise over 50 values


@dataclass(frozen=True)
class ExponentialSmoothing:
    """Additive Holt-Winters with a damped trend; its weights, and whether there is a season, are each series' own.

    Training tries a grid of weights and keeps those with the least mean absolute error one step ahead; the period is the
    distance at which a series' changes repeat most, if they do.
    """

    name: str = "exponential-smoothing"
    least: int = 6

    def train(self, history: Floats) -> Floats:
        return _train(history, self.least)

    def forecast(self, history: Floats, learned: Floats, *, steps: int) -> Floats:
        return _forecast(history, learned, self.least, steps)


# A row of what is learned: weights of level, trend and season, and the period (0: none).


@compiled
def _period(values: Floats) -> int:
    """The distance at which changes repeat most, if at least twice and clearly; else 0."""
    size = len(values) - 1
    changes = values[1:] - values[:-1]
    changes = changes - changes.mean()
    power = 0.0
    for t in range(size):
        power += changes[t] * changes[t]
    best, period = REPEATS, 0
    if power <= 1e-18 * (values[0] * values[0] + 1.0):
        return 0
    for lag in range(2, size // 2 + 1):
        together = 0.0
        for t in range(lag, size):
            together += changes[t] * changes[t - lag]
        likeness = together / power * size / (size - lag)
        if likeness > best:
            best, period = likeness, lag
    return period


@compiled
def _smooth(values: Floats, alpha: float, beta: float, gamma: float, period: int, season: Floats, answer: Floats) -> float:
    """Run through the values; the next ones into `answer`; the mean absolute error one step ahead."""
    start = max(1, period)
    level, trend, error = 0.0, 0.0, 0.0
    for t in range(start):
        level += values[t] / start
    for t in range(period):
        season[t] = values[t] - level
    for t in range(start, len(values)):
        rhythm = season[t % period] if period else 0.0
        drift = DAMPING * trend
        error += abs(values[t] - (level + drift + rhythm))
        before = level
        level = alpha * (values[t] - rhythm) + (1 - alpha) * (level + drift)
        trend = beta * (level - before) + (1 - beta) * drift
        if period:
            season[t % period] = gamma * (values[t] - level) + (1 - gamma) * rhythm
    ahead, part = 0.0, 1.0
    for step in range(len(answer)):
        part *= DAMPING
        ahead += part * trend
        answer[step] = level + ahead + (season[(len(values) + step) % period] if period else 0.0)
    return error / (len(values) - start)


@compiled
def _train(history: Floats, least: int) -> Floats:
    series, length = history.shape
    learned = np.full((series, 4), np.nan)
    season, none = np.empty(length), np.empty(0)
    for i in range(series):
        first = first_value(history[i])
        if length - first < least:
            continue
        values = history[i, first:]
        period = _period(values)
        best = np.inf
        for alpha in LEVEL:
            for beta in TREND:
                for gamma in SEASON if period else SEASON[:1]:
                    error = _smooth(values, alpha, beta, gamma, period, season, none)
                    if error < best:
                        best = error
                        learned[i, 0], learned[i, 1], learned[i, 2], learned[i, 3] = alpha, beta, gamma, period
    return learned


@compiled
def _forecast(history: Floats, learned: Floats, least: int, steps: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    season = np.empty(length)
    for i in range(series):
        first = first_value(history[i])
        if np.isnan(learned[i, 0]) or length - first < max(least, learned[i, 3] + 1):
            continue
        alpha, beta, gamma = learned[i, 0], learned[i, 1], learned[i, 2]
        _smooth(history[i, first:], alpha, beta, gamma, int(learned[i, 3]), season, answer[i])
    return answer
