"""Algorithm 1: of those that can answer in time, the best ranked."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.prediction.ranking.hot_swap import NONE, Candidate, Cost, assign, hot_swap

shares = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
times = st.sampled_from([0.0, 0.001, 0.01, 0.1, 1.0])
candidates = st.lists(st.tuples(shares, times), min_size=1, max_size=6).map(
    lambda pairs: [Candidate(f"c{n}", accuracy, time_s) for n, (accuracy, time_s) in enumerate(pairs)]
)


@given(candidates, times)
def test_the_choice_fits_the_time_left_and_nothing_that_fits_is_better(some, left_s):
    chosen = hot_swap(some, left_s)
    fitting = [one for one in some if one.time_s <= left_s]
    if chosen is None:
        assert not fitting
        return
    assert chosen in fitting
    for other in fitting:
        assert (-chosen.accuracy, chosen.time_s, chosen.name) <= (-other.accuracy, other.time_s, other.name)


@given(candidates, times)
def test_the_order_of_the_list_does_not_matter(some, left_s):
    assert hot_swap(some, left_s) == hot_swap(some[::-1], left_s)


@given(candidates, times)
def test_more_time_never_makes_the_choice_less_accurate(some, left_s):
    sooner, later = hot_swap(some, left_s), hot_swap(some, 10 * left_s)
    assert sooner is None or (later is not None and later.accuracy >= sooner.accuracy)


@given(candidates, times)
def test_for_one_series_the_assignment_is_algorithm_1(some, left_s):
    accuracy = np.array([[one.accuracy for one in some]])
    chosen = assign(accuracy, [Cost(one.time_s, 0.0) for one in some], [one.name for one in some], time_left_s=left_s).chosen[0]
    wanted = hot_swap(some, left_s)
    assert (None if chosen == NONE else some[chosen]) == wanted


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
def test_all_series_together_are_answered_in_time(given_, left_s):
    rows, prices = given_
    accuracy, costs = np.array(rows), [Cost(*price) for price in prices]
    names = [f"c{n}" for n in range(len(costs))]
    found = assign(accuracy, costs, names, time_left_s=left_s)
    used = {a: int(np.count_nonzero(found.chosen == a)) for a in range(len(costs))}
    assert sum(costs[a].of(count) for a, count in used.items()) <= left_s
    for series, chosen in enumerate(found.chosen):
        if chosen != NONE:
            assert accuracy[series, chosen] > -np.inf
            if left_s == 1e9:
                assert accuracy[series, chosen] == accuracy[series].max()
        elif left_s == 1e9:
            assert np.isneginf(accuracy[series]).all()


def test_when_time_is_short_the_slow_algorithm_is_given_up_for_all_its_series():
    accuracy = np.array([[0.9, 0.8], [0.9, 0.8], [0.1, 0.8]])
    costs = [Cost(0.0, 0.4), Cost(0.0, 0.01)]
    assert assign(accuracy, costs, ["slow", "fast"], time_left_s=1.0).chosen.tolist() == [0, 0, 1]
    assert assign(accuracy, costs, ["slow", "fast"], time_left_s=0.5).chosen.tolist() == [1, 1, 1]
