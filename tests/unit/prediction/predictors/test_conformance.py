"""The requirements on every predictor, tested on all that are installed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from holdfast.errors import HoldfastError
from holdfast.prediction import installed_predictors, make_predictor
from holdfast.prediction.predictors.predictor import LARGEST, is_selective

DEPTH = 30
every_predictor = pytest.mark.parametrize(
    "predictor", [make_predictor(name) for name in installed_predictors()], ids=lambda p: p.name
)


def padded(*series):
    """Return series of different lengths, right-aligned."""
    rows = np.full((len(series), DEPTH), np.nan)
    for row, values in zip(rows, series, strict=True):
        if len(values):
            row[-len(values) :] = values
    return rows


def expects_values(predictor, history, series):
    """Return which series the predictor must predict."""
    enough = np.array([len(values) >= predictor.least for values in series])
    return enough & predictor.predictable(history) if is_selective(predictor) else enough


def predicted(predictor, history, steps=3):
    return predictor.forecast(history, predictor.train(history), steps=steps)


values = st.floats(-1e6, 1e6, allow_nan=False, width=32)
extremes = st.one_of(values, st.floats(-LARGEST, LARGEST), st.sampled_from([0.0, LARGEST, -LARGEST, 5e-324, 1e-300, 2.0**63]))
histories = st.lists(hnp.arrays(np.float64, st.integers(0, DEPTH), elements=values), min_size=1, max_size=4)


@every_predictor
@settings(max_examples=30)
@given(series=histories, steps=st.integers(1, 12))
def test_predicts_exactly_the_series_that_it_can(predictor, series, steps):
    history = padded(*series)
    answer = predicted(predictor, history, steps)
    assert answer.shape == (len(series), steps)
    expected = expects_values(predictor, history, series)
    assert np.isfinite(answer[expected]).all()
    assert np.isnan(answer[~expected]).all()


@every_predictor
@settings(max_examples=60)
@given(series=st.lists(hnp.arrays(np.float64, st.integers(1, DEPTH), elements=extremes), min_size=1, max_size=4))
def test_predicts_very_large_and_very_small_numbers(predictor, series):
    history = padded(*series)
    assert np.isfinite(predicted(predictor, history)[expects_values(predictor, history, series)]).all()


@every_predictor
@settings(max_examples=20)
@given(series=histories)
def test_prediction_of_a_series_depends_on_no_other(predictor, series):
    together = predicted(predictor, padded(*series))
    alone = np.concatenate([predicted(predictor, padded(values)) for values in series])
    np.testing.assert_array_equal(together, alone)


@every_predictor
@settings(max_examples=20)
@given(series=histories)
def test_arguments_are_unchanged_and_results_repeatable(predictor, series):
    history = padded(*series)
    before = history.copy()
    model = predictor.train(history)
    model_before = model.copy()
    first, second = (predictor.forecast(history, model, steps=4) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(history, before)
    np.testing.assert_array_equal(model, model_before)


@every_predictor
@settings(max_examples=20)
@given(series=histories, steps=st.integers(2, 8))
def test_first_step_does_not_depend_on_the_number_of_steps(predictor, series, steps):
    history = padded(*series)
    np.testing.assert_array_equal(predicted(predictor, history, steps)[:, :1], predicted(predictor, history, 1))


@every_predictor
@pytest.mark.parametrize("value", [0.0, 7.25, -3.0, 1e12])
def test_constant_series_stays_constant(predictor, value):
    np.testing.assert_allclose(predicted(predictor, padded([value] * 20)), value, rtol=1e-9)


@every_predictor
def test_no_series_give_an_empty_result(predictor):
    history = np.empty((0, DEPTH))
    assert predicted(predictor, history).shape == (0, 3)


@every_predictor
def test_model_may_be_older_than_the_history(predictor):
    rng = np.random.default_rng(5)
    walk = 50 + np.cumsum(rng.normal(size=(3, DEPTH + 8)), axis=1)
    walk[:, -6:] = walk[:, -6:-5] + np.arange(6)  # ends in a steady state
    model = predictor.train(np.ascontiguousarray(walk[:, :DEPTH]))
    answer = predictor.forecast(np.ascontiguousarray(walk[:, 8:]), model, steps=2)
    assert np.isfinite(answer).all()
    assert np.abs(answer[:, 0] - walk[:, -1]).max() < 15


@every_predictor
def test_nan_model_predicts_nothing(predictor):
    history = padded(np.arange(20.0))
    model = np.full_like(predictor.train(history), np.nan)
    answer = predictor.forecast(history, model, steps=1)
    assert np.isnan(answer).all() or model.shape[1] == 0


@every_predictor
def test_name_is_the_installed_name(predictor):
    assert make_predictor(predictor.name).name == predictor.name


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("stride", {"span": 0}, "predictor 'stride'|predictor 'long-stride': span must be a whole number of at least 1, got 0"),
        ("nearest-neighbours", {"k": 0}, "predictor 'nearest-neighbours': k must be a whole number of at least 1, got 0"),
        ("nearest-neighbours", {"window": 1.5}, "window must be a whole number of at least 1, got 1.5"),
        ("simple-markov", {"states": 1}, "predictor 'simple-markov': states must be a whole number from 2 to 1,000, got 1"),
        (
            "simple-markov",
            {"states": 10**6},
            "predictor 'simple-markov': states must be a whole number from 2 to 1,000, got 1000000",
        ),
        ("autoregressive", {"order": True}, "order must be a whole number of at least 1, got True"),
        ("recent-mode", {"keep": 1.0}, "predictor 'recent-mode': keep must be between 0 and 1, got 1.0"),
        ("recent-mode", {"speed": 3}, "predictor 'recent-mode' cannot be created: TypeError: .*'speed'"),
        ("crystal-ball", {}, "predictor 'crystal-ball' is not installed; installed are: last-outcome, stride, long-stride"),
    ],
)
def test_wrong_parameters_are_refused(name, parameters, message):
    with pytest.raises(HoldfastError, match=message):
        make_predictor(name, **parameters)
