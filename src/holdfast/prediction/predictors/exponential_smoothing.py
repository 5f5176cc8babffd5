"""Exponential smoothing with a trend and a season."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats

LEVEL = np.array([0.05, 0.15, 0.35, 0.6, 0.85, 1.0])
TREND = np.array([0.0, 0.1, 0.4])
SEASON = np.array([0.1, 0.4])
DAMPING = 0.9
REPEATS = 0.5  # least correlation of changes a period apart that counts as a season: 3.5 deviations of noise over 50 values


@dataclass(frozen=True)
class ExponentialSmoothing:
    """Additive Holt-Winters with a damped trend. Each series has its own weights, with or without a season.

    Training tries a grid of weights and keeps those with the least mean absolute error one step ahead. The period is the distance
    at which a series' changes repeat most clearly, if they repeat.
    """

    name: str = "exponential-smoothing"
    least: int = 6

    def train(self, history: Floats) -> Floats:
        return _train(history, self.least)

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        return _forecast(history, model, self.least, steps)


# A row of the model: weights of level, trend and season, and the period (0: none).


@compiled
def _period(values: Floats) -> int:
    """Return the distance at which changes repeat most clearly, if they do and fit twice into the series; else 0."""
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
        correlation = together / power * size / (size - lag)
        if correlation > best:
            best, period = correlation, lag
    return period


@compiled
def _smooth(values: Floats, alpha: float, beta: float, gamma: float, period: int, season: Floats, answer: Floats) -> float:
    """Smooth the values, write the next ones to `answer`, and return the mean absolute error one step ahead."""
    start = max(1, period)
    level, trend, error = 0.0, 0.0, 0.0
    for t in range(start):
        level += values[t] / start
    for t in range(period):
        season[t] = values[t] - level
    for t in range(start, len(values)):
        seasonal = season[t % period] if period else 0.0
        drift = DAMPING * trend
        error += abs(values[t] - (level + drift + seasonal))
        before = level
        level = alpha * (values[t] - seasonal) + (1 - alpha) * (level + drift)
        trend = beta * (level - before) + (1 - beta) * drift
        if period:
            season[t % period] = gamma * (values[t] - level) + (1 - gamma) * seasonal
    ahead, part = 0.0, 1.0
    for step in range(len(answer)):
        part *= DAMPING
        ahead += part * trend
        answer[step] = level + ahead + (season[(len(values) + step) % period] if period else 0.0)
    return error / (len(values) - start)


@compiled
def _train(history: Floats, least: int) -> Floats:
    series, length = history.shape
    model = np.full((series, 4), np.nan)
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
                        model[i, 0], model[i, 1], model[i, 2], model[i, 3] = alpha, beta, gamma, period
    return model


@compiled
def _forecast(history: Floats, model: Floats, least: int, steps: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    season = np.empty(length)
    for i in range(series):
        first = first_value(history[i])
        if np.isnan(model[i, 0]) or length - first < max(least, model[i, 3] + 1):
            continue
        alpha, beta, gamma = model[i, 0], model[i, 1], model[i, 2]
        _smooth(history[i, first:], alpha, beta, gamma, int(model[i, 3]), season, answer[i])
    return answer
