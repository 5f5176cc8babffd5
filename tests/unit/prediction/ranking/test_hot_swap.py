"""Algorithm 1 chooses the most accurate predictor that answers in time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.prediction.ranking.hot_swap import NONE, Candidate, Cost, assign_predictors, hot_swap

shares = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
times = st.sampled_from([0.0, 0.001, 0.01, 0.1, 1.0])
candidates = st.lists(st.tuples(shares, times), min_size=1, max_size=6).map(
    lambda pairs: [Candidate(f"c{n}", accuracy, time_s) for n, (accuracy, time_s) in enumerate(pairs)]
)


@given(candidates, times)
def test_choice_is_the_best_that_fits_the_time_left(some, left_s):
    chosen = hot_swap(some, left_s)
    fitting = [one for one in some if one.time_s <= left_s]
    if chosen is None:
        assert not fitting
        return
    assert chosen in fitting
    for other in fitting:
        assert (-chosen.accuracy, chosen.time_s, chosen.name) <= (-other.accuracy, other.time_s, other.name)


@given(candidates, times)
def test_order_of_candidates_does_not_matter(some, left_s):
    assert hot_swap(some, left_s) == hot_swap(some[::-1], left_s)


@given(candidates, times)
def test_more_time_never_lowers_the_accuracy(some, left_s):
    sooner, later = hot_swap(some, left_s), hot_swap(some, 10 * left_s)
    assert sooner is None or (later is not None and later.accuracy >= sooner.accuracy)


@given(candidates, times)
def test_assignment_of_one_series_equals_hot_swap(some, left_s):
    accuracy = np.array([[one.accuracy for one in some]])
    costs, names = [Cost(one.time_s, 0.0) for one in some], [one.name for one in some]
    (chosen,) = assign_predictors(accuracy, costs, names, time_left_s=left_s).predictors
    assert (None if chosen == NONE else some[chosen]) == hot_swap(some, left_s)


@given(
    st.integers(1, 5).flatmap(
        lambda algorithms: st.tuples(
            st.lists(
                st.lists(st.sampled_from([-np.inf, 0.2, 0.5, 0.9]), min_size=algorithms, max_size=algorithms),
                min_size=1,
                max_size=8,
            ),
            st.lists(st.tuples(times, times), min_size=algorithms, max_size=algorithms),
        )
    ),
    st.sampled_from([0.0, 0.01, 0.5, 5.0, 1e9]),
)
def test_all_series_together_are_predicted_in_time(drawn, left_s):
    rows, prices = drawn
    accuracy, costs = np.array(rows), [Cost(*price) for price in prices]
    names = [f"c{n}" for n in range(len(costs))]
    assignment = assign_predictors(accuracy, costs, names, time_left_s=left_s)
    used = {a: int(np.count_nonzero(assignment.predictors == a)) for a in range(len(costs))}
    assert sum(costs[a].of(count) for a, count in used.items()) <= left_s
    for series, number in enumerate(assignment.predictors):
        if number != NONE:
            assert accuracy[series, number] > -np.inf
            if left_s == 1e9:
                assert accuracy[series, number] == accuracy[series].max()
        elif left_s == 1e9:
            assert np.isneginf(accuracy[series]).all()


def test_slow_predictor_is_dropped_when_time_is_short():
    accuracy = np.array([[0.9, 0.8], [0.9, 0.8], [0.1, 0.8]])
    costs = [Cost(0.0, 0.4), Cost(0.0, 0.01)]
    assert assign_predictors(accuracy, costs, ["slow", "fast"], time_left_s=1.0).predictors.tolist() == [0, 0, 1]
    assert assign_predictors(accuracy, costs, ["slow", "fast"], time_left_s=0.5).predictors.tolist() == [1, 1, 1]
