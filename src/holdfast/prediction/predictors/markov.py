"""Simple Markov: the state that most often came next."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, whole

MOST = 1_000
"""The most states: what is remembered of every series grows with them, and counting moves with their square."""


@dataclass(frozen=True)
class SimpleMarkov:
    """A chain over the range of a series' values, cut into `states` equal parts (ISORC'16, section IV-A).

    The next state is the one that most often followed the present state; of several, the nearest, then the lower. The value is
    the mean of the values seen in that state. A value outside the range that was trained on has no state: it stays as it is.
    The paper does not say how it makes states of real numbers.
    """

    states: int = 16
    name: str = "simple-markov"
    least: int = 4

    def __post_init__(self) -> None:
        whole(self.name, "states", self.states, least=2, most=MOST)

    def train(self, history: Floats) -> Floats:
        return _train(history, self.states, self.least)

    def forecast(self, history: Floats, learned: Floats, *, steps: int) -> Floats:
        return _forecast(history, learned, self.states, self.least, steps)


# A row of what is learned: the least value, the width of a state, then per state its mean and its successor.


@compiled
def _state(value: float, low: float, width: float, states: int) -> int:
    if width == 0.0:
        return 0 if value == low else -1
    state = int(np.floor((value - low) / width))
    if state == states and value <= low + width * states * (1 + 1e-12):
        return states - 1  # the greatest value belongs to the last part
    return state if 0 <= state < states else -1


@compiled
def _train(history: Floats, states: int, least: int) -> Floats:
    series, length = history.shape
    learned = np.full((series, 2 + 2 * states), np.nan)
    moves = np.empty((states, states), dtype=np.int64)
    sums, seen = np.empty(states), np.empty(states, dtype=np.int64)
    for i in range(series):
        row = history[i]
        first = first_value(row)
        if length - first < least:
            continue
        low, high = row[first:].min(), row[first:].max()
        width = (high - low) / states
        moves[:], sums[:], seen[:] = 0, 0.0, 0
        before = -1
        for t in range(first, length):
            now = max(0, _state(row[t], low, width, states))
            sums[now] += row[t]
            seen[now] += 1
            if before >= 0:
                moves[before, now] += 1
            before = now
        learned[i, 0], learned[i, 1] = low, width
        for s in range(states):
            best = s
            for to in range(states):
                more = moves[s, to] - moves[s, best]
                if more > 0 or (more == 0 and abs(to - s) < abs(best - s)):
                    best = to
            learned[i, 2 + s] = sums[s] / seen[s] if seen[s] else low + (s + 0.5) * width
            learned[i, 2 + states + s] = best
    return learned


@compiled
def _forecast(history: Floats, learned: Floats, states: int, least: int, steps: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    for i in range(series):
        if np.isnan(learned[i, 0]) or length - first_value(history[i]) < least:
            continue
        value = history[i, length - 1]
        state = _state(value, learned[i, 0], learned[i, 1], states)
        for step in range(steps):
            if state >= 0:
                state = int(learned[i, 2 + states + state])
                value = learned[i, 2 + state]
            answer[i, step] = value
    return answer
