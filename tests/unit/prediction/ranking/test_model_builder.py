"""Training rounds: costs, faults and results that come late."""

import threading

import pytest

from holdfast.prediction import EpochPredictor, classify_columns, make_predictor
from holdfast.prediction.predictor_document import predictor_view
from holdfast.prediction.predictors.last_outcome import LastOutcome

from ..rack_stream import AMPLE_S, SCHEMA, Broken, new_predictor, observe, raising, rows


class JumpingClock:
    """A clock that stands still, except that it jumps by half a minute at one reading."""

    now_s, until = 0.0, 0

    def __call__(self):
        self.until -= 1
        self.now_s += 30.0 if self.until == 0 else 0.0
        return self.now_s


@pytest.mark.parametrize("reading", [3, 4, 5, 6])
def test_stopped_time_does_not_count_as_predictor_cost(reading):
    clock = JumpingClock()
    predictor = EpochPredictor(classify_columns(SCHEMA, ["rack"], blank=["note"]), [make_predictor("stride")], clock=clock)
    observe(predictor, range(20))
    predictor.observe(20, rows(20, ["a", "b"]))
    clock.until = reading
    predictor.train()
    assert clock.now_s == 30.0
    assert (predictor.states[0].faults, predictor.states[0].reason) == (0, "")
    assert predictor.predict(21, 1.0).used == {"stride": 4}


def test_faults_are_forgotten_after_enough_rounds_without_fault():
    broken = Broken(raising)
    predictor = new_predictor([broken, LastOutcome()], penalty=2)
    observe(predictor, range(4))
    assert predictor.states[0].faults == 2  # excluded for 2 epochs, then for 4
    broken.after = 10**9
    observe(predictor, range(4, 20))
    assert predictor.states[0].faults == 2
    observe(predictor, range(20, 40))
    assert (predictor.states[0].faults, predictor.states[0].reason) == (0, "")
    broken.after = 0
    observe(predictor, range(40, 42))
    assert (predictor.states[0].faults, predictor_view(predictor)()["algorithms"][0]["epochs_out"]) == (1, 1)


def test_training_in_another_thread_gives_the_same_result():
    columns = classify_columns(SCHEMA, ["rack"])
    # With equal accuracy the faster predictor wins, so no time may pass.
    same_thread, other_thread = (EpochPredictor(columns, clock=lambda: 0.0) for _ in range(2))
    for epoch in range(30):
        for predictor in (same_thread, other_thread):
            predictor.observe(epoch, rows(epoch, ["a", "b"]))
        same_thread.train()
        training, results = other_thread.training_round(), []
        thread = threading.Thread(target=lambda training=training, results=results: results.append(training.run()))
        thread.start()
        thread.join(30)
        other_thread.accept(results[0])
    assert same_thread.predict(30, AMPLE_S).rows == other_thread.predict(30, AMPLE_S).rows
    training = other_thread.training_round()
    other_thread.use_predictors([LastOutcome()])
    other_thread.accept(training.run())
    assert [state.name for state in other_thread.states] == ["last-outcome"]


def test_late_training_result_is_judged_on_later_epochs():
    predictor = observe(new_predictor([LastOutcome()]), range(10))
    training = predictor.training_round()
    predictor.observe(10, rows(10, ["a", "b"]))
    later = predictor_view(predictor)()["algorithms"][0]["later"]["cpu"]
    predictor.accept(training.run())
    outcomes = predictor_view(predictor)()["algorithms"][0]["next"]["cpu"]["outcomes"]
    predictor.observe(11, rows(11, ["a", "b"]))
    document = predictor_view(predictor)()["algorithms"][0]
    assert document["next"]["cpu"]["outcomes"] == outcomes  # two epochs later, the result counts for later epochs
    assert document["later"]["cpu"]["mae"] > 1.0
    assert later is None or later["outcomes"] < document["later"]["cpu"]["outcomes"]
