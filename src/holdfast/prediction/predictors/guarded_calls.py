"""Calls a predictor, possibly of another package, so that none of its errors reach the caller."""

from __future__ import annotations

import contextlib
import ctypes
import math
import threading
import time
from collections.abc import Callable

import numpy as np

from holdfast.prediction.predictors.predictor import Bools, Floats, Predictor, is_ours

POLL_S = 0.05
LONGEST_POLL_S = 0.25
"""The longest time that one poll counts. Between polls that are further apart, this process and the predictor were stopped."""


class PredictorError(Exception):
    """A predictor raised, or returned something that is not a prediction."""


class PredictorHung(PredictorError):
    """A predictor has not returned, and may never return."""


class GuardedPredictor:
    """Calls one predictor. Raises PredictorError, and PredictorHung if that of another package has not returned after `limit_s`.

    `took_s` is the time its calls took: CPU seconds and, for a predictor of another package, also those it spent waiting. Time in
    which this process was stopped does not count.
    """

    def __init__(self, predictor: Predictor, *, limit_s: float = math.inf) -> None:
        self._predictor, self._limit_s = predictor, limit_s
        self._ours = is_ours(type(predictor))
        self.took_s = 0.0

    def train(self, history: Floats) -> Floats:
        """Return the trained models, one row per series."""
        argument = self._argument(history)
        model = self._call("train", lambda: self._predictor.train(argument))
        if model.ndim != 2 or len(model) != len(history):
            raise PredictorError(
                f"train returned an array of shape {model.shape}; expected one row per series, {len(history)} in all"
            )
        return model

    def forecast(self, history: Floats, model: Floats, *, steps: int, ready: Bools) -> Floats:
        """Return the predictor's forecast, which is finite for every series that is `ready`."""
        history_argument, model_argument = self._argument(history), self._argument(model)
        answer = self._call("forecast", lambda: self._predictor.forecast(history_argument, model_argument, steps=steps))
        if answer.shape != (len(history), steps):
            raise PredictorError(f"forecast returned an array of shape {answer.shape}; expected {(len(history), steps)}")
        invalid = int(np.count_nonzero(~np.isfinite(answer).all(axis=1) & ready))
        if invalid:
            raise PredictorError(f"forecast returned NaN or infinity for {invalid} of {ready.sum()} series with enough values")
        return answer

    def _argument(self, numbers: Floats) -> Floats:
        """Return the numbers, or a copy for a predictor of another package, which may write to its arguments."""
        return numbers if self._ours else numbers.copy()

    def _call(self, method: str, call: Callable[[], Floats]) -> Floats:
        """Return the result of a call. A predictor of another package is called in a thread, which is ended after the limit."""
        results: list[tuple[Floats | PredictorError, float]] = []

        def run() -> None:
            began_s = time.thread_time()
            result = _result_or_error(method, call, caught=Exception if self._ours else BaseException)
            results.append((result, time.thread_time() - began_s))

        waited_s = 0.0
        if self._ours:
            run()
        else:
            waited_s = _run_in_thread(run, name=f"{method} of {self._predictor.name}", limit_s=self._limit_s)
        if not results:
            raise PredictorHung(f"{method} has not returned after {self._limit_s:.3g} s")
        ((result, computed_s),) = results
        self.took_s += max(computed_s, waited_s)
        if isinstance(result, PredictorError):
            raise result
        return result


class _Abandoned(BaseException):
    """Raised inside a predictor that has exceeded its limit."""


def _result_or_error(method: str, call: Callable[[], Floats], *, caught: type[BaseException]) -> Floats | PredictorError:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(call(), dtype=np.float64)
    except caught as error:  # a predictor may raise anything; the agent manager shows the reason
        return PredictorError(f"{method} raised {type(error).__name__}: {error}")


def _run_in_thread(call: Callable[[], None], *, name: str, limit_s: float) -> float:
    """Call in a new thread and return how long the caller waited.

    A thread that runs after `limit_s` gets an exception, because it would take CPU from the PEs forever. A thread that is blocked
    gets it when it runs again.
    """

    def run() -> None:
        with contextlib.suppress(_Abandoned):
            call()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    waited_s = _join(thread, limit_s)
    if thread.is_alive() and thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Abandoned))
    return waited_s


def _join(thread: threading.Thread, limit_s: float) -> float:
    """Wait for a thread and return how long, without the time in which this process was stopped."""
    waited_s, polled_s = 0.0, time.monotonic()
    while thread.is_alive() and waited_s < limit_s:
        thread.join(min(POLL_S, limit_s - waited_s))
        pause_s, polled_s = time.monotonic() - polled_s, time.monotonic()
        waited_s += min(pause_s, LONGEST_POLL_S)
    return waited_s
