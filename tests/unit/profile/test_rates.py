"""Measured rates are grouped into a few levels."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.profile.rates import Flow, flow, joint, levels

measurements = st.lists(st.integers(0, 3000), min_size=1, max_size=60).map(lambda values: np.array(values, float))


def test_flow_is_per_second_whatever_the_step():
    assert flow(np.array([10, 30, 20]), step_s=0.5) == Flow(average=40.0, peak=60.0)


@given(measurements, st.integers(1, 4))
def test_levels_never_understate_the_load(rates, count):
    grouped, level_of_rate = levels(rates, count=count)
    assert len(grouped) == min(count, len(set(rates)))
    assert [level.rate for level in grouped] == sorted({level.rate for level in grouped})
    assert sum(level.probability for level in grouped) == pytest.approx(1)
    for rate, level in zip(rates, level_of_rate, strict=True):
        assert rate <= grouped[level].rate
        assert level == 0 or rate > grouped[level - 1].rate
    assert {level.rate for level in grouped} <= set(rates)
    assert [level.probability for level in grouped] == pytest.approx(
        np.bincount(level_of_rate, minlength=len(grouped)) / len(rates)
    )


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9).map(lambda values: np.array(values, float)), st.integers(1, 3))
def test_no_other_grouping_has_less_variance(rates, count):
    def spread(groups):
        return sum(((g - g.mean()) ** 2).sum() for g in groups if len(g))

    grouped, level_of_rate = levels(rates, count=count)
    mine = spread([rates[level_of_rate == level] for level in range(len(grouped))])
    values = sorted(set(rates))
    best = min(
        spread([rates[(rates > low) & (rates <= high)] for low, high in itertools.pairwise([-1.0, *tops, values[-1]])])
        for tops in itertools.combinations(values[:-1], len(grouped) - 1)
    )
    assert mine == pytest.approx(best, abs=1e-6)


def test_levels_are_named_by_rank():
    rates = np.array([1.0, 10.0, 100.0, 1000.0])
    assert [[level.name for level in levels(rates, count=count)[0]] for count in (1, 2, 3, 4)] == [
        ["only"],
        ["low", "high"],
        ["low", "medium", "high"],
        ["low", "medium", "high", "peak"],
    ]


def test_constant_source_has_one_level():
    grouped, level_of_rate = levels(np.full(7, 5.0), count=3)
    assert [(level.name, level.rate, level.probability) for level in grouped] == [("only", 5.0, 1.0)]
    assert level_of_rate.tolist() == [0] * 7


def test_many_rates_with_wide_gaps_are_grouped():
    rng = np.random.default_rng(3)
    rates = np.concatenate([rng.uniform(0, 10, 700), rng.uniform(1e6, 1e6 + 10, 300), [5e8]])
    grouped, level_of_rate = levels(rates, count=3)
    assert [level.probability for level in grouped] == pytest.approx([700 / 1001, 300 / 1001, 1 / 1001])
    assert grouped[-1].rate == 5e8
    assert all(rates[i] <= grouped[level].rate for i, level in enumerate(level_of_rate))


@pytest.mark.parametrize("count", [0, 5])
def test_too_few_or_too_many_levels_are_refused(count):
    with pytest.raises(HoldfastError, match=rf"^a source's rates can be grouped into 1 to 4 levels, got {count}$"):
        levels(np.array([1.0]), count=count)


def test_joint_shares_are_shares_of_time():
    level_numbers = {"b": np.array([0, 0, 1, 1, 1]), "a": np.array([0, 0, 0, 1, 1])}
    shares = joint(level_numbers, {"a": ["low", "high"], "b": ["slow", "fast"]})
    assert shares == {
        (("a", "low"), ("b", "slow")): 0.4,
        (("a", "low"), ("b", "fast")): 0.2,
        (("a", "high"), ("b", "fast")): 0.4,
    }
