"""k nearest neighbours: what followed the moments most like this one."""

from dataclasses import dataclass

import numpy as np

from holdfast.prediction.predictors.kernels import compiled, first_value
from holdfast.prediction.predictors.predictor import Floats, nothing, whole


@dataclass(frozen=True)
class NearestNeighbours:
    """The mean of what followed the `k` stretches of `window` values that are most like the last one (ISORC'16, section IV-A).

    Likeness is the Euclidean distance; of equals, the more recent. A step so far ahead that no stretch has one repeats the
    step before it. The paper gives k = 4 and leaves the window open.
    """

    k: int = 4
    window: int = 2
    name: str = "nearest-neighbours"

    def __post_init__(self) -> None:
        whole(self.name, "k", self.k, least=1)
        whole(self.name, "window", self.window, least=1)

    @property
    def least(self) -> int:
        return self.window + self.k

    def train(self, history: Floats) -> Floats:
        return nothing(history)

    def forecast(self, history: Floats, learned: Floats, *, steps: int) -> Floats:
        return _forecast(history, self.k, self.window, steps)


@compiled
def _forecast(history: Floats, k: int, window: int, steps: int) -> Floats:
    series, length = history.shape
    answer = np.full((series, steps), np.nan)
    far = np.empty(length)
    near, place = np.empty(k), np.empty(k, dtype=np.int64)
    for i in range(series):
        row = history[i]
        first = first_value(row)
        if length - first < window + k:
            continue
        for end in range(first + window - 1, length - 1):
            distance = 0.0
            for back in range(window):
                apart = row[end - back] - row[length - 1 - back]
                distance += apart * apart
            far[end] = distance
        for step in range(steps):
            last = length - 2 - step  # the last stretch that has a value so many steps on
            if last < first + window - 1:
                answer[i, step] = answer[i, step - 1]
                continue
            found = 0
            for end in range(last, first + window - 2, -1):
                if found == k and far[end] >= near[k - 1]:
                    continue
                at = found if found < k else k - 1
                while at > 0 and near[at - 1] > far[end]:
                    near[at], place[at] = near[at - 1], place[at - 1]
                    at -= 1
                near[at], place[at] = far[end], end
                found = min(k, found + 1)
            total = 0.0
            for n in range(found):
                total += row[place[n] + step + 1]
            answer[i, step] = total / found
    return answer
