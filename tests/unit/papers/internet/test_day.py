"""Losses of the data center in a year."""

import pytest

from holdfast_papers.internet.data_center import Scale
from holdfast_papers.internet.day import day_key, yearly
from holdfast_papers.internet.plans import VARIANTS


def test_yearly_losses_separate_failures_from_overload():
    lost = {"calm": 0.01, "rack": 0.03, "pdu": 0.06}
    records = {day_key(day, v): {"lost": share, "cpu_s": 100.0} for day, share in lost.items() for v in VARIANTS}
    year = yearly(records, Scale(racks=45, nodes=40))["NR"]  # 1,800 machines: 20 racks and a power unit a year
    assert year == pytest.approx({"cpu_s": 100.0, "calm_days": 3.65, "rack_days": 20 * 0.02, "pdu_days": 0.05})
