"""A processing element: one job per epoch, kept rows that change only when it has succeeded, faults told with their operator."""

import inspect

import pyarrow as pa
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs, last_rows, state_table
from holdfast.engine.analysis import analyse, state_of
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import Span
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.pe import Pe
from holdfast.engine.schema import to_frame
from holdfast.engine.spark_jobs import kept_by
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.errors import OperatorError

SCHEMA = pa.schema([("seq", pa.int64()), ("k", pa.int32()), ("x", pa.float64()), ("epoch", pa.int64())])


def rows(*values: float, after: int = 0, epoch: int = 0) -> pa.Table:
    seqs = range(after + 1, after + 1 + len(values))
    return pa.Table.from_pylist([{"seq": s, "k": 1, "x": x, "epoch": epoch} for s, x in zip(seqs, values, strict=True)], SCHEMA)


def brittle_app() -> App:
    """Sums of three and running totals, by a function that cannot bear 13."""
    app = App("brittle")
    source = app.source("s", "seq long, k int, x double")

    @app.operator(inputs=source)
    def checked(rows):
        return rows.withColumn("x", F.expr("if(x = 13, raise_error('unlucky'), x)"))

    @app.operator(inputs=checked, keep=last_rows(2, by="k"))
    def sums(rows):
        recent = Window.partitionBy("k").orderBy("seq").rowsBetween(-2, 0)
        return rows.select("seq", F.sum("x").over(recent).alias("x"))

    @app.operator(inputs=checked, keep=state_table("total double"))
    def totals(rows, state):
        so_far = Window.orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
        before = F.coalesce(F.first("total").over(Window.partitionBy()), F.lit(0.0))
        output = rows.crossJoin(state.agg(F.max("total").alias("total"))).select(
            "seq", (before + F.sum("x").over(so_far)).alias("x")
        )
        after = rows.select(F.col("x").alias("total")).unionByName(state).agg(F.sum("total").alias("total"))
        return output, after.where("total is not null")

    app.sink("a", sums)
    app.sink("b", totals)
    return app


@pytest.fixture
def brittle(spark):
    graph = brittle_app().graph()
    return Pe(spark, graph, [operator.name for operator in graph.operators], analyse(graph, spark))


@pytest.mark.parametrize("keep", [None, last_rows(2, by="k")])
def test_row_without_seq_is_reported_with_its_operator(spark, keep):
    app = App("forgetful")
    source = app.source("s", "seq long, k int, x double")
    blank = app.operator(inputs=source, keep=keep, name="blank")(
        lambda rows: rows.withColumn("seq", F.expr("if(x = 13, null, seq)"))
    )
    app.sink("out", blank)
    graph = app.graph()
    pe = Pe(spark, graph, ["blank"], analyse(graph, spark))
    pe.run({"s": rows(1, 2)}, Span(0, 0, 0, 2))
    kept = dict(pe.kept_rows)
    with pytest.raises(OperatorError, match=r"^operator 'blank' \(.*test_pe.py:\d+\) produces 1 of \d rows whose seq is null"):
        pe.run({"s": rows(4, 13, after=2, epoch=1)}, Span(1, 1, 2, 4))
    assert pe.kept_rows == kept


def test_failed_epoch_can_run_again(brittle):
    brittle.run({"s": rows(1, 2, 3)}, Span(0, 0, 0, 3))
    before = dict(brittle.kept_rows)
    assert before[kept_by("sums", "checked")]["seq"].to_pylist() == [2, 3]
    assert before[state_of("totals")]["total"].to_pylist() == [6.0]
    with pytest.raises(OperatorError, match=r"^epoch 1 of PE checked\+sums\+totals failed: .*unlucky"):
        brittle.run({"s": rows(4, 13, after=3, epoch=1)}, Span(1, 1, 3, 5))
    assert brittle.kept_rows == before
    output = brittle.run({"s": rows(4, 12, after=3, epoch=1)}, Span(1, 1, 3, 5))
    assert sorted(output["sums"].to_pylist(), key=lambda row: row["seq"]) == [{"seq": 4, "x": 9.0}, {"seq": 5, "x": 19.0}]
    assert sorted(output["totals"]["x"].to_pylist()) == [10.0, 22.0]


def test_one_job_produces_output_and_kept_rows(spark, brittle, jobs_of_group):
    context = spark.sparkContext
    context.setJobGroup("one-epoch", "count the jobs of an epoch")
    try:
        brittle.run({"s": rows(1, 2, 3)}, Span(0, 0, 0, 3))
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert len(jobs_of_group("one-epoch")) == 1


