"""Damage in seconds, with confidence intervals, and how certain a ranking is."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.assess.assessment import assess
from holdfast.assess.damage import Interval, certainty, output_lost

from .computed_campaign import SECTIONS, campaign, facts, golden, outcomes


def test_damage_is_given_in_seconds_of_output():
    first = assess(campaign(), facts(), golden(), outcomes().items)[0]  # a section lasts 2 s
    loud, quiet = first.case("loud").damage, first.case("quiet").damage
    assert loud.affected_s == (8.0, 8.0)
    assert loud.output_s == (12.0, 12.0)  # 150 too much in 4 sections of 100
    assert loud.recovery_s == (8.0, 8.0)
    assert (quiet.affected_s, quiet.output_s) == ((4.0, 4.0), (4.0, 4.0))
    assert certainty(loud.output_s, quiet.output_s) == 1.0


def test_nearly_empty_sections_cannot_dominate_the_damage():
    thin = golden()
    for run in thin["runs"]:
        run["sum(x)"] = [100.0] * 11 + [1e-9] + [100.0] * (SECTIONS - 12)
    loud = assess(campaign(), facts(), thin, outcomes().items)[0].case("loud")
    assert loud.damage.output_s[0] == pytest.approx(12.0 / 0.9)
    assert loud.impact < 1000


def test_interval_contains_the_true_mean_as_often_as_it_states():
    rng = np.random.default_rng(1)
    intervals = [Interval.of(5 + rng.normal(size=5)) for _ in range(2000)]
    assert np.mean([each.low <= 5 <= each.high for each in intervals]) == pytest.approx(0.95, abs=0.02)


def test_interval_of_one_offset_is_unknown():
    one = Interval.of([3.0])
    assert (one.mean, str(one)) == (3.0, "3")
    assert math.isnan(one.low)
    assert math.isnan(certainty((1.0,), (0.0,)))


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=6), st.lists(st.floats(0, 1e6), min_size=2, max_size=6))
def test_certainties_of_opposite_orders_add_up_to_one(one, other):
    count = min(len(one), len(other))
    a, b = one[:count], other[:count]
    assert certainty(a, b) + certainty(b, a) == pytest.approx(1.0)


def test_output_of_an_always_empty_sink_counts_whole_sections():
    assert output_lost(np.array([0.0, 2.0]), np.zeros(2), np.array([0.0, 1.0]), threshold=0.03, section_s=3.0) == 3.0
