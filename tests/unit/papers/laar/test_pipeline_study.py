"""Findings of LAAR's pipeline, from tuples in and out."""

import pyarrow.parquet as pq
import pytest

from holdfast.errors import HoldfastError
from holdfast_papers.laar.pipeline_study import Load, PipelineRun, findings, strategies, write_load

LOAD = Load(low_s=5, high_s=10, after_s=5)


def seen(way: str, high: list[int], *, rest: list[int]) -> PipelineRun:
    """A run with so many tuples out in each second of High, and in the seconds after it."""
    out = [4] * 5 + high + rest
    return PipelineRun(way, [*LOAD.rates, *[0] * (len(out) - 20)], out, [1.0] * 20)


def test_static_falls_behind_and_activation_keeps_up():
    static = seen("static", [5] * 10, rest=[5] * 10)
    by_load = seen("by load", [4, 5, 6, 8, 8, 8, 8, 8, 8, 8], rest=[9, 9, 5, 4, 2])
    results = findings([static, by_load], LOAD)
    assert [each.holds for each in results] == [True, True, True]
    assert static.kept_up(LOAD) == pytest.approx(5 / 8)
    assert "output at 100% of the input in the second half of High" in results[1].ours


def test_growing_lag_and_lost_tuples_fail_the_findings():
    static = seen("static", [8] * 10, rest=[4] * 5)
    by_load = seen("by load", [6] * 10, rest=[4] * 5)
    assert [each.holds for each in findings([static, by_load], LOAD)] == [False, False, False]


def test_load_has_the_rate_in_each_second(tmp_path):
    write_load(tmp_path / "load.parquet", LOAD.rates)
    times = pq.read_table(tmp_path / "load.parquet")["time"].to_pylist()
    counts = [sum(int((time - times[0]).total_seconds() + 0.125) == second for time in times) for second in range(20)]
    assert counts == LOAD.rates


def test_too_short_load_is_refused():
    with pytest.raises(HoldfastError, match="at least 5 s, got 5, 3, 5"):
        Load(low_s=5, high_s=3, after_s=5)


def test_only_the_planned_strategy_switches():
    by_name = strategies()
    active = {way: [sum(map(len, each.active.values())) for each in strategy.configurations] for way, strategy in by_name.items()}
    assert len(set(active["static"])) == 1
    assert len(set(active["by load"])) == 2