def test_epochs_without_rows_lose_nothing(brittle):
    for epoch in range(4):
        brittle.run({"s": rows()}, Span(epoch, epoch, 0, 0))
    output = brittle.run({"s": rows(1, 2, epoch=4)}, Span(4, 4, 0, 2))
    for epoch in range(5, 8):
        brittle.run({"s": rows()}, Span(epoch, epoch, 2, 2))
    assert sorted(output["sums"]["x"].to_pylist()) == [1.0, 3.0]
    later = brittle.run({"s": rows(3, after=2, epoch=8)}, Span(8, 8, 2, 3))
    assert later["sums"]["x"].to_pylist() == [6.0]
    assert later["totals"]["x"].to_pylist() == [6.0]


def test_rows_behind_empty_chunks_reach_spark(spark):
    empty, some = rows(), rows(1, 2, 3)
    table = pa.concat_tables([empty, empty, empty, some, empty])
    assert to_frame(spark, table).count() == 3
    assert to_frame(spark, pa.concat_tables([empty, empty])).count() == 0


def test_udf_error_names_operator_and_line(spark):
    app = App("udf")
    source = app.source("s", "seq long, k int, x double")
    app.sink("fine_out", app.operator(inputs=source, name="fine")(lambda rows: rows))

    @app.operator(inputs=source)
    def risky(rows):
        def halve(x):
            return 1 / (x - 2)  # the line at fault

        return rows.select("seq", F.udf(halve, "double")("x").alias("x"))

    app.sink("out", risky)
    lines, first = inspect.getsourcelines(risky.function)
    line = first + next(place for place, text in enumerate(lines) if "at fault" in text)
    graph = app.graph()
    pe = Pe(spark, graph, ["fine", "risky"], analyse(graph, spark))
    with pytest.raises(OperatorError) as caught:
        pe.run({"s": rows(1, 2, 3)}, Span(7, 7, 0, 3))
    assert str(caught.value) == (
        f"epoch 7 of PE fine+risky failed in operator 'risky' (test_pe.py:{line}): ZeroDivisionError: float division by zero"
    )


def inverse(x):
    return 1 / x  # what several operators may call


@pytest.mark.parametrize(
    ("operator", "line", "message"),
    [
        (
            lambda: F.udf(inverse, "double")("x"),
            inspect.getsourcelines(inverse)[1] + 1,
            "ZeroDivisionError: float division by zero",
        ),
        (lambda: F.expr("if(x = 0, raise_error('unlucky'), x)"), None, "[USER_RAISED_EXCEPTION] unlucky"),
    ],
)
def test_error_in_a_pe_names_its_only_operator(spark, operator, line, message):
    app = App("alone")
    source = app.source("s", "seq long, k int, x double")
    risky = app.operator(inputs=source, name="risky")(lambda rows: rows.select("seq", operator().alias("x")))
    app.sink("out", risky)
    app.sink("fine_out", app.operator(inputs=source, name="fine")(lambda rows: rows))
    graph = app.graph()
    pe = Pe(spark, graph, ["risky"], analyse(graph, spark))
    with pytest.raises(OperatorError) as caught:
        pe.run({"s": rows(0)}, Span(7, 7, 0, 1))
    place = f"test_pe.py:{line}" if line is not None else str(risky.origin)
    assert str(caught.value).startswith(f"epoch 7 of PE risky failed in operator 'risky' ({place}): {message}")


def test_failed_whole_trace_job_is_reported_in_one_line(spark):
    graph = brittle_app().graph()
    frames = build_whole_trace(graph, {"s": to_frame(spark, rows(1, 13))})
    with pytest.raises(OperatorError) as caught, naming_failed_operator(graph, "the whole-trace run"):
        frames["sums"].toArrow()
    assert str(caught.value).startswith("the whole-trace run failed: ")
    assert "unlucky" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nested_values_survive_as_kept_rows(spark):
    app = App("nested")
    source = app.source("s", "seq long, k int, x double")

    @app.operator(inputs=source)
    def packed(rows):
        return rows.select("seq", "epoch", F.struct("k", F.array("x").alias("xs")).alias("p"), F.lit(1).alias("one"))

    @app.operator(inputs=packed, keep=last_rows(1, by="p"))
    def again(rows):
        return rows.select("seq", "epoch", "p", F.collect_list("one").over(Window.partitionBy("p").orderBy("seq")).alias("ones"))

    app.sink("out", again)
    graph = app.graph()
    pe = Pe(spark, graph, ["packed", "again"], analyse(graph, spark))
    pe.run({"s": rows(1, 2)}, Span(0, 0, 0, 2))
    output = pe.run({"s": rows(2, 3, after=2, epoch=1)}, Span(1, 1, 2, 4))["again"]
    assert sorted(output.to_pylist(), key=lambda row: row["seq"]) == [
        {"seq": 3, "epoch": 1, "p": {"k": 1, "xs": [2.0]}, "ones": [1, 1]},
        {"seq": 4, "epoch": 1, "p": {"k": 1, "xs": [3.0]}, "ones": [1]},
    ]


