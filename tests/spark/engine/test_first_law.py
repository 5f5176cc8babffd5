"""Finding the operators that break the first law, and saying what to do about each."""

import pyarrow as pa
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs, last_rows, state_table
from holdfast.engine.analysis import analyse
from holdfast.engine.breach_cause import LawBreach
from holdfast.engine.first_law import LawRun
from holdfast.engine.operator_check import StrayRow

BOUNDS = (8, 16, 16, 23)


def table(count: int = 30) -> pa.Table:
    seqs = range(1, count + 1)
    return pa.table({"seq": seqs, "k": pa.array([s % 2 for s in seqs], pa.int32()), "x": [float(s * s % 11) for s in seqs]})


def by_key():
    return Window.partitionBy("k").orderBy("seq")


def averages(rows, back):
    return rows.select("seq", "k", F.avg("x").over(by_key().rowsBetween(-back, 0)).alias("x"))


@pytest.fixture(scope="module")
def judged(both, tools):
    def judge(app: App, **tables: pa.Table):
        cut, spans = tools.cut(tables or {"s": table()}, BOUNDS)
        graph = app.graph()
        run = LawRun.of(both.spark, graph, both.frames(cut), spans, analyse(graph, both.spark))
        return {each.operator.name: each for each in run.broken()}

    return judge


def app_of(tools, **operators):
    """An application whose operators all read the source; each is (function, keep)."""
    app = App("judged")
    source = app.source("s", "seq long, k int, x double")
    for name, (function, keep) in operators.items():
        app.sink(f"{name}_out", app.operator(inputs=source, keep=keep, name=name)(function))
    return app


def test_each_operator_is_checked_alone_with_advice(tools, judged):
    app = app_of(
        tools,
        good=(lambda rows: averages(rows, 2), last_rows(2, by="k")),
        generous=(lambda rows: averages(rows, 2), last_rows(9, by="k")),
        stateless=(lambda rows: rows.where("x > 3"), None),
        short=(lambda rows: averages(rows, 5), last_rows(2, by="k")),
        forgetful=(lambda rows: averages(rows, 1), None),
        ahead=(lambda rows: rows.select("seq", F.lead("x").over(by_key()).alias("x")), last_rows(3, by="k")),
    )
    verdict = judged(app)
    assert set(verdict) == {"short", "forgetful", "ahead"}
    assert verdict["short"].advice == (
        "it looks further back than last_rows(2, by=k) keeps: last_rows(5, by=k) would do on this sample"
    )
    assert verdict["forgetful"].advice == "it looks back at earlier rows but keeps none: last_rows(1, by=k) would do on this sample"
    assert verdict["ahead"].advice.startswith("it looks ahead: later rows change its output ('lead(x, 1, NULL) OVER (")


def test_first_different_row_is_shown_with_its_epoch(tools, judged):
    app = app_of(tools, forgetful=(lambda rows: rows.select("seq", F.lag("x").over(by_key()).alias("before")), None))
    broken = judged(app)["forgetful"]
    assert isinstance(broken, LawBreach)
    assert broken.difference.seq == 9
    assert str(broken) == (
        f"operator 'forgetful' ({broken.operator.origin}) breaks the first law at seq 9: over the whole trace it gives seq=9, "
        "before=5.0, epoch by epoch seq=9, before=None; it looks back at earlier rows but keeps none: last_rows(1, by=k) would do "
        "on this sample"
    )


def test_unbounded_operator_is_advised_to_keep_a_state_table(tools, judged):
    def totals(rows):
        return rows.select("seq", F.sum("x").over(by_key().rowsBetween(Window.unboundedPreceding, 0)).alias("x"))

    app = app_of(tools, totals=(totals, last_rows(1, by="k")))
    one_key = table().set_column(1, "k", pa.array([0] * 30, pa.int32()))
    assert judged(app, s=one_key)["totals"].advice == (
        "it looks further back than last_rows(1, by=k) keeps, by far: keep more rows, or use a state_table"
    )


def test_state_table_that_counts_twice_is_reported(tools, judged):
    def counts(rows, state, doubled):
        before = F.coalesce(F.col("n"), F.lit(0).cast("long"))
        output = rows.join(state, "k", "left").select("seq", (before + F.count("*").over(by_key())).alias("n"))
        seen = rows.unionByName(rows) if doubled else rows
        after = seen.groupBy("k").agg(F.count("*").alias("n")).unionByName(state).groupBy("k").agg(F.sum("n").alias("n"))
        return output, after

    rule = state_table("k int, n long", by="k")
    app = app_of(tools, right=(lambda r, s: counts(r, s, False), rule), twice=(lambda r, s: counts(r, s, True), rule))
    verdict = judged(app)
    assert set(verdict) == {"twice"}
    assert verdict["twice"].advice == (
        "its state table must contain everything that the output depends on, and each row must be counted once"
    )
    assert verdict["twice"].difference.seq == 9


