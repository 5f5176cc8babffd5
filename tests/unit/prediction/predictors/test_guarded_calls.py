"""Predictors that raise, hang, take too long or write to their arguments do no harm."""

import re
import threading
import time

import numpy as np
import pytest

from holdfast.prediction import EpochPredictor, PredictorSettings, classify_columns, make_predictor
from holdfast.prediction.predictor_document import predictor_view
from holdfast.prediction.predictors import guarded_calls
from holdfast.prediction.predictors.last_outcome import LastOutcome

from ..rack_stream import AMPLE_S, SCHEMA, Broken, new_predictor, observe, raising, rows


def exiting(answer):
    raise SystemExit(3)


def interrupting(answer):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (raising, "forecast raised ValueError: no idea"),
        (lambda answer: answer * np.nan, "forecast returned NaN or infinity for 1 of 1 series with enough values"),
        (lambda answer: answer[:, :0], r"forecast returned an array of shape \(1, 0\); expected \(1, 1\)"),
        (exiting, "forecast raised SystemExit: 3"),
        (interrupting, "forecast raised KeyboardInterrupt"),
        (lambda answer: "tomorrow", "forecast raised ValueError: could not convert string to float: 'tomorrow'"),
    ],
)
def test_misbehaving_predictor_is_excluded(how, reason):
    broken = Broken(how)
    predictor = observe(new_predictor([broken, LastOutcome()], penalty=5), range(20))
    prediction = predictor.predict(20, AMPLE_S)
    assert prediction.used == {"last-outcome": 4}
    document = next(a for a in predictor_view(predictor)()["algorithms"] if a["name"] == "broken")
    assert document["out"]
    assert document["next"]["cpu"] is None
    assert re.search(reason, document["reason"])
    assert broken.calls <= 3  # excluded for 5 epochs, then for 10


def test_last_outcome_replaces_a_predictor_that_fails_while_predicting():
    predictor = new_predictor([Broken(raising, after=2 * 20 + 6), make_predictor("last-outcome")])
    observe(predictor, range(20))
    broken = predictor.states[0].predictor
    broken.after = broken.calls
    predictor._next_rank._sums[:, :, 0, 1] = predictor._next_rank._sums[:, :, 0, 0]  # make it the best so far
    predictor._next_rank._sums[:, :, 1, 1] = 0.0
    prediction = predictor.predict(20, AMPLE_S)
    assert prediction.used == {"last-outcome": 4}
    assert prediction.rows["cpu"].to_pylist() == [29.0, 39.0]
    assert predictor.states[0].reason == "forecast raised ValueError: no idea"


@pytest.fixture
def hanging():
    """Yield a function that does not return before the test ends."""
    over = threading.Event()
    yield lambda answer: answer if over.wait(60) else None
    over.set()


def test_predictor_that_hangs_in_training_is_never_called_again(hanging):
    predictor = new_predictor([Broken(hanging), LastOutcome()], slow_s=0.02, penalty=1)
    observe(predictor, range(20))
    assert predictor.states[0].predictor.calls == 1
    document = predictor_view(predictor)()["algorithms"][0]
    assert (document["out"], document["epochs_out"], document["reason"]) == (True, None, "forecast has not returned after 0.2 s")
    assert predictor.predict(20, AMPLE_S).rows["cpu"].to_pylist() == [29.0, 39.0]


def test_predictor_that_exceeds_a_short_limit_is_tried_again(hanging):
    predictor = new_predictor([Broken(hanging), LastOutcome()], penalty=2)
    for epoch in range(4):
        predictor.observe(epoch, rows(epoch, ["a", "b"]))
        predictor.train(limit_s=0.05)
    assert predictor.states[0].predictor.calls == 2
    assert predictor_view(predictor)()["algorithms"][0]["epochs_out"] == 3


def test_hanging_predictor_is_waited_for_until_the_deadline(hanging):
    columns = classify_columns(SCHEMA, ["rack"], blank=["note"])
    costs_nothing = EpochPredictor(
        columns, [Broken(hanging, after=10**6)], settings=PredictorSettings(slow_s=60.0), clock=lambda: 0.0
    )
    predictor = observe(costs_nothing, range(20))
    broken = predictor.states[0].predictor
    broken.after = broken.calls
    prediction = predictor.predict(20, 0.5)
    assert prediction.used == {"last-outcome": 4}
    assert prediction.rows["cpu"].to_pylist() == [29.0, 39.0]
    assert predictor.states[0].reason == "forecast has not returned after 0.5 s"


def spinning(answer):
    while True:
        pass


def test_thread_of_an_endless_predictor_is_ended():
    predictor = observe(new_predictor([Broken(spinning, name="spinner")], slow_s=0.02), range(1))
    assert predictor.states[0].reason == "forecast has not returned after 0.2 s"
    for thread in threading.enumerate():
        if thread.name == "forecast of spinner":
            thread.join(60)
            assert not thread.is_alive()


class Scribbler(Broken):
    """A predictor that writes to its arguments."""

    def forecast(self, history, model, *, steps):
        history[:] = -1e9
        return super().forecast(history, model, steps=steps)


def test_predictor_cannot_change_the_arguments_of_others():
    predictor = observe(new_predictor([Scribbler(lambda answer: answer, name="scribbler"), make_predictor("stride")]), range(20))
    assert predictor_view(predictor)()["algorithms"][1]["next"]["cpu"]["within"] > 0.9
    assert predictor.predict(20, AMPLE_S).rows["cpu"].to_pylist() == pytest.approx([30.0, 40.0])


def sleeping(answer):
    time.sleep(0.06)
    return answer


class Burning(LastOutcome):
    """A predictor that seems to belong to holdfast and computes for long."""

    __module__ = "holdfast.prediction.burning"

    def forecast(self, history, model, *, steps):
        ends_s = time.thread_time() + 0.1
        while time.thread_time() < ends_s:
            pass
        return super().forecast(history, model, steps=steps)


@pytest.mark.parametrize("slow", [Burning(), Broken(sleeping, name="last-outcome")])
def test_predictor_that_computes_or_sleeps_too_long_is_excluded(slow):
    predictor = new_predictor([slow], slow_s=0.2)
    observe(predictor, range(3))
    assert "at most 0.2 s per round are allowed" in predictor.states[0].reason
    assert predictor.predict(3, AMPLE_S).used == {"last-outcome": 4}


class StoppedThread:
    """A thread that ends after so many polls, and a clock by which this process is stopped for a while at the first poll."""

    def __init__(self, polls, *, stopped_s):
        self.polls, self.stopped_s, self.now_s = polls, stopped_s, 0.0

    def is_alive(self):
        return self.polls > 0

    def join(self, timeout):
        self.now_s += timeout + self.stopped_s
        self.polls, self.stopped_s = self.polls - 1, 0.0

    def monotonic(self):
        return self.now_s


@pytest.mark.parametrize(("polls", "waited_s", "ended"), [(4, 0.4, True), (100, 0.8, False)])
def test_stop_of_this_process_does_not_count_as_waiting(monkeypatch, polls, waited_s, ended):
    thread = StoppedThread(polls, stopped_s=30.0)
    monkeypatch.setattr(guarded_calls, "time", thread)
    assert guarded_calls._join(thread, 0.8) == pytest.approx(waited_s)
    assert (not thread.is_alive()) is ended
