"""k nearest neighbours: predicts what followed the most similar moments of the past."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, check_whole, no_model


@dataclass(frozen=True)
class NearestNeighbours:
    """The mean of what followed the `k` windows of values most similar to the last `window` values (ISORC'16, section IV-A).

    Similarity is the Euclidean distance; of equals, the more recent window wins. A step that follows no window repeats the step
    before it. The paper gives k = 4 and no window.
    """

    k: int = 4
    window: int = 2
    name: str = "nearest-neighbours"

    def __post_init__(self) -> None:
        check_whole(self.name, "k", self.k, least=1)
        check_whole(self.name, "window", self.window, least=1)

    @property
    def least(self) -> int:
        return self.window + self.k

    def train(self, history: Floats) -> Floats:
        return no_model(history)

    def forecast(self, history: Floats, model: Floats, *, steps: int) -> Floats:
        return _forecast(history, self.k, self.window, steps)


@compiled
def _forecast(history: Floats, k: int, window: int, steps: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    distances = np.empty(length)
    nearest, ends = np.empty(k), np.empty(k, dtype=np.int64)
    for i in range(series):
        row = history[i]
        first = first_value(row)
        if length - first < window + k:
            continue
        for end in range(first + window - 1, length - 1):
            distance = 0.0
            for back in range(window):
                difference = row[end - back] - row[length - 1 - back]
                distance += difference * difference
            distances[end] = distance
        for step in range(steps):
            last = length - 2 - step  # the last window with a value so many steps later
            if last < first + window - 1:
                answer[i, step] = answer[i, step - 1]
                continue
            count = 0
            for end in range(last, first + window - 2, -1):
                if count == k and distances[end] >= nearest[k - 1]:
                    continue
                at = count if count < k else k - 1
                while at > 0 and nearest[at - 1] > distances[end]:
                    nearest[at], ends[at] = nearest[at - 1], ends[at - 1]
                    at -= 1
                nearest[at], ends[at] = distances[end], end
                count = min(k, count + 1)
            total = 0.0
            for n in range(count):
                total += row[ends[n] + step + 1]
            answer[i, step] = total / count
    return answer
