"""Simple Markov: predicts the state that most often came next."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, check_whole

MOST = 1_000
"""The most states: a model's size grows with them, and the time to count transitions with their square."""


@dataclass(frozen=True)
class SimpleMarkov:
    """A Markov chain whose states are `states` equal parts of the range of a series' values (ISORC'16, section IV-A).

    The next state is the one that most often followed the present state; of several, the nearest, then the lower. The predicted
    value is the mean of that state's values. A value outside the trained range has no state and is repeated. The paper does not
    define the states of real numbers.
    """

    states: int = 16
    name: str = "simple-markov"
    least: int = 4

    def __post_init__(self) -> None:
        check_whole(self.name, "states", self.states, least=2, most=MOST)

    def train(self, history: Floats) -> Floats:
        return _train(history, self.states, self.least)

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        return _forecast(history, model, self.states, self.least, steps)


# A row of the model: the least value, the width of a state, then the mean of each state and the successor of each state.


@compiled
def _state(value: float, low: float, width: float, states: int) -> int:
    if width == 0.0:
        return 0 if value == low else -1
    state = int(np.floor((value - low) / width))
    if state == states and value <= low + width * states * (1 + 1e-12):
        return states - 1  # the greatest value belongs to the last state
    return state if 0 <= state < states else -1


@compiled
def _train(history: Floats, states: int, least: int) -> Floats:
    series, length = history.shape
    model = np.full((series, 2 + 2 * states), np.nan)
    moves = np.empty((states, states), dtype=np.int64)
    sums, visits = np.empty(states), np.empty(states, dtype=np.int64)
    for i in range(series):
        row = history[i]
        first = first_value(row)
        if length - first < least:
            continue
        low, high = row[first:].min(), row[first:].max()
        width = (high - low) / states
        moves[:], sums[:], visits[:] = 0, 0.0, 0
        before = -1
        for t in range(first, length):
            now = max(0, _state(row[t], low, width, states))
            sums[now] += row[t]
            visits[now] += 1
            if before >= 0:
                moves[before, now] += 1
            before = now
        model[i, 0], model[i, 1] = low, width
        for s in range(states):
            best = s
            for to in range(states):
                more = moves[s, to] - moves[s, best]
                if more > 0 or (more == 0 and abs(to - s) < abs(best - s)):
                    best = to
            model[i, 2 + s] = sums[s] / visits[s] if visits[s] else low + (s + 0.5) * width
            model[i, 2 + states + s] = best
    return model


@compiled
def _forecast(history: Floats, model: Floats, states: int, least: int, steps: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    for i in range(series):
        if np.isnan(model[i, 0]) or length - first_value(history[i]) < least:
            continue
        value = history[i, length - 1]
        state = _state(value, model[i, 0], model[i, 1], states)
        for step in range(steps):
            if state >= 0:
                state = int(model[i, 2 + states + state])
                value = model[i, 2 + state]
            answer[i, step] = value
    return answer
