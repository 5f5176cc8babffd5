"""Random draws by popularity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.trace.popularity import Popularity, zipf_weights


@given(count=st.integers(1, 2000), exponent=st.floats(0, 3), shift=st.floats(0, 50))
def test_shares_sum_to_one_and_never_rise_with_rank(count, exponent, shift):
    weights = zipf_weights(count, exponent, shift=shift)
    assert weights.sum() == pytest.approx(1)
    assert (np.diff(weights) <= 0).all()


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_draws_follow_the_weights(exponent):
    draws = Popularity(zipf_weights(1000, exponent)).draw(np.random.default_rng(1), 2_000_000)
    counts = np.bincount(draws, minlength=1000)[:100]
    slope = np.polyfit(np.log(np.arange(1, 101)), np.log(counts), 1)[0]
    assert -slope == pytest.approx(exponent, abs=0.03)


@given(weights=st.lists(st.floats(0, 5), min_size=1, max_size=20).filter(lambda w: sum(w) > 0.1), seed=st.integers(0, 99))
def test_zero_weight_is_never_draws(weights, seed):
    draws = Popularity(np.array(weights)).draw(np.random.default_rng(seed), 500)
    assert all(weights[k] > 0 for k in draws)
