"""The generated data center, its failures, and profiles of requests."""

import gzip

import numpy as np
import pytest

from holdfast.errors import TraceError
from holdfast_papers.internet.data_center import Scale, build, failures, generated_profile, read_profile

SMALL = Scale(applications=6, racks=3, nodes=4)


@pytest.fixture(scope="module")
def world():
    return build(SMALL, generated_profile(np.random.default_rng(1)))


@pytest.mark.parametrize(("applications", "racks", "most"), [(4, 2, 24.0), (20, 4, 8.0)])
def test_rates_are_limited_by_the_heaviest_pe(applications, racks, most):
    scale = Scale(applications=applications, racks=racks)
    center = build(scale, generated_profile(np.random.default_rng(1)))
    assert center.work[-1].sum() == pytest.approx(scale.overload * 16.0 * scale.machines / 2)
    assert center.work[-1].max() < most * (1 + 1e-9)
    assert 1 < center.trace.rates.max(axis=0).min() < center.trace.rates.max() < 2000


def test_rack_fails_in_the_busiest_hour(world):
    load = world.trace.rates.sum(axis=1)
    fault = failures(world, "rack").faults[-1]
    assert fault.target[0].startswith("rack=rack")
    assert load[int(fault.at_s // 60)] > np.quantile(load, 0.8)
    assert len(failures(world, "pdu").faults[-1].target) >= 1
    assert not failures(world, "calm").faults


def test_failures_end_before_the_day_ends():
    for busiest in (30, 700, 1379):  # of the profile
        profile = np.ones(1440)
        profile[busiest : busiest + 60] = 5.0
        shifted = build(SMALL, profile)
        for day in ("rack", "pdu"):
            fault = failures(shifted, day).faults[-1]
            assert shifted.trace.rates[int(fault.at_s // 60), 0] == shifted.trace.rates[:, 0].max()
            assert fault.at_s + fault.back_after_s < 20 * 3600
        assert (shifted.begins + 720) % 1440 == busiest


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1998-06-30 25:00,7", "needs a period such as 1998-06-30 21:05 and a count in each row: hour must be in"),
        ("1998-06-30 21:05,many", "and a count in each row: could not convert string to float: 'many'"),
        ("1998-06-30 21:05", "and a count in each row: float"),
        ("1998-06-30 21:05,-1", "needs counts of at least 0, got -1 at 1998-06-30 21:05"),
        ("1998-06-30 21:05,nan", "needs counts of at least 0, got nan"),
    ],
)
def test_invalid_profile_row_is_reported(tmp_path, rows, message):
    path = tmp_path / "web.csv"
    path.write_text(f"period,count\n{rows}\n")
    with pytest.raises(TraceError, match=message):
        read_profile(path, "1998-06-30")


def test_invalid_day_and_truncated_file_are_reported(tmp_path):
    path = tmp_path / "web.csv.gz"
    path.write_bytes(gzip.compress(b"period,count\n1998-06-30 21:05,7\n")[:-9])
    with pytest.raises(TraceError, match="a profile's day must be a date such as 1998-06-30, got 'June'"):
        read_profile(path, "June")
    with pytest.raises(TraceError, match="cannot be read"):
        read_profile(path, "1998-06-30")


def test_profile_without_the_day_is_reported(tmp_path):
    path = tmp_path / "requests.csv"
    path.write_text("period,count\n1998-06-30 00:01:00,7\n")
    assert read_profile(path, "1998-06-30")[1] == 7
    with pytest.raises(TraceError, match="has no requests on 1998-07-01; give a day that it covers"):
        read_profile(path, "1998-07-01")
    with pytest.raises(TraceError, match="cannot be read"):
        read_profile(tmp_path / "none.csv", "1998-06-30")
