"""The jobs of a PE: built once where their plans depend on the leaves alone, and built anew where they do not."""

import pyarrow as pa
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs, last_rows
from holdfast.engine.analysis import analyse
from holdfast.engine.epochs import Span
from holdfast.engine.exchangeable_frame import Leaf
from holdfast.engine.pe import Pe, small_session
from holdfast.engine.schema import arrow_schema, source_schema
from holdfast.errors import OperatorError

SCHEMA = pa.schema([("seq", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("epoch", pa.int64())])


def rows(*values: float, after: int = 0, epoch: int = 0) -> pa.Table:
    seqs = range(after + 1, after + 1 + len(values))
    return pa.Table.from_pylist([{"seq": s, "k": "a", "x": x, "epoch": epoch} for s, x in zip(seqs, values, strict=True)], SCHEMA)


def pe_of(spark, function, **options) -> tuple[Pe, list[int]]:
    """A PE of one operator, and how often its function was called, without the times that the analysis calls it."""
    app, calls = App("one"), []
    source = app.source("s", "seq long, k string, x double")

    def counted(frame):
        calls.append(1)
        return function(frame)

    app.sink("out", app.operator(inputs=source, name="f", **options)(counted))
    graph = app.graph()
    schemas = analyse(graph, spark)
    calls.clear()
    return Pe(spark, graph, ["f"], schemas), calls


def two_epochs(pe: Pe) -> list[float]:
    """What it makes of the second of two epochs, the larger one."""
    pe.run({"s": rows(1, 2)}, Span(0, 0, 0, 2))
    output = pe.run({"s": rows(3, 4, 5, after=2, epoch=1)}, Span(1, 1, 2, 5))["f"]
    return sorted(output["x"].to_pylist())


def test_plan_is_built_once_for_all_epochs(spark):
    recent = Window.partitionBy("k").orderBy("seq").rowsBetween(-1, 0)
    pe, calls = pe_of(spark, lambda s: s.withColumn("x", F.sum("x").over(recent)), keep=last_rows(1, by="k"))
    assert two_epochs(pe) == [5.0, 7.0, 9.0]
    assert len(calls) == 1


def test_python_function_runs_in_every_epoch(spark):
    doubled = F.udf(lambda x: 2 * x, "double")
    pe, calls = pe_of(spark, lambda s: s.withColumn("x", doubled("x")))
    assert two_epochs(pe) == [6.0, 8.0, 10.0]
    assert len(calls) == 1


def first_value(s):
    return s.withColumn("x", F.lit(s.agg(F.max("x")).first()[0]))


def subquery(s):
    s.createOrReplaceTempView("rows_now")
    return s.sparkSession.sql("select seq, epoch, (select max(x) from rows_now) as x from rows_now")


def shuffled(s):
    return s.repartition(2, "seq").groupBy("seq", "epoch").agg(F.sum("x").alias("x"))


def held(s):
    return s.withColumn("x", F.col("x") + 1).cache()


def broadcast(s):
    return s.alias("s").join(F.broadcast(s.agg(F.max("x").alias("most")))).select("seq", "epoch", F.col("most").alias("x"))


def highest(s):
    """The two highest rows of several partitions: Spark shuffles them, without an exchange in its plan."""
    least = s.sparkSession.sql("select * from values (-1L, 0L, 0.5D), (-2L, 0L, 0.25D) as v(seq, epoch, x)")
    return s.select("seq", "epoch", "x").union(least).orderBy(F.desc("x")).limit(2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (first_value, [5.0, 5.0, 5.0]),
        (subquery, [5.0, 5.0, 5.0]),
        (shuffled, [3.0, 4.0, 5.0]),
        (held, [4.0, 5.0, 6.0]),
        (broadcast, [5.0, 5.0, 5.0]),
        (highest, [4.0, 5.0]),
    ],
)
def test_plan_that_depends_on_rows_is_rebuilt(spark, function, expected):
    pe, calls = pe_of(spark, function)
    assert two_epochs(pe) == expected
    assert len(calls) == 2


def test_failure_rebuilds_the_plan(spark):
    checked = F.udf(lambda x: 1 / (x - 4), "double")
    pe, calls = pe_of(spark, lambda s: s.withColumn("x", checked("x")))
    with pytest.raises(OperatorError, match="ZeroDivisionError"):
        two_epochs(pe)
    assert len(calls) == 1
    assert pe.run({"s": rows(5, after=2, epoch=1)}, Span(1, 1, 2, 3))["f"]["x"].to_pylist() == [1.0]
    assert pe.run({"s": rows(6, after=3, epoch=2)}, Span(2, 2, 3, 4))["f"]["x"].to_pylist() == [0.5]
    assert len(calls) == 2


@pytest.mark.parametrize("column", ["cast(unix_timestamp(now()) as double)", "rand()"])
def test_clock_and_random_functions_are_evaluated_again(spark, column):
    pe, calls = pe_of(spark, lambda s: s.withColumn("x", F.expr(column)))
    two_epochs(pe)
    assert len(calls) == 2


def test_window_within_a_pe_gets_the_rows_of_the_span(spark):
    app = App("chain")
    source = app.source("s", "seq long, k string, x double")

    @app.operator(inputs=source, keep=last_epochs(1))
    def sums(s):
        return s.groupBy("epoch").agg(F.max("seq").alias("seq"), F.sum("x").alias("x"))

    @app.operator(inputs=sums)
    def counted(sums):
        return sums.groupBy("epoch").agg(F.max("seq").alias("seq"), F.count("*").alias("n"), F.sum("x").alias("x"))

    app.sink("out", counted)
    graph = app.graph()
    pe = Pe(spark, graph, ["sums", "counted"], analyse(graph, spark))
    for epoch, values in enumerate([(1, 2), (3, 4), (5, 6)]):
        output = pe.run({"s": rows(*values, after=2 * epoch, epoch=epoch)}, Span(epoch, epoch, 2 * epoch, 2 * epoch + 2))["counted"]
        assert output.to_pylist() == [{"epoch": epoch, "seq": 2 * epoch + 2, "n": 1, "x": float(sum(values))}]


def test_leaf_of_many_bytes_has_more_partitions(spark, monkeypatch):
    monkeypatch.setattr("holdfast.engine.exchangeable_frame.PART_BYTES", 1000)
    schema = source_schema(App("leaf").source("s", "seq long, k string"))
    expected = [{"seq": n, "k": "x" * 100} for n in range(50)]
    leaf = Leaf(spark, schema, pa.Table.from_pylist(expected, arrow_schema(schema)), parts=2)
    assert leaf.frame.rdd.getNumPartitions() == 6
    assert sorted(leaf.frame.toArrow().to_pylist(), key=lambda row: row["seq"]) == expected


@pytest.mark.parametrize("parts", [1, 3])
def test_leaf_has_its_newest_rows(spark, parts):
    app = App("leaf")
    schema = source_schema(app.source("s", "seq long, p struct<k: string, xs: array<double>>, t timestamp"))
    leaf = Leaf(small_session(spark) if parts == 1 else spark, schema, arrow_schema(schema).empty_table(), parts=parts)
    for count in (0, 1, 5, 2, 0):
        expected = [{"seq": n, "p": {"k": str(n), "xs": [n / 2]}, "t": None} for n in range(count)]
        leaf.fill(pa.Table.from_pylist(expected, arrow_schema(schema)))
        assert sorted(leaf.frame.toArrow().to_pylist(), key=lambda row: row["seq"]) == expected
        assert leaf.frame.rdd.getNumPartitions() == parts