def test_frames_collected_together_keep_their_columns_and_types(spark):
    frames = {
        "numbers": spark.range(3).selectExpr("id", "cast(id as decimal(10, 2)) as d", "timestamp_seconds(id) as t"),
        "texts": spark.sql("select 'a' as id, array(named_struct('f', 1.5D)) as nested, map('k', 1) as m, date'2024-01-01' as day"),
        "none": spark.range(0).selectExpr("id as `odd name.with dot`"),
        "odd": spark.sql("select 1 as id, named_struct('a-b', 1, 'c.d', array(named_struct('e f', 'g'))) as s, null as nothing"),
    }
    nulls = spark.range(2).selectExpr("id", "if(id = 0, named_struct('a', 1), null) as s")
    assert collect_together({"nulls": nulls})["nulls"]["s"].to_pylist() == [{"a": 1}, None]
    together = collect_together(frames)
    for name, frame in frames.items():
        assert together[name].sort_by(together[name].column_names[0]).to_pylist() == frame.toArrow().to_pylist(), name
        assert together[name].column_names == frame.columns


def test_large_epochs_run_in_the_parallel_session(spark, monkeypatch):
    monkeypatch.setattr("holdfast.engine.pe.SMALL", 2)
    graph = brittle_app().graph()
    pe = Pe(spark, graph, [operator.name for operator in graph.operators], analyse(graph, spark))
    output = pe.run({"s": rows(1, 2, 3, 4)}, Span(0, 0, 0, 4))
    assert sorted(output["sums"]["x"].to_pylist()) == [1.0, 3.0, 6.0, 9.0]


@pytest.mark.parametrize("bound", ["SMALL", "SMALL_BYTES"])
def test_views_of_different_pes_are_separate(spark, monkeypatch, bound):
    monkeypatch.setattr(f"holdfast.engine.pe.{bound}", 2)
    app = App("views")
    source = app.source("s", "seq long, k int, x double")

    @app.operator(inputs=source)
    def viewed(rows):
        rows.createOrReplaceTempView("the_rows")
        return rows.sparkSession.sql("select seq, x from the_rows")

    app.sink("out", viewed)
    graph = app.graph()
    schemas = analyse(graph, spark)
    spark.catalog.dropTempView("the_rows")
    for _ in range(2):
        output = Pe(spark, graph, ["viewed"], schemas).run({"s": rows(1, 2, 3)}, Span(0, 0, 0, 3))["viewed"]
        assert sorted(output["x"].to_pylist()) == [1.0, 2.0, 3.0]
    assert not spark.catalog.tableExists("the_rows")


def test_window_emits_no_future_epochs(spark):
    app = App("windows")
    source = app.source("s", "seq long, k int, x double")

    @app.operator(inputs=source, keep=last_epochs(1))
    def counts(rows):
        spread = rows.withColumn("epoch", F.explode(F.expr("sequence(epoch, epoch + 1)")))
        return spread.groupBy("epoch").agg(F.max("seq").alias("seq"), F.count("*").alias("n"))

    app.sink("out", counts)
    graph = app.graph()
    pe = Pe(spark, graph, ["counts"], analyse(graph, spark))
    steps = [(rows(1, 2), Span(0, 0, 0, 2)), (rows(3, after=2, epoch=1), Span(1, 1, 2, 3)), (rows(), Span(2, 3, 3, 3))]
    output = [pe.run({"s": new}, span)["counts"].to_pylist() for new, span in steps]
    assert output == [[{"epoch": 0, "seq": 2, "n": 2}], [{"epoch": 1, "seq": 3, "n": 3}], [{"epoch": 2, "seq": 3, "n": 1}]]
