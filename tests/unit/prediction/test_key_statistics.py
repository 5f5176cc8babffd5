"""Which rows are expected, for keys that come, go and return."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.prediction import make_predictor
from holdfast.prediction.predictor_document import predictor_view

from .rack_stream import AMPLE_S, SCHEMA, new_predictor, observe, rows


def test_ended_key_is_not_predicted_and_new_key_is():
    predictor = observe(new_predictor(), range(20), racks="ab")
    observe(predictor, range(20, 26), racks="bc")
    assert predictor.predict(26, AMPLE_S).rows["rack"].to_pylist() == ["b", "c"]


@pytest.mark.parametrize("epochs_away", [6, 12, 14, 30])
def test_returned_key_is_expected_and_keeps_its_history(epochs_away):
    predictor = observe(new_predictor(forget_after=50), range(20), racks="ab")
    observe(predictor, range(20, 20 + epochs_away), racks="a")
    for ahead in range(8):
        assert predictor.predict(20 + epochs_away + ahead, AMPLE_S).rows["rack"].to_pylist() == ["a"]
    observe(predictor, [20 + epochs_away], racks="ab")
    prediction = predictor.predict(21 + epochs_away, AMPLE_S)
    assert prediction.rows["rack"].to_pylist() == ["a", "b"]
    assert prediction.short == 0


def test_rare_key_is_not_expected_in_the_next_epoch():
    predictor = new_predictor()
    for epoch in range(62):
        observe(predictor, [epoch], racks="a" if epoch % 20 else "ab")
    assert predictor.predict(62, AMPLE_S).rows["rack"].to_pylist() == ["a"]


def test_key_that_missed_one_epoch_is_still_expected():
    predictor = observe(new_predictor(), range(20), racks="ab")
    observe(predictor, [20], racks="a")
    assert predictor.predict(21, AMPLE_S).rows["rack"].to_pylist() == ["a", "b"]


def test_key_with_several_rows_per_epoch_gets_as_many():
    predictor = observe(new_predictor([make_predictor("stride")]), range(20), racks="aab", cpu=[1.0, 2.0, 9.0])
    prediction = predictor.predict(20, AMPLE_S).rows
    assert sorted(prediction["rack"].to_pylist()) == ["a", "a", "b"]


def test_key_of_every_second_epoch_is_predicted_every_second_epoch():
    predictor = new_predictor()
    for epoch in range(40):
        predictor.observe(epoch, rows(epoch, ["a"] if epoch % 2 else ["a", "b"]))
    present = ["b" in predictor.predict(epoch, AMPLE_S).rows["rack"].to_pylist() for epoch in range(40, 48)]
    assert sum(present) == 4


def test_memory_is_bounded_in_keys_and_in_depth():
    predictor = new_predictor([make_predictor("last-outcome"), make_predictor("autoregressive")], most_keys=10, depth=20)
    for epoch in range(40):
        observe(predictor, [epoch], racks=[f"r{epoch}-{n}" for n in range(5)])
    assert predictor.keys == 10
    assert predictor._cache.history.shape == (20, 20)
    assert len(predictor.states[1].model) <= 20


def test_forgetting_a_key_keeps_the_statistics_of_the_others():
    predictor = observe(new_predictor(forget_after=5), range(30), racks="ab")
    observe(predictor, range(30, 37), racks="b", cpu=[4.0])
    assert predictor.keys == 1
    prediction = predictor.predict(37, AMPLE_S)
    assert prediction.rows["rack"].to_pylist() == ["b"]
    assert prediction.rows["cpu"].to_pylist() == pytest.approx([4.0], rel=0.05)
    assert predictor_view(predictor)()["algorithms"][0]["next"]["cpu"]["outcomes"] > 20


@settings(max_examples=15)
@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=8), min_size=2, max_size=25), st.integers(1, 12))
def test_prediction_is_valid_whatever_keys_come_and_go(epochs, ahead):
    predictor = new_predictor(most_keys=4, forget_after=6)
    for epoch, racks in enumerate(epochs):
        observe(predictor, [epoch], racks=racks)
    prediction = predictor.predict(len(epochs) - 1 + ahead, AMPLE_S)
    if prediction.rows is None:
        return
    assert prediction.rows.schema == SCHEMA
    assert set(prediction.rows["rack"].to_pylist()) <= {rack for racks in epochs for rack in racks}
    assert np.isfinite(prediction.rows["cpu"].to_numpy()).all()
    seq = prediction.rows["seq"].to_numpy()
    assert (np.diff(seq) >= 0).all()
    prediction.rows.validate(full=True)
