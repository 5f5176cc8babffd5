"""Calls into algorithms that may be anyone's: whatever they do wrong becomes a reason, never the caller's error."""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Callable

import numpy as np

from holdfast.prediction.predictors.predictor import Bools, Floats, Predictor

LOOK_S = 0.05
AWAKE_S = 0.25
"""The most that one look at a call counts: where looks are further apart we were stopped ourselves, and the algorithm with us."""


class Misbehaved(Exception):
    """An algorithm raised, or gave something that is no prediction. The text says what."""


class Hung(Misbehaved):
    """An algorithm has not returned. Where it hangs, it may hang for ever."""


class Caller:
    """Calls one algorithm. Raises Misbehaved, and Hung where another package's has not returned after `limit_s`.

    `took_s` are the seconds that its calls took it: of CPU, and where it may do anything, such as sleep, those that it was waited
    for. Seconds in which this process was stopped, or got no CPU, are not the algorithm's.
    """

    def __init__(self, predictor: Predictor, *, limit_s: float = math.inf) -> None:
        self._predictor, self._limit_s = predictor, limit_s
        self._ours = type(predictor).__module__.partition(".")[0] == "holdfast"
        self.took_s = 0.0

    def train(self, history: Floats) -> Floats:
        """What the algorithm learned."""
        given = self._own(history)
        learned = self._called("train", lambda: self._predictor.train(given))
        if learned.ndim != 2 or len(learned) != len(history):
            raise Misbehaved(f"train gave an array of shape {learned.shape} for {len(history)} series; wanted a row for each")
        return learned

    def forecast(self, history: Floats, learned: Floats, *, steps: int, ready: Bools) -> Floats:
        """The algorithm's forecast; finite for every series that is `ready`."""
        given, known = self._own(history), self._own(learned)
        answer = self._called("forecast", lambda: self._predictor.forecast(given, known, steps=steps))
        if answer.shape != (len(history), steps):
            raise Misbehaved(f"forecast gave an array of shape {answer.shape}; wanted {(len(history), steps)}")
        wrong = int(np.count_nonzero(~np.isfinite(answer).all(axis=1) & ready))
        if wrong:
            raise Misbehaved(f"forecast gave NaN or infinity for {wrong} of {np.count_nonzero(ready)} series with enough values")
        return answer

    def _own(self, numbers: Floats) -> Floats:
        """The numbers for the algorithm to see; anyone else's may write to what it is given."""
        return numbers if self._ours else numbers.copy()

    def _called(self, what: str, call: Callable[[], Floats]) -> Floats:
        """The answer as numbers. Ours return; anyone else's is called in a thread, which is told to end if it does not."""
        answered: list[tuple[Floats | Misbehaved, float]] = []

        def answer() -> None:
            began_s = time.thread_time()
            found = _numbers(what, call, caught=Exception if self._ours else BaseException)
            answered.append((found, time.thread_time() - began_s))

        waited_s = 0.0
        if self._ours:
            answer()
        else:
            waited_s = _in_thread(answer, name=f"{what} of {self._predictor.name}", limit_s=self._limit_s)
        if not answered:
            raise Hung(f"{what} has not returned after {self._limit_s:.3g} s")
        ((found, computed_s),) = answered
        self.took_s += max(computed_s, waited_s)
        if isinstance(found, Misbehaved):
            raise found
        return found


class _Abandoned(BaseException):
    """Raised inside an algorithm that is waited for no longer."""


def _numbers(what: str, call: Callable[[], Floats], *, caught: type[BaseException]) -> Floats | Misbehaved:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(call(), dtype=np.float64)
    except caught as error:  # any package may raise anything; the reason goes into the manager's view
        return Misbehaved(f"{what} raised {type(error).__name__}: {error}")


def _in_thread(call: Callable[[], None], *, name: str, limit_s: float) -> float:
    """Call in a thread of its own; how long it was waited for. One that goes on after `limit_s` is told to end: it would take CPU
    from the PEs for good. Where it waits for something it hears of that when the wait is over."""

    def run() -> None:
        with contextlib.suppress(_Abandoned):
            call()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    waited_s = _await(thread, limit_s)
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Abandoned))
    return waited_s


def _await(thread: threading.Thread, limit_s: float) -> float:
    """Wait for a thread; how long that was, less the seconds in which we were stopped ourselves."""
    waited_s, looked_s = 0.0, time.monotonic()
    while thread.is_alive() and waited_s < limit_s:
        thread.join(min(LOOK_S, limit_s - waited_s))
        pause_s, looked_s = time.monotonic() - looked_s, time.monotonic()
        waited_s += min(pause_s, AWAKE_S)
    return waited_s
