"""Autoregressive: predicts the next change from the last changes and the distance from the mean."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, check_whole

RIDGE = 0.02


@dataclass(frozen=True)
class Autoregressive:
    """AR(`order`) for each series, fitted by least squares and shrunk towards the last outcome.

    In terms of changes: dy(t) = rho (y(t-1) - mean) + sum of phi(i) dy(t-i), i < order, which is AR(order) in the values. A ridge
    penalty on the standardised regressors shrinks towards dy = 0.
    """

    order: int = 3
    name: str = "autoregressive"

    def __post_init__(self) -> None:
        check_whole(self.name, "order", self.order, least=1)

    @property
    def least(self) -> int:
        return 2 * self.order + 4

    def train(self, history: Floats) -> Floats:
        return _train(history, self.order, self.least)

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        return _forecast(history, model, self.order, self.least, steps)


# A row of the model: the mean, rho, then phi(1) .. phi(order - 1).


@compiled
def _solve(matrix: Floats, right: Floats, size: int) -> None:
    """Solve a positive definite system in place by Cholesky decomposition. `right` then holds the solution."""
    for j in range(size):
        for k in range(j):
            matrix[j, j] -= matrix[j, k] * matrix[j, k]
        matrix[j, j] = np.sqrt(matrix[j, j])
        for i in range(j + 1, size):
            for k in range(j):
                matrix[i, j] -= matrix[i, k] * matrix[j, k]
            matrix[i, j] /= matrix[j, j]
    for i in range(size):
        for k in range(i):
            right[i] -= matrix[i, k] * right[k]
        right[i] /= matrix[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            right[i] -= matrix[k, i] * right[k]
        right[i] /= matrix[i, i]


@compiled
def _train(history: Floats, order: int, least: int) -> Floats:
    series, length = history.shape
    model = np.full((series, order + 1), np.nan)
    matrix, right, x, scale = np.empty((order, order)), np.empty(order), np.empty(order), np.empty(order)
    for i in range(series):
        row = history[i]
        first = first_value(row)
        if length - first < least:
            continue
        mean = row[first:].mean()
        matrix[:, :], right[:] = 0.0, 0.0
        for t in range(first + order, length):
            x[0] = row[t - 1] - mean
            for lag in range(1, order):
                x[lag] = row[t - lag] - row[t - lag - 1]
            change = row[t] - row[t - 1]
            for a in range(order):
                right[a] += x[a] * change
                for b in range(a + 1):
                    matrix[a, b] += x[a] * x[b]
        for a in range(order):
            scale[a] = np.sqrt(matrix[a, a])
        model[i, :], model[i, 0] = 0.0, mean
        if scale.min() <= 1e-12 * (abs(mean) + 1e-300):
            continue  # the series is constant: predict no change
        for a in range(order):
            right[a] /= scale[a]
            for b in range(a + 1):
                matrix[a, b] /= scale[a] * scale[b]
            matrix[a, a] += RIDGE
        _solve(matrix, right, order)
        for a in range(order):
            model[i, a + 1] = right[a] / scale[a]
    return model


@compiled
def _forecast(history: Floats, model: Floats, order: int, least: int, steps: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    recent = np.empty(order)  # newest first
    for i in range(series):
        if np.isnan(model[i, 0]) or length - first_value(history[i]) < least:
            continue
        for lag in range(order):
            recent[lag] = history[i, length - 1 - lag]
        for step in range(steps):
            change = model[i, 1] * (recent[0] - model[i, 0])
            for lag in range(1, order):
                change += model[i, lag + 1] * (recent[lag - 1] - recent[lag])
            value = recent[0] + change
            for lag in range(order - 1, 0, -1):
                recent[lag] = recent[lag - 1]
            recent[0] = value
            answer[i, step] = value
    return answer
