"""Replaying a trace whole and epoch by epoch, with the same rows and scores."""

import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs
from holdfast.app.load import load_app
from holdfast.engine.epochs import ByCount, ByTime
from holdfast.engine.replay import replay_by_epoch, replay_whole
from holdfast.engine.row_comparison import first_difference
from holdfast.engine.trace_reader import open_trace
from holdfast.engine.trace_sample import take_sample
from holdfast.errors import HoldfastError, OperatorError, TraceError
from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def market(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("replay") / "market.parquet"
    write_market(path, events=600, seed=3, tickers=5, rate=150.0, peak=300.0)
    app = load_app(EXAMPLES / "bargain_discovery.py")
    return app, open_trace(spark, app.graph(), str(path))


def test_whole_and_epoch_replay_agree(spark, market, tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.engine.replay.READ_ROWS", 250)
    app, sources = market
    whole = replay_whole(spark, app, sources, cut=ByTime(1.0), out=tmp_path / "whole")
    steps = []
    slow = replay_by_epoch(
        spark, app, sources, cut=ByTime(1.0), epoch_s=1.0, out=tmp_path / "epochs", progress=lambda *now: steps.append(now)
    )
    assert whole.rows["bargains"] > 0
    assert whole.events == slow.events == 600
    assert whole.rows == slow.rows
    assert whole.scores.keys() == {"sum(gain) of bargains"}
    assert whole.scores["sum(gain) of bargains"] == pytest.approx(slow.scores["sum(gain) of bargains"])
    one, other = (pq.read_table(tmp_path / way / "bargains.parquet") for way in ("whole", "epochs"))
    assert one.num_rows == whole.rows["bargains"]
    assert first_difference(one, other) is None
    assert slow.epochs > 3
    assert steps == [(done, slow.epochs) for done in range(1, slow.epochs + 1)]
    assert slow.slowest_epoch_s >= slow.median_epoch_s > 0
    assert whole.tuples_per_second == pytest.approx(600 / whole.seconds)


def test_single_pes_equal_fused_ones(spark, market):
    app, sources = market
    fused, unfused = (replay_by_epoch(spark, app, sources, cut=ByCount(300), epoch_s=0.0, fused=fused) for fused in (True, False))
    assert fused.rows == unfused.rows
    assert fused.epochs == unfused.epochs == 2


def sinks_app(schema="seq long, time timestamp, x double", **settings) -> App:
    app = App("shop")
    source = app.source("s", schema)
    app.sink("out", app.operator(inputs=source, name="op", **settings)(lambda rows: rows))
    return app


def test_counting_rows_computes_every_column(spark):
    app = App("lazy")
    source = app.source("s", "seq long, x double")
    broken = app.operator(inputs=source, name="broken")(
        lambda rows: rows.withColumn("m", F.expr("map('k', raise_error('computed'))"))
    )
    app.sink("out", broken)
    with pytest.raises(OperatorError, match="computed"):
        replay_whole(spark, app, {"s": spark.createDataFrame([(1, 1.0)], "seq long, x double")}, cut=ByTime(1.0))


def test_score_over_no_rows_is_none(spark):
    app = App("shop")
    source = app.source("s", "seq long, x double")
    app.sink("out", app.operator(inputs=source, name="none")(lambda rows: rows.where("false")))
    app.score("out", "sum(x)")
    app.score("out", "count(*)")
    result = replay_whole(spark, app, {"s": spark.createDataFrame([(1, 1.0)], "seq long, x double")}, cut=ByTime(1.0))
    assert result.rows == {"out": 0}
    assert result.scores == {"sum(x) of out": None, "count(*) of out": 0.0}


def test_trace_without_time_cannot_run_by_time(spark):
    app = sinks_app("seq long, x double")
    sources = {"s": spark.createDataFrame([(1, 1.0), (2, 2.0)], "seq long, x double")}
    assert replay_whole(spark, app, sources, cut=ByTime(1.0)).rows == {"out": 2}
    assert replay_by_epoch(spark, app, sources, cut=ByCount(1), epoch_s=0.0).epochs == 2
    with pytest.raises(TraceError, match=r"^source 's' has no column 'time' to cut it into epochs by"):
        replay_by_epoch(spark, app, sources, cut=ByTime(1.0), epoch_s=1.0)


def test_windows_need_a_time_even_in_a_whole_run(spark):
    app = sinks_app("seq long, x double", keep=last_epochs(1))
    with pytest.raises(TraceError, match="has no column 'time'"):
        replay_whole(spark, app, {"s": spark.createDataFrame([(1, 1.0)], "seq long, x double")}, cut=ByTime(1.0))


def test_invalid_score_is_rejected_before_the_run(spark):
    app = sinks_app()
    app.score("out", "max(time)")
    with pytest.raises(HoldfastError, match=r"^the score 'max\(time\)' of sink 'out' is a timestamp; it must be a number$"):
        replay_whole(spark, app, {}, cut=ByTime(1.0))


def test_empty_epochs_run_only_for_windows(spark):
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    rows = [(1, start, 1.0), (2, start + datetime.timedelta(seconds=4), 2.0)]
    sources = {"s": spark.createDataFrame(rows, "seq long, time timestamp, x double")}
    assert replay_by_epoch(spark, sinks_app(), sources, cut=ByTime(1.0), epoch_s=1.0).epochs == 2
    windowed = sinks_app(keep=last_epochs(1))
    assert replay_by_epoch(spark, windowed, sources, cut=ByTime(1.0), epoch_s=1.0).epochs == 3


def test_small_trace_is_sampled_whole(spark):
    odd, even = (spark.range(start, 100, 2).selectExpr("id as seq", "id * 2 as x") for start in (1, 2))
    sample = take_sample(spark, {"odd": odd, "even": even}, rows=99, epochs=0, cut=None, seed=1)
    assert (sample.is_whole, sample.seqs) == (True, tuple(range(1, 100)))
    assert sample.sources["even"].count() == 49


def test_sample_has_rows_from_several_positions(spark):
    scattered = spark.range(1, 10_000).repartition(40, F.col("id") % 3).selectExpr("id as seq")
    sample = take_sample(spark, {"s": scattered}, rows=300, epochs=0, cut=None, seed=1)
    assert [last - first for first, last in sample.stretches] == [99, 99, 99]
    assert sample.stretches[0] == (1, 100)
    assert sample.seqs == tuple(seq for first, last in sample.stretches for seq in range(first, last + 1))
    assert sample.sources["s"].count() == 300


def test_sample_has_as_many_epochs_as_asked(spark):
    rows = spark.range(1, 10_000).selectExpr("id as seq", "timestamp_millis(id * 100) as time")
    sample = take_sample(spark, {"s": rows}, rows=30, epochs=20, cut=ByTime(1.0), seed=1)
    assert max(last - first for first, last in sample.stretches) >= 200
