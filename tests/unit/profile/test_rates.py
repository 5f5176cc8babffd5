"""Rates: a few levels that stand for many measurements."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.profile.rates import Flow, flow, joint, levels

measurements = st.lists(st.integers(0, 3000), min_size=1, max_size=60).map(lambda values: np.array(values, float))


def test_a_flow_is_per_second_whatever_the_step():
    assert flow(np.array([10, 30, 20]), step_s=0.5) == Flow(average=40.0, peak=60.0)


@given(measurements, st.integers(1, 4))
def test_levels_never_promise_less_load_than_there_was(rates, count):
    found, belongs = levels(rates, count=count)
    assert len(found) == min(count, len(set(rates)))
    assert [level.rate for level in found] == sorted({level.rate for level in found})
    assert sum(level.probability for level in found) == pytest.approx(1)
    for rate, level in zip(rates, belongs, strict=True):
        assert rate <= found[level].rate
        assert level == 0 or rate > found[level - 1].rate
    assert {level.rate for level in found} <= set(rates)
    assert [level.probability for level in found] == pytest.approx(np.bincount(belongs, minlength=len(found)) / len(rates))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9).map(lambda values: np.array(values, float)), st.integers(1, 3))
def test_no_other_cut_leaves_less_variance_within_the_levels(rates, count):
    def spread(groups):
        return sum(((g - g.mean()) ** 2).sum() for g in groups if len(g))

    found, belongs = levels(rates, count=count)
    mine = spread([rates[belongs == level] for level in range(len(found))])
    values = sorted(set(rates))
    best = min(
        spread([rates[(rates > low) & (rates <= high)] for low, high in itertools.pairwise([-1.0, *tops, values[-1]])])
        for tops in itertools.combinations(values[:-1], len(found) - 1)
    )
    assert mine == pytest.approx(best, abs=1e-6)


def test_levels_have_names_that_rise():
    rates = np.array([1.0, 10.0, 100.0, 1000.0])
    assert [[level.name for level in levels(rates, count=count)[0]] for count in (1, 2, 3, 4)] == [
        ["only"],
        ["low", "high"],
        ["low", "medium", "high"],
        ["low", "medium", "high", "peak"],
    ]


def test_a_source_that_never_changes_has_one_level_whatever_was_asked():
    found, belongs = levels(np.full(7, 5.0), count=3)
    assert [(level.name, level.rate, level.probability) for level in found] == [("only", 5.0, 1.0)]
    assert belongs.tolist() == [0] * 7


def test_many_different_rates_with_wide_gaps_are_sorted_too():
    rng = np.random.default_rng(3)
    rates = np.concatenate([rng.uniform(0, 10, 700), rng.uniform(1e6, 1e6 + 10, 300), [5e8]])
    found, belongs = levels(rates, count=3)
    assert [level.probability for level in found] == pytest.approx([700 / 1001, 300 / 1001, 1 / 1001])
    assert found[-1].rate == 5e8
    assert all(rates[i] <= found[level].rate for i, level in enumerate(belongs))


@pytest.mark.parametrize("count", [0, 5])
def test_too_few_or_too_many_levels_are_refused(count):
    with pytest.raises(HoldfastError, match=rf"^a source's rates can be told apart in 1 to 4 levels, got {count}$"):
        levels(np.array([1.0]), count=count)


def test_the_share_of_each_combination_is_that_of_the_time_it_was_seen():
    belongs = {"b": np.array([0, 0, 1, 1, 1]), "a": np.array([0, 0, 0, 1, 1])}
    found = joint(belongs, {"a": ["low", "high"], "b": ["slow", "fast"]})
    assert found == {
        (("a", "low"), ("b", "slow")): 0.4,
        (("a", "low"), ("b", "fast")): 0.2,
        (("a", "high"), ("b", "fast")): 0.4,
    }
