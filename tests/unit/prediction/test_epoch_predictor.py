"""An epoch predictor learns from exact epochs and predicts late ones."""

import pytest

from holdfast.errors import HoldfastError
from holdfast.prediction import EpochPredictor, PredictorSettings, classify_columns, make_predictor
from holdfast.prediction.predictor_document import predictor_view
from holdfast.prediction.predictors.last_outcome import LastOutcome

from .rack_stream import AMPLE_S, SCHEMA, Broken, new_predictor, observe, rows


def test_predicted_epoch_has_the_streams_schema_and_keys():
    prediction = observe(new_predictor(), range(30)).predict(30, AMPLE_S)
    assert prediction.rows.schema == SCHEMA
    assert prediction.rows["rack"].to_pylist() == ["a", "b"]
    assert prediction.rows["room"].to_pylist() == ["room of a", "room of b"]
    assert prediction.rows["note"].to_pylist() == [None, None]
    assert prediction.rows["epoch"].to_pylist() == [30, 30]
    assert prediction.rows["seq"].to_pylist() == [3000, 3001]
    assert prediction.rows["cpu"].to_pylist() == pytest.approx([40.0, 50.0], rel=0.01)
    assert prediction.rows["requests"].to_pylist() == pytest.approx([90, 90], abs=1)
    assert sum(prediction.used.values()) == 4
    assert (prediction.short, prediction.why) == (0, "")


def test_each_epoch_of_a_long_stall_is_one_step_further():
    predictor = observe(new_predictor([make_predictor("stride"), make_predictor("last-outcome")]), range(30))
    path = [predictor.predict(epoch, AMPLE_S).rows["cpu"].to_pylist()[0] for epoch in range(30, 36)]
    assert path == pytest.approx([40.0, 41.0, 42.0, 43.0, 44.0, 45.0])


def test_seqs_are_spread_over_the_known_range_of_the_input():
    prediction = observe(new_predictor(), range(20), racks="abcd").predict(20, AMPLE_S, seqs=(5000, 5100))
    assert prediction.rows["seq"].to_pylist() == [5025, 5050, 5075, 5100]


def test_without_time_the_last_outcome_is_predicted():
    predictor = observe(new_predictor(), range(30))
    prediction = predictor.predict(30, 0.0)
    assert set(prediction.used) == {"last-outcome"}
    assert prediction.rows["cpu"].to_pylist() == [39.0, 49.0]


def test_predictor_that_needs_more_than_the_time_left_is_not_called():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    clock = Clock()

    def slow(answer):
        clock.now += 2.0
        return answer + 1.0

    predictor = EpochPredictor(
        classify_columns(SCHEMA, ["rack"], blank=["note"]),
        [Broken(slow, name="slow"), LastOutcome()],
        settings=PredictorSettings(slow_s=100.0),
        clock=clock,
    )
    observe(predictor, range(30))
    assert predictor.predict(30, 10.0).used == {"slow": 4}
    before = clock.now
    assert predictor.predict(30, 1.0).used == {"last-outcome": 4}
    assert clock.now == before


def test_keys_with_too_little_history_repeat_their_last_outcome():
    prediction = observe(new_predictor(least_outputs=8), range(3)).predict(3, AMPLE_S)
    assert prediction.why == "2 of 2 keys have had fewer than 8 outputs; a prediction needs 8: they repeat their last outcome"
    assert prediction.rows["cpu"].to_pylist() == [12.0, 22.0]
    assert prediction.short == 2


def test_keys_with_too_little_history_are_left_out_on_request():
    predictor = observe(new_predictor(short="abstain"), range(3))
    prediction = predictor.predict(3, AMPLE_S)
    assert prediction.rows is None
    assert "they are left out" in prediction.why
    observe(predictor, range(3, 12), racks="abc")
    assert predictor.predict(12, AMPLE_S).rows["rack"].to_pylist() == ["a", "b", "c"]
    observe(predictor, [12], racks="abcd")
    assert predictor.predict(13, AMPLE_S).rows["rack"].to_pylist() == ["a", "b", "c"]


def test_abstains_before_any_output_is_observed():
    prediction = new_predictor().predict(0, AMPLE_S)
    assert prediction.rows is None
    assert prediction.why == "no output was observed yet; a prediction needs 8 per key"


def test_empty_epoch_is_observed_like_any_other():
    predictor = observe(new_predictor(), range(20))
    predictor.observe(20, SCHEMA.empty_table())
    assert predictor.predict(21, AMPLE_S).rows.num_rows == 2


def test_epochs_that_do_not_ascend_are_refused():
    predictor = observe(new_predictor(), range(3))
    with pytest.raises(HoldfastError, match="epoch 2 was observed after epoch 2; observe each epoch once, in ascending order"):
        predictor.observe(2, rows(2, ["a"]))
    with pytest.raises(HoldfastError, match="epoch 1 cannot be predicted: epoch 2 was observed; predict a later one"):
        predictor.predict(1, AMPLE_S)
    with pytest.raises(HoldfastError, match="rows to learn from lack cpu; they have: seq"):
        predictor.observe(3, rows(3, ["a"]).drop_columns(["cpu"]))


def test_missing_epochs_judge_no_predictor():
    predictor = observe(new_predictor([LastOutcome()]), range(10))
    before = predictor_view(predictor)()["algorithms"][0]["next"]["cpu"]["outcomes"]
    observe(predictor, [15])
    assert predictor_view(predictor)()["algorithms"][0]["next"]["cpu"]["outcomes"] == before
    assert predictor.predict(16, AMPLE_S).rows.num_rows == 2


def test_predictors_that_stay_keep_their_accuracy():
    predictor = observe(new_predictor([make_predictor("last-outcome"), make_predictor("stride")]), range(20))
    predictor.use_predictors([make_predictor("autoregressive"), make_predictor("stride")])
    document = {a["name"]: a for a in predictor_view(predictor)()["algorithms"]}
    assert document["autoregressive"]["next"]["cpu"] is None
    assert document["stride"]["next"]["cpu"]["outcomes"] > 10
    observe(predictor, range(20, 40))
    assert set(predictor.predict(40, AMPLE_S).used) <= {"autoregressive", "stride"}
    with pytest.raises(HoldfastError, match="expected at least one predictor, each once, got: stride, stride"):
        predictor.use_predictors([make_predictor("stride"), make_predictor("stride")])
