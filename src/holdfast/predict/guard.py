"""Calls into algorithms that may be anyone's: whatever they do wrong becomes a reason, never the caller's problem."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

import numpy as np

from holdfast.predict.predictor import Bools, Floats, Predictor

LONGEST_S = 3600.0


class Misbehaved(Exception):
    """An algorithm raised, or gave something that is no prediction. The text says what."""


class Hung(Misbehaved):
    """An algorithm has not returned. Where it hangs, it may hang for ever."""


def train(predictor: Predictor, history: Floats, *, limit_s: float = math.inf) -> Floats:
    """What the algorithm learned. Raises Misbehaved, and Hung where another package's has not returned after `limit_s`."""
    learned = _called(predictor, "train", lambda: predictor.train(history), limit_s)
    if learned.ndim != 2 or len(learned) != len(history):
        raise Misbehaved(f"train gave an array of shape {learned.shape} for {len(history)} series; wanted a row for each")
    return learned


def forecast(
    predictor: Predictor, history: Floats, learned: Floats, *, steps: int, ready: Bools, limit_s: float = math.inf
) -> Floats:
    """The algorithm's forecast; finite for every series that is `ready`. Raises Misbehaved, and Hung as `train` does."""
    answer = _called(predictor, "forecast", lambda: predictor.forecast(history, learned, steps=steps), limit_s)
    if answer.shape != (len(history), steps):
        raise Misbehaved(f"forecast gave an array of shape {answer.shape}; wanted {(len(history), steps)}")
    wrong = int(np.count_nonzero(~np.isfinite(answer).all(axis=1) & ready))
    if wrong:
        raise Misbehaved(f"forecast gave NaN or infinity for {wrong} of {np.count_nonzero(ready)} series with enough values")
    return answer


def _called(predictor: Predictor, what: str, call: Callable[[], Floats], limit_s: float) -> Floats:
    """The answer as numbers. Ours return; anyone else's is called in a thread, which is left behind if it does not."""
    answered: list[Floats | Misbehaved] = []

    def answer() -> None:
        try:
            with np.errstate(all="ignore"):
                answered.append(np.asarray(call(), dtype=np.float64))
        except (Exception, SystemExit) as error:  # any package may raise anything; the reason goes into the manager's view
            answered.append(Misbehaved(f"{what} raised {type(error).__name__}: {error}"))

    if type(predictor).__module__.partition(".")[0] == "holdfast":
        answer()
    else:
        thread = threading.Thread(target=answer, name=f"{what} of {predictor.name}", daemon=True)
        thread.start()
        thread.join(min(limit_s, LONGEST_S))
    if not answered:
        raise Hung(f"{what} has not returned after {limit_s:.3g} s")
    if isinstance(answered[0], Misbehaved):
        raise answered[0]
    return answered[0]
