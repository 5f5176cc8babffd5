"""Arrival times of tuples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import TraceError
from holdfast.trace.arrivals import Pace, arrivals


def taken(pace, *, seconds, seed=1, size=10_000):
    """Return the arrivals of the first `seconds` seconds."""
    blocks, times = arrivals(pace, seed=seed, start_us=0, size=size), []
    while not times or times[-1].time_us[-1] < seconds * 1e6:
        times.append(next(blocks))
    time_us = np.concatenate([block.time_us for block in times])
    return time_us[time_us < seconds * 1e6]


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(0.5, 5000), room=st.floats(0, 20), seed=st.integers(0, 2**32), size=st.integers(1, 5000), count=st.integers(1, 5)
)
def test_times_ascend_and_no_second_exceeds_the_peak(rate, room, seed, size, count):
    pace = Pace(rate, 1.1 * rate + 3 * rate**0.5 + 1 + room * rate)
    blocks = arrivals(pace, seed=seed, start_us=0, size=size)
    time_us = np.concatenate([next(blocks).time_us for _ in range(count)])
    assert len(time_us) == size * count
    assert (np.diff(time_us) >= 0).all()
    assert np.bincount(time_us // 1_000_000).max() <= pace.peak


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 40_000))
def test_tuples_do_not_depend_on_the_block_size(seed, size):
    pace = Pace(500, 2200)
    whole = next(arrivals(pace, seed=seed, start_us=0, size=40_000))
    part = next(arrivals(pace, seed=seed, start_us=0, size=size))
    assert (part.time_us == whole.time_us[:size]).all()
    assert (part.clock == whole.clock[:size]).all()
    assert (part.burst == whole.burst[:size]).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mean_rate_is_met_and_bursts_reach_the_peak(seed):
    counts = np.bincount(taken(Pace(500, 2200), seconds=6000, seed=seed) // 1_000_000)
    assert counts.mean() == pytest.approx(500, rel=0.06)
    assert counts.max() == 2200
    assert (counts > 1500).mean() < 0.05


def test_tuples_of_a_second_come_in_clumps():
    tenths = np.bincount(taken(Pace(500, 2200), seconds=500) // 100_000)
    assert tenths.var() / tenths.mean() > 5  # 1 if every moment were as likely


def test_rhythm_moves_the_rate_over_the_day():
    pace = Pace(2, 20, rhythm=lambda time_s: np.where(time_s < 43_200, 0.5, 1.5))
    time_us = taken(pace, seconds=86_400)
    morning = (time_us < 43_200 * 1e6).sum()
    assert morning / (len(time_us) - morning) == pytest.approx(0.5, rel=0.2)


def test_price_clock_ascends():
    block = next(arrivals(Pace(500, 2200), seed=4, start_us=0, size=50_000))
    assert (np.diff(block.clock) >= 0).all()
    assert block.clock[-1] / (block.time_us[-1] / 1e6) == pytest.approx(1.0, rel=0.7)


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf")])
def test_invalid_rate_is_refused(rate):
    with pytest.raises(TraceError, match="rate is a positive number of tuples per second, not"):
        Pace(rate, 100)


@pytest.mark.parametrize(("rate", "peak", "least"), [(500, 567, 568), (10_000, 10_900, 11_000), (0.5, 2, 3)])
def test_too_low_peak_is_refused_with_the_least_peak(rate, peak, least):
    with pytest.raises(TraceError, match=f"rate of {rate} tuples per second is at least {least}, not {peak}"):
        Pace(rate, peak)
    assert Pace(rate, least).peak == least
