"""Each algorithm on small series whose next value is known."""

import numpy as np
import pytest

from holdfast.prediction import make_predictor

NAN = float("nan")


def next_values(name, series, *, steps=1, **parameters):
    predictor = make_predictor(name, **parameters)
    history = np.array([series], dtype=np.float64)
    return predictor.forecast(history, predictor.train(history), steps=steps)[0].tolist()


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ([1, 5, 9], [13, 17]),
        ([0.1, 0.2, 0.3], [pytest.approx(0.4), pytest.approx(0.5)]),  # the two strides differ in their last digit
        ([7, 7, 7], [7, 7]),
        ([5, 9], [NAN, NAN]),  # one stride only
        ([1, 5, 10], [NAN, NAN]),
        ([1, 5, 9, 9], [NAN, NAN]),  # steady until the last value
        ([1e9, 1e9 + 1, 1e9 + 3], [NAN, NAN]),
    ],
)
def test_stride_predicts_only_after_the_same_stride_occurred_twice(series, expected):
    assert next_values("stride", series, steps=2) == pytest.approx(expected, nan_ok=True)


def test_long_stride_continues_the_mean_change_over_four_values():
    assert next_values("long-stride", [1, 3, 4, 7, 9, 11], steps=2) == [13, 15]  # 9 - 1 = 11 - 3 = 4 times 2
    assert next_values("long-stride", [1, 3, 4, 7, 9, 12]) == pytest.approx([NAN], nan_ok=True)


def test_markov_predicts_the_most_frequent_successor():
    assert next_values("simple-markov", [1, 5, 1, 5, 1, 9, 1, 5, 1], steps=3) == [5, 1, 5]


def test_markov_repeats_a_value_outside_its_range():
    predictor = make_predictor("simple-markov")
    model = predictor.train(np.array([[1.0, 2, 1, 2, 1, 2]]))
    assert predictor.forecast(np.array([[2.0, 1, 2, 1, 2, 40]]), model, steps=2).tolist() == [[40, 40]]


def test_markov_prefers_the_nearest_of_equally_frequent_states():
    assert next_values("simple-markov", [0, 15, 0, 3, 0, 15, 0, 3, 0]) == [pytest.approx(3)]


def test_neighbours_average_what_followed_the_four_most_similar():
    cycle = [1, 4, 9]
    assert next_values("nearest-neighbours", cycle * 6, steps=4) == [1, 4, 9, 1]
    assert next_values("nearest-neighbours", [0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 6, 0, 0]) == [3.0]


def test_neighbours_prefer_recent_windows_among_equals():
    assert next_values("nearest-neighbours", [5, 1, 5, 2, 5, 3, 5], k=2, window=1) == [2.5]


def test_smoothing_continues_a_trend_damped():
    first, second = next_values("exponential-smoothing", [3.0 * t for t in range(30)], steps=2)
    assert 86.5 < first < 90.5
    assert first < second < first + 3


def test_smoothing_finds_a_season():
    season = [10, 14, 30, 12, 8, 9]
    values = next_values("exponential-smoothing", season * 6, steps=6)
    np.testing.assert_allclose(values, season, atol=0.5)


def test_smoothing_beats_last_outcome_on_noise():
    rng = np.random.default_rng(2)
    history = 100 + rng.normal(0, 10, size=(400, 50))
    errors = {}
    for name in ("exponential-smoothing", "last-outcome"):
        predictor = make_predictor(name)
        answer = predictor.forecast(history, predictor.train(history), steps=1)[:, 0]
        errors[name] = np.abs(answer - 100).mean()
    assert errors["exponential-smoothing"] < 0.5 * errors["last-outcome"]


def test_autoregression_continues_a_wave():
    wave = 50 + 10 * np.sin(np.arange(60) / 3)
    np.testing.assert_allclose(next_values("autoregressive", wave[:50], steps=3), wave[50:53], atol=1.0)


def test_autoregression_returns_to_the_mean():
    rng = np.random.default_rng(3)
    series = [0.0]
    for shock in rng.normal(size=49):
        series.append(0.5 * series[-1] + shock)
    series[-1] = 20.0
    path = next_values("autoregressive", series, steps=10)
    assert path[0] < 18
    assert abs(path[-1]) < abs(path[0])


def test_mode_is_a_frequent_value_not_a_mean():
    assert next_values("recent-mode", [10, 50, 10.1, 49.8, 10, 50.2, 10, 9.9], steps=2) == [pytest.approx(10, rel=0.01)] * 2


def test_mode_is_within_tolerance_of_the_heaviest_window():
    value = next_values("recent-mode", [100, 104, 109, 200, 300, 400])[0]
    assert all(abs(value - truth) <= 0.05 * truth for truth in (100, 104, 109))


def test_mode_prefers_the_recent_of_two_levels():
    assert next_values("recent-mode", [5.0] * 10 + [8.0] * 10) == [8.0]


def test_sliding_mean_beats_last_outcome_on_window_means():
    rng = np.random.default_rng(1)
    readings = 100 + rng.normal(0.0, 20.0, (40, 56))
    outputs = np.lib.stride_tricks.sliding_window_view(readings, 6, axis=1).mean(axis=2)
    history, truth = outputs[:, :-1], outputs[:, -1]
    predictor = make_predictor("sliding-mean")
    model = predictor.train(history)
    assert (model[:, 0] == 6).mean() > 0.7
    error = predictor.forecast(history, model, steps=1)[:, 0] - truth
    assert np.sqrt((error**2).mean()) < 0.85 * np.sqrt(((history[:, -1] - truth) ** 2).mean())