def test_window_longer_than_its_keep_rule_is_reported(tools, judged):
    def counts(rows, epochs):
        spread = rows.withColumn("epoch", F.explode(F.expr(f"sequence(epoch, epoch + {epochs - 1})")))
        return spread.groupBy("epoch").agg(F.max("seq").alias("seq"), F.count("*").alias("n"))

    app = app_of(tools, good=(lambda rows: counts(rows, 3), last_epochs(2)), short=(lambda rows: counts(rows, 3), last_epochs(1)))
    verdict = judged(app)
    assert set(verdict) == {"short"}
    assert verdict["short"].advice == "it looks further back than last_epochs(1) keeps: last_epochs(2) would do on this sample"
    assert verdict["short"].difference.left["epoch"] == 2  # which has no rows of its own, and whose window has lost epoch 0


def latest(rows, values, back):
    value = F.when(F.col("is_value"), F.struct("seq", "x"))
    newest = F.collect_list(value).over(by_key().rowsBetween(Window.unboundedPreceding, 0))
    return (
        rows.withColumn("is_value", F.lit(False))
        .unionByName(values.withColumn("is_value", F.lit(True)))
        .withColumn("seen", newest)
        .where("not is_value")
        .select("seq", F.expr(f"get(seen, size(seen) - {back}).x").alias("x"))
    )


@pytest.mark.parametrize(
    ("keep", "advice"),
    [
        (lambda rows, values: {rows: last_rows(1, by="k")}, "it looks back at earlier rows of 'values' but keeps none"),
        (
            lambda rows, values: {rows: last_rows(1, by="k"), values: last_rows(1, by="k")},
            "it looks further back than last_rows(1, by=k) keeps of 'values': last_rows(2, by=k) would do on this sample",
        ),
    ],
)
def test_input_with_the_short_keep_rule_is_named(judged, keep, advice):
    app = App("join")
    schema = "seq long, k int, x double"
    rows, values = app.source("rows", schema), app.source("values", schema)
    join = app.operator(inputs=[rows, values], keep=keep(rows, values), correlated=True, name="join")
    app.sink("out", join(lambda rows, values: latest(rows, values, 2)))
    whole = table()
    odd = pa.array([seq % 4 < 2 for seq in range(1, 31)])
    verdict = judged(app, rows=whole.filter(odd), values=whole.filter(pa.compute.invert(odd)))
    assert verdict["join"].advice.startswith(advice)


@pytest.mark.parametrize("shift", [20, -5])
def test_invented_seqs_are_reported(tools, judged, shift):
    app = app_of(tools, shifted=(lambda rows: rows.select((F.col("seq") + shift).alias("seq"), "x"), None))
    strayed = judged(app)["shifted"]
    assert isinstance(strayed, StrayRow)
    assert strayed.epoch == 0
    assert str(strayed).startswith(
        f"operator 'shifted' ({strayed.operator.origin}) produces in epoch 0 a row of another epoch: seq="
    )
    assert str(strayed).endswith("; a row must carry the seq of the tuple that triggered it")


def test_invented_epochs_are_reported(tools, judged):
    app = app_of(tools, later=(lambda rows: rows.withColumn("epoch", F.col("epoch") + 1), None))
    assert str(judged(app)["later"]).endswith("; a row must carry the epoch of the tuple that triggered it")


def test_operator_behind_a_broken_one_gets_correct_rows(judged):
    app = App("chain")
    broken = app.operator(inputs=app.source("s", "seq long, k int, x double"), name="broken")(lambda rows: averages(rows, 1))
    app.sink("out", app.operator(inputs=broken, keep=last_rows(1, by="k"), name="behind")(lambda rows: averages(rows, 1)))
    assert set(judged(app)) == {"broken"}


def test_progress_names_every_operator(both, tools):
    app = app_of(tools, b=(lambda rows: rows, None), a=(lambda rows: rows, None))
    cut, spans = tools.cut({"s": table(4)}, [2])
    names, graph = [], app.graph()
    assert LawRun.of(both.spark, graph, both.frames(cut), spans, analyse(graph, both.spark)).broken(progress=names.append) == []
    assert names == ["a", "b"]
