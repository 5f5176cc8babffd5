"""Measures applications on traces with known selectivities and rates."""

import datetime
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from holdfast.app import App, last_rows
from holdfast.app.load import load_app
from holdfast.engine.epochs import Span
from holdfast.engine.trace_reader import open_trace
from holdfast.errors import TraceError
from holdfast.profile import describe, measure
from holdfast.profile.cpu import cpu_seconds
from holdfast.profile.measurement import rows_per_step
from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture(scope="module", autouse=True)
def few_repeats():
    """Measure each cost once: the tests do not need steady values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module("holdfast.profile.measurement"), "REPEATS", 1)
        yield


@pytest.fixture(scope="module")
def market(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("profile") / "market.parquet"
    write_market(path, events=4000, seed=5, tickers=20)
    app = load_app(EXAMPLES / "bargain_discovery.py")
    sources = open_trace(spark, app.graph(), str(path))
    return app, sources, measure(spark, app, sources, step_s=1.0)


def test_selectivities_are_the_shares_of_the_trace(market):
    _, sources, measured = market
    counts = dict(sources["market"].groupBy("kind").count().collect())
    pes = measured.pes
    assert pes["trade_quote"].edges["market"].selectivity == 1.0
    assert pes["trade_filter"].edges["trade_quote"].selectivity == counts["trade"] / 4000
    assert pes["quote_filter"].edges["trade_quote"].selectivity == counts["quote"] / 4000
    assert pes["aggregator"].edges["trade_filter"].selectivity == 1.0
    assert pes["vwap"].edges["aggregator"].selectivity == 1.0


def test_output_is_attributed_to_the_triggering_input(market):
    _, _, measured = market
    edges = measured.pes["bargain_index"].edges
    assert edges["vwap"].selectivity == 0.0
    assert 0 < edges["quote_filter"].selectivity < 1
    triggered = edges["quote_filter"].selectivity * measured.leaving["quote_filter"]
    assert triggered == pytest.approx(measured.leaving["bargain_index"])


def test_every_input_has_a_cost(market):
    _, _, measured = market
    costs = [edge.cost_s for pe in measured.pes.values() for edge in pe.edges.values()]
    assert len(costs) == 7
    assert all(0 < cost < 1 for cost in costs)


def test_rates_are_counts_per_second(market):
    _, sources, measured = market
    per_second = dict(sources["market"].selectExpr("floor(unix_micros(time) / 1000000) as s").groupBy("s").count().collect())
    seconds = range(min(per_second), max(per_second) + 1)
    counts = [per_second.get(second, 0) for second in seconds]
    assert measured.source_counts["market"].tolist() == counts
    rate = measured.pes["trade_quote"].rate
    assert rate.average == pytest.approx(4000 / len(counts))
    assert rate.peak == max(counts)


def test_descriptor_is_valid_and_complete(market):
    app, _, measured = market
    descriptor = describe(app, measured, level_count=3, nodes=2)
    assert list(descriptor.errors()) == []
    assert sum(rate.probability for rate in descriptor.sources["market"].rates) == pytest.approx(1)
    assert descriptor.sources["market"].rates[-1].rate == measured.source_counts["market"].max()
    assert descriptor.pes["bargain_index"].correlated
    assert {name for name, pe in descriptor.pes.items() if pe.stateful} == {"aggregator", "bargain_index"}


def two_sources() -> App:
    app = App("pair")
    schema = "seq long, time timestamp, k int"
    a, b = app.source("a", schema, key="k"), app.source("b", schema, key="k")
    merged = app.operator(inputs=[a, b], name="merged")(lambda one, other: one.unionByName(other))
    app.sink(
        "out", app.operator(inputs=merged, keep=last_rows(1, by="k"), pe="last", name="kept")(lambda rows: rows.where("k = 0"))
    )
    return app


def pair(spark, per_second):
    """Return sources with these numbers of rows in each second, (of a, of b), and seqs that ascend with time."""
    rows, seq = {"a": [], "b": []}, 0
    for second, counts in enumerate(per_second):
        for name, count in zip("ab", counts, strict=True):
            for place in range(count):
                seq += 1
                rows[name].append((seq, START + datetime.timedelta(seconds=second, milliseconds=seq % 7), place % 2))
    return {name: spark.createDataFrame(each, "seq long, time timestamp, k int") for name, each in rows.items()}


def test_sources_busy_together_have_joint_configurations(spark):
    sources = pair(spark, [(2, 2), (2, 2), (20, 20), (2, 20)])
    app = two_sources()
    measured = measure(spark, app, sources, step_s=1.0)
    descriptor = describe(app, measured, level_count=2)
    assert list(descriptor.errors()) == []
    assert {(c.rates["a"], c.rates["b"]): c.probability for c in descriptor.configurations} == {
        ("low", "low"): 0.5,
        ("high", "high"): 0.25,
        ("low", "high"): 0.25,
    }
    assert {name: edge.selectivity for name, edge in measured.pes["merged"].edges.items()} == {"a": 1.0, "b": 1.0}
    assert measured.pes["last"].edges["merged"].selectivity == 0.5
    assert measured.pes["merged"].rate.peak == 40
    assert measured.leaving["merged"] == pytest.approx((26 + 44) / 4)


def test_trace_without_time_is_refused(spark):
    app = App("timeless")
    app.sink("out", app.operator(inputs=app.source("s", "seq long"), name="op")(lambda rows: rows))
    with pytest.raises(TraceError, match=r"^source 's' has no column 'time'"):
        measure(spark, app, {"s": spark.range(1, 3).withColumnRenamed("id", "seq")})


def test_rows_are_counted_in_the_step_of_their_seq(spark):
    spans = [Span(0, 0, 0, 3), Span(1, 1, 3, 3), Span(2, 2, 3, 9)]
    rows = spark.createDataFrame([(1,), (3,), (3,), (4,), (9,)], "seq long")
    assert np.array_equal(rows_per_step(rows, spans), [3, 0, 2])


def test_cpu_time_grows_with_the_work(spark):
    little = cpu_seconds(spark, spark.range(10))
    much = cpu_seconds(spark, spark.range(300_000).selectExpr("sha2(repeat(cast(id as string), 20), 512) as h"))
    assert 0 < little < much
