"""Predictors are ranked by their recent accuracy on each series."""

import numpy as np
import pyarrow as pa
import pytest

from holdfast.prediction import EpochPredictor, classify_columns, make_predictor
from holdfast.prediction.predictor_document import predictor_view
from holdfast.prediction.predictors.last_outcome import LastOutcome

from ..rack_stream import AMPLE_S, new_predictor, observe

KEYS, STEPS = 20, 7


def test_steps_of_one_path_count_less_than_single_predictions():
    next_rank, later_rank = EpochPredictor(classify_columns(pa.schema({"key": pa.string(), "x": pa.float64()}), ["key"])).ranks
    for rank in (next_rank, later_rank):
        rank.make_room(KEYS)
        paths = np.full((rank.outcomes.shape[2], KEYS, 1, STEPS), np.nan)
        paths[0], paths[1] = 9.0, 1.0  # the first is right about key 0 alone, the second about all others
        paths[0, 0], paths[1, 0] = 1.0, 9.0
        for _ in range(4):
            steps = np.zeros(KEYS, dtype=np.int64)
            for _ in range(STEPS):
                rank.score(paths, steps, slots=np.arange(KEYS), truth=np.ones((KEYS, 1)))
    best = [int(np.argmax(rank.accuracies()[0, 0, :2])) for rank in (next_rank, later_rank)]
    assert best == [0, 1]


def test_smaller_error_wins_among_predictors_within_the_tolerance():
    predictor = observe(new_predictor([make_predictor("last-outcome"), make_predictor("stride")], tolerance=0.2), range(30))
    assert predictor.predict(30, AMPLE_S).used == {"stride": 4}


def test_each_key_gets_its_own_best_predictor():
    predictor = new_predictor([make_predictor("last-outcome"), make_predictor("stride")])
    rng = np.random.default_rng(1)
    for epoch in range(60):
        observe(predictor, [epoch], cpu=[10.0 * 1.2 ** (epoch % 20) if epoch % 20 else 10.0, 50 + rng.choice([-2.4, 2.4])])
    within = {a["name"]: a["next"]["cpu"]["within"] for a in predictor_view(predictor)()["algorithms"]}
    used = predictor.predict(60, AMPLE_S).used
    assert set(used) == {"last-outcome", "stride"}
    assert 0 < within["last-outcome"] < 1


def test_unjudged_predictor_ranks_behind_judged_ones():
    predictor = observe(new_predictor([make_predictor("last-outcome"), make_predictor("stride")]), range(20))
    predictor.use_predictors([make_predictor("long-stride")])
    assert set(predictor.predict(20, AMPLE_S).used) == {"last-outcome"}  # it is not trained yet
    predictor.train()
    assert set(predictor.predict(20, AMPLE_S).used) == {"long-stride"}
    observe(predictor, range(20, 40))
    predictor.use_predictors([make_predictor("long-stride"), make_predictor("stride"), make_predictor("last-outcome")])
    predictor.train()
    assert set(predictor.predict(40, AMPLE_S).used) == {"long-stride"}


def test_last_outcome_ranks_first_among_unjudged_predictors():
    predictor = observe(new_predictor([make_predictor("stride")]), range(20))
    predictor.use_predictors([make_predictor("long-stride"), make_predictor("autoregressive"), make_predictor("last-outcome")])
    predictor.train()
    assert set(predictor.predict(20, AMPLE_S).used) == {"last-outcome"}


def test_rank_weighs_recent_errors_more():
    predictor = new_predictor([LastOutcome()], tolerance=0.5)
    for epoch, value in enumerate([10.0, 11.0, 22.0, 20.0]):
        observe(predictor, [epoch], racks="a", cpu=[value], requests=[1])
    accuracy = predictor_view(predictor)()["algorithms"][0]["next"]["cpu"]
    keep = 1 - 1 / 50
    weights = np.array([keep**2, keep, 1.0])
    errors = np.array([1.0, 11.0, 2.0])
    assert accuracy["mae"] == pytest.approx((weights * errors).sum() / weights.sum())
    assert accuracy["mse"] == pytest.approx((weights * errors**2).sum() / weights.sum())
    assert accuracy["rmse"] == pytest.approx(accuracy["mse"] ** 0.5)
    assert accuracy["within"] == pytest.approx(1.0)


@pytest.mark.parametrize("measure", ["within", "mae", "rmse", "mse"])
def test_every_measure_prefers_the_right_predictor(measure):
    predictor = observe(
        new_predictor([make_predictor("last-outcome"), make_predictor("stride")], measure=measure, tolerance=0.01), range(30)
    )
    assert predictor.predict(30, AMPLE_S).used["stride"] == 4


@pytest.mark.parametrize("measure", ["mae", "rmse", "mse"])
def test_key_that_is_always_zero_does_not_decide_for_others(measure):
    predictor = new_predictor(
        [make_predictor("last-outcome"), make_predictor("exponential-smoothing"), make_predictor("stride")], measure=measure
    )
    for epoch in range(40):
        observe(predictor, [epoch], cpu=[0.0, 100.0 + 5 * epoch], requests=[0, 5 * epoch])
    prediction = predictor.predict(40, AMPLE_S)
    assert prediction.rows["cpu"].to_pylist() == pytest.approx([0.0, 300.0])
    assert prediction.used["stride"] >= 2
    assert np.isfinite(predictor.ranks[0].accuracies()).all()


@pytest.mark.parametrize("measure", ["mae", "rmse", "mse"])
def test_large_keys_do_not_decide_for_a_small_one(measure):
    predictor = new_predictor([make_predictor("last-outcome"), make_predictor("stride")], measure=measure)
    for epoch in range(60):
        saw = 1e6 * (1 + 0.01 * (epoch % 3))  # rises twice and falls, which stride predicts worse than the last outcome
        observe(predictor, [epoch], racks="abcd", cpu=[1.0 + 2 * epoch, saw, saw, saw], requests=[1] * 4)
    assert predictor.predict(60, AMPLE_S).rows["cpu"].to_pylist()[0] == 121.0
