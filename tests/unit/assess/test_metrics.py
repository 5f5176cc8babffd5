"""The four metrics against values computed by hand, and the cases that the paper leaves open."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.assess import metrics

numbers = st.floats(-100, 100, allow_nan=False)


def test_quality_score_is_the_ratio_of_the_mean_scores():
    assert metrics.quality_score([90.0, 110.0, 100.0], [200.0, 200.0]) == 0.5


def test_quality_of_a_zero_golden_score_is_one_or_zero():
    assert metrics.quality_score([0.0], [0.0]) == 1.0
    assert math.isnan(metrics.quality_score([1.0], [0.0]))


def test_correlation_of_a_ranking_computed_by_hand():
    # ranks 1..5 against 2,1,4,3,5: 1 - 6 * (1+1+1+1+0) / (5 * 24) = 0.8
    assert metrics.correlation([1, 2, 3, 4, 5], [20, 10, 40, 30, 50]) == pytest.approx(0.8)


def test_correlation_with_ties_uses_mean_ranks():
    # x ranks 1,2,3,4; y ranks 1.5,1.5,3,4: covariance 4.5, variances 5 and 4.5
    assert metrics.correlation([1, 2, 3, 4], [7, 7, 8, 9]) == pytest.approx(4.5 / math.sqrt(5 * 4.5))


@pytest.mark.parametrize("quality", [[], [0.4], [0.4, 0.4, 0.4]])
def test_correlation_is_zero_where_undefined(quality):
    assert metrics.correlation(list(range(len(quality))), quality) == 0.0


def test_correlation_treats_rounding_differences_as_ties():
    rounded = [1.0, 1.0 - 2e-16, 1.0 + 4e-16, 1.0 + 6e-16]
    assert metrics.correlation([1, 2, 3, 4], rounded) == 0.0
    assert metrics.correlation([1, 2, 3, 4], [0.0, 3e-17, -1e-17, 0.5]) == metrics.correlation([1, 2, 3, 4], [0.0, 0.0, 0.0, 0.5])
    assert metrics.correlation([1, 2, 3, 4], [1.0, 1.0 + 1e-9, 1.0 + 2e-9, 1.0 + 3e-9]) == 1.0


@given(st.lists(st.tuples(numbers, numbers.map(lambda number: round(number, 6))), min_size=3, max_size=20))
def test_correlation_agrees_with_scipy(points):
    x, y = zip(*points, strict=True)
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert metrics.correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_outage_impact_is_the_mean_over_offsets():
    assert metrics.outage_impact([1, 2, 3], [[3, 2, 1], [3, 2, 1], [1, 2, 3]]) == pytest.approx(-1 / 3)


def test_data_dependency_computed_by_hand():
    # means 2, 4, 6 and deviations of 1 within: F = (24 / 2) / (6 / 6) = 12, so p = (1 + 12 * 2 / 6) ** -3 = 0.008
    result = metrics.data_dependency([[1, 2, 3], [3, 4, 5], [5, 6, 7]])
    assert result.deviation == pytest.approx(2.0)
    assert result.p == pytest.approx(5.0**-3)
    assert not result.accepted


def test_data_dependency_accepts_offsets_that_differ_less_than_repetitions():
    assert metrics.data_dependency([[1.0, 3.0], [1.5, 3.5], [0.5, 2.5]]).accepted


@pytest.mark.parametrize(
    ("quality", "deviation", "accepted"),
    [
        ([[0.0, 0.0], [0.0, 0.0]], 0.0, True),
        ([[0.7, 0.7], [0.7, 0.7 + 1e-16]], 0.0, True),
        ([[1.0, 1.0], [2.0, 2.0]], math.sqrt(0.5), False),
        ([[0.3, 0.5]], 0.0, True),
        ([[1.0], [2.0]], math.sqrt(0.5), False),
        ([[1.0], [1.0]], 0.0, True),
    ],
    ids=["equal", "equal up to rounding", "no variance within", "one offset", "one repetition", "one repetition, equal"],
)
def test_data_dependency_accepts_where_nothing_can_be_tested(quality, deviation, accepted):
    result = metrics.data_dependency(quality)
    assert result.deviation == pytest.approx(deviation, abs=1e-12)
    assert result.accepted is accepted


@given(st.lists(st.lists(numbers, min_size=2, max_size=6), min_size=2, max_size=5))
def test_data_dependency_agrees_with_scipy(groups):
    within = sum(float(np.var(group)) for group in groups)
    if within > 1e-6:
        theirs = float(stats.f_oneway(*groups).pvalue)
        wanted = 1.0 if np.isnan(theirs) else theirs  # equal means: rounding can make scipy's ratio a negative zero, whose p is nan
        assert metrics.data_dependency(groups).p == pytest.approx(wanted, abs=1e-9)


def test_local_errors_are_relative_to_golden():
    assert metrics.local_errors([110, 97, 100], [100, 100, 100]).tolist() == pytest.approx([0.1, 0.03, 0.0])


def test_section_without_golden_score_is_relative_to_the_mean():
    assert metrics.local_errors([3.0, 6.0], [0.0, 6.0]).tolist() == [1.0, 0.0]
    assert metrics.local_errors([3.0, 0.0], [0.0, 0.0]).tolist() == [1.0, 0.0]


def test_negative_golden_score_counts_by_its_absolute_value():
    assert metrics.local_errors([-5.0], [-10.0]).tolist() == [0.5]


def test_recovery_covers_ninety_percent_of_the_erroneous_sections():
    errors = [1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]  # ten erroneous; the ninth stands at place 13
    assert metrics.recovery_index(errors) == 13
    assert metrics.recovery_index(errors, percentile=1.0) == 20


def test_error_equal_to_the_threshold_is_ignored():
    assert metrics.recovery_index([0.03], threshold=0.03) == 0


def test_no_error_means_no_recovery():
    assert metrics.recovery_time([[0.0, 0.01], []]) == 0
    assert metrics.quality_impact([[0.0, 0.01]]) == 0.0


def test_quality_impact_sums_squares_above_the_threshold_up_to_recovery():
    errors = [1.0, 0.02, 0.5] + [0.1] * 7 + [3.0]  # ten erroneous, the last one beyond ninety percent
    assert metrics.squared_errors(errors) == pytest.approx(1.0 + 0.25 + 7 * 0.01)


def test_availability_metrics_use_the_worst_offset():
    assert metrics.recovery_time([[1.0], [0.1, 0.1, 0.1]]) == 3
    assert metrics.quality_impact([[1.0], [0.1, 0.1, 0.1]]) == 1.0


@given(st.lists(st.floats(0, 10, allow_nan=False), max_size=40))
def test_recovery_index_is_an_erroneous_section(errors):
    index = metrics.recovery_index(errors)
    if index:
        assert errors[index - 1] > metrics.THRESHOLD
        assert sum(e > metrics.THRESHOLD for e in errors[:index]) >= 0.9 * sum(e > metrics.THRESHOLD for e in errors) - 1e-9


def test_spread_of_golden_runs():
    assert metrics.spread([99.0, 101.0]) == pytest.approx(math.sqrt(2) / 100)
    assert metrics.spread([5.0]) == 0.0
    assert metrics.spread([-1.0, 1.0]) == math.inf


def test_fitted_line_is_flat_for_one_outage():
    assert metrics.fitted_line([5, 5], [1.0, 0.0]) == (0.0, 0.5)
