"""A whole trace as one plan: shared streams computed once, windows cut to the trace."""

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs
from holdfast.app.load import load_app
from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.trace_reader import open_trace
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def market(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("batch") / "market.parquet"
    write_market(path, events=2000, seed=2, tickers=20)
    graph = load_app(EXAMPLES / "bargain_discovery.py").graph()
    return graph, with_epochs(open_trace(spark, graph, str(path)), ByTime(1.0))


def plan_of(frame) -> str:
    """The plan as it was run, after the optimiser has had its last word."""
    assert frame.collect()
    return frame._jdf.queryExecution().executedPlan().toString().split("Initial Plan")[0]


def test_bargain_discovery_reads_its_trace_once(market):
    graph, sources = market
    plan = plan_of(build_whole_trace(graph, sources)["bargain_index"])
    assert plan.count("FileScan") == 1
    assert "ReusedExchange" in plan


def test_aliases_and_casts_do_not_prevent_sharing(spark, tmp_path):
    spark.range(1, 50).selectExpr("id as seq", "cast(id % 3 as int) as k").write.parquet(str(tmp_path / "s.parquet"))
    app = App("aliases")
    source = app.source("s", "seq long, k long")

    @app.operator(inputs=source)
    def renamed(rows):
        return rows.select(F.col("seq").alias("seq"), F.col("k").cast("long").alias("k"))

    one = app.operator(inputs=renamed, name="one")(lambda rows: rows.where("k = 1"))
    other = app.operator(inputs=renamed, name="other")(lambda rows: rows.where("k = 2"))
    app.sink("out", app.operator(inputs=[one, other], name="both")(lambda one, other: one.unionByName(other)))
    graph = app.graph()
    plan = plan_of(build_whole_trace(graph, open_trace(spark, graph, str(tmp_path / "s.parquet")))["both"])
    assert plan.count("FileScan") == 1


def test_trace_is_read_twice_without_sharing(market, monkeypatch):
    monkeypatch.setattr("holdfast.engine.whole_trace.share", lambda frame, key: frame)
    graph, sources = market
    assert plan_of(build_whole_trace(graph, sources)["bargain_index"]).count("FileScan") == 2


def test_part_runs_on_its_input_streams(market):
    graph, sources = market
    whole = build_whole_trace(graph, sources)
    part = build_whole_trace(graph, {"trade_filter": whole["trade_filter"]}, part=["aggregator", "vwap"])
    assert set(part) == {"trade_filter", "aggregator", "vwap"}
    assert part["vwap"].count() == whole["vwap"].count() > 0


def test_injection_changes_only_its_edge(market):
    graph, sources = market
    whole = build_whole_trace(graph, sources)
    quiet = build_whole_trace(graph, sources, injections={("trade_quote", "trade_filter"): lambda frame: frame.where("false")})
    assert quiet["trade_filter"].count() == 0
    assert quiet["quote_filter"].count() == whole["quote_filter"].count() > 0


def test_window_output_outside_the_trace_is_dropped(spark):
    app = App("windows")
    source = app.source("s", "seq long")

    @app.operator(inputs=source, keep=last_epochs(2))
    def spread(rows):
        return rows.withColumn("epoch", F.explode(F.expr("sequence(epoch - 1, epoch + 2)")))

    app.sink("out", spread)
    rows = spark.createDataFrame([(1, 5), (2, 6)], "seq long, epoch long")
    output = build_whole_trace(app.graph(), {"s": rows}, epochs=(5, 6))["spread"]
    assert sorted(map(tuple, output.collect())) == [(1, 5), (1, 6), (2, 5), (2, 6)]
