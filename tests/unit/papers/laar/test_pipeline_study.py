"""Findings of LAAR's pipeline, from tuples in and out."""

import time
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.app import example_path
from holdfast.app.load import load_app
from holdfast.errors import HoldfastError
from holdfast_papers.laar.pipeline_study import KILLED, Load, PipelineRun, findings, kill_in_high, strategies, write_load

LOAD = Load(low_s=5, high_s=10, after_s=5)


def seen(way: str, high: list[int], *, rest: list[int]) -> PipelineRun:
    """A run with so many tuples out in each second of High, and in the seconds after it."""
    out = [4] * 5 + high + rest
    return PipelineRun(way, [*LOAD.rates, *[0] * (len(out) - 20)], out, [1.0] * 20)


def killed(completeness: float | None) -> PipelineRun:
    return PipelineRun(KILLED, LOAD.rates, LOAD.rates, [1.0] * 20, completeness=completeness, promised=0.667)


def test_static_falls_behind_and_activation_keeps_up():
    static = seen("static", [5] * 10, rest=[5] * 10)
    by_load = seen("by load", [4, 5, 6, 8, 8, 8, 8, 8, 8, 8], rest=[9, 9, 5, 4, 2])
    results = findings([static, by_load, killed(0.9)], LOAD)
    assert [each.holds for each in results] == [True, True, True, True]
    assert static.kept_up(LOAD) == pytest.approx(5 / 8)
    assert "output at 100% of the input in the second half of High" in results[1].ours


def test_growing_lag_and_lost_tuples_fail_the_findings():
    static = seen("static", [8] * 10, rest=[4] * 5)
    by_load = seen("by load", [6] * 10, rest=[4] * 5)
    assert [each.holds for each in findings([static, by_load, killed(0.66)], LOAD)] == [False] * 4
    assert findings([static, by_load, killed(None)], LOAD)[3].holds is False


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


def test_node_is_killed_in_high_of_the_described_load():
    load = Load().as_described
    (fault,) = kill_in_high(load).faults
    assert load.rates.count(8) / len(load.rates) == pytest.approx(0.2)
    assert load.rates[int(fault.at_s)] == 8


def test_example_uses_cpu_time_however_fast_the_clock_runs(monkeypatch):
    app = load_app(str(example_path("pipeline.py")))
    laborious = app.graph().operator("pe1").function.__globals__["laborious"]
    leaping = iter(range(10**9))
    clock = SimpleNamespace(perf_counter=lambda: 100.0 * next(leaping), thread_time=time.thread_time)
    monkeypatch.setitem(laborious.__globals__, "time", clock)
    before_s = time.thread_time()
    batch = pa.record_batch({"value": [1.0, 2.0]})
    assert list(laborious([batch])) == [batch]
    assert time.thread_time() - before_s >= 0.2
