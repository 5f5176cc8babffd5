"""Calls into algorithms that may be anyone's: whatever they do wrong becomes a reason, never the caller's problem."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from holdfast.predict.predictor import Bools, Floats, Predictor


class Misbehaved(Exception):
    """An algorithm raised, or gave something that is no prediction. The text says what."""


def train(predictor: Predictor, history: Floats) -> Floats:
    """What the algorithm learned. Raises Misbehaved."""
    learned = _called("train", lambda: predictor.train(history))
    if learned.ndim != 2 or len(learned) != len(history):
        raise Misbehaved(f"train gave an array of shape {learned.shape} for {len(history)} series; wanted a row for each")
    return learned


def forecast(predictor: Predictor, history: Floats, learned: Floats, *, steps: int, ready: Bools) -> Floats:
    """The algorithm's forecast; finite for every series that is `ready`. Raises Misbehaved."""
    answer = _called("forecast", lambda: predictor.forecast(history, learned, steps=steps))
    if answer.shape != (len(history), steps):
        raise Misbehaved(f"forecast gave an array of shape {answer.shape}; wanted {(len(history), steps)}")
    wrong = int(np.count_nonzero(~np.isfinite(answer).all(axis=1) & ready))
    if wrong:
        raise Misbehaved(f"forecast gave NaN or infinity for {wrong} of {np.count_nonzero(ready)} series with enough values")
    return answer


def _called(what: str, call: Callable[[], Floats]) -> Floats:
    """The answer as numbers."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(call(), dtype=np.float64)
    except Exception as error:  # an algorithm of any package may raise anything; the reason goes into the manager's view
        raise Misbehaved(f"{what} raised {type(error).__name__}: {error}") from error
