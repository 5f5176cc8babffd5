"""Everything that calling the operators on empty inputs can show, told with its place."""

import pytest
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs, last_rows, state_table
from holdfast.engine.analysis import analyse, check_score, examine, state_of
from holdfast.errors import ApplicationError


def analysed(spark, function, *, schema="seq long, k int, x double", **settings):
    app = App("shop")
    source = app.source("s", schema)
    operator = app.operator(inputs=source, name="op", **settings)(function)
    app.sink("out", operator)
    return operator, examine(app.graph(), spark)


def only_error(spark, function, **settings) -> str:
    """The one error found, without the operator's name and place."""
    operator, (_, errors) = analysed(spark, function, **settings)
    assert len(errors) == 1, errors
    who = f"operator 'op' ({operator.origin})"
    assert errors[0].startswith(who)
    return errors[0].removeprefix(who).strip()


def same(rows):
    return rows


def test_schemas_are_inferred_without_running_a_job(spark):
    table = state_table("k int, total double", by="k")
    _, (schemas, errors) = analysed(spark, lambda rows, state: (rows.select("seq", "k"), state), keep=table)
    assert errors == []
    assert schemas["s"].names == ["seq", "k", "x", "epoch"]
    assert schemas["op"].names == ["seq", "k"]
    assert schemas[state_of("op")].names == ["k", "total"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda rows: None, "must return a DataFrame, got nothing (None)"),
        (lambda rows: 7, "must return a DataFrame, got a int"),
        (lambda rows: rows.collect(), "must return a DataFrame, got a list"),
        (lambda rows: 1 / 0, "raised ZeroDivisionError: division by zero"),
        (
            lambda rows: rows.drop("seq"),
            "returns no column 'seq'; every tuple must have the seq of the tuple that triggered it, got k",
        ),
        (lambda rows: rows.select("seq", "k", "k"), "returns column 'k' 2 times; select the one you mean"),
        (lambda rows: rows.select("seq", "k", F.col("k").alias("K")), "returns column 'k' 2 times; select the one you mean"),
        (lambda rows: rows.withColumn("seq", F.col("seq").cast("int")), "returns 'seq' as int; it must stay a bigint"),
        (lambda rows: rows.withColumn("epoch", F.lit("a")), "returns 'epoch' as string; it must stay a bigint"),
    ],
)
def test_function_that_returns_no_stream_is_reported(spark, function, message):
    assert only_error(spark, function).startswith(message)


def test_missing_column_is_reported_without_the_spark_plan(spark):
    message = only_error(spark, lambda rows: rows.select("seq", "price"))
    assert message.startswith("raised AnalysisException: [UNRESOLVED_COLUMN")
    assert "price" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda rows, state: rows, "takes a state table, so it must return (output, state), got a DataFrame"),
        (lambda rows, state: (rows, state, 1), "takes a state table, so it must return (output, state), got a tuple"),
        (lambda rows, state: (rows, None), "must return its new state table as a DataFrame, got nothing (None)"),
        (lambda rows, state: (None, state), "must return a DataFrame, got nothing (None)"),
        (
            lambda rows, state: (rows, state.withColumn("more", F.lit(1))),
            "must return its state table with the columns k int, total double, got k int, total double, more int",
        ),
        (
            lambda rows, state: (rows, state.withColumn("total", F.lit(1))),
            "must return its state table with the columns k int, total double, got k int, total int",
        ),
    ],
)
def test_function_must_return_its_state_table(spark, result, message):
    assert only_error(spark, result, keep=state_table("k int, total double", by="k")) == message


def test_state_table_columns_may_be_reordered(spark):
    table = state_table("k int, total double", by="k")
    _, (_, errors) = analysed(spark, lambda rows, state: (rows, state.select("total", "k")), keep=table)
    assert errors == []


def test_invalid_state_table_schema_is_reported(spark):
    assert only_error(spark, lambda r, s: (r, s), keep=state_table("k nonsense")).startswith("has a state table that Spark cannot")
    assert only_error(spark, lambda r, s: (r, s), keep=state_table("k int", by="page")) == (
        "has a state table by 'page', which is not among its columns: k"
    )


def test_keep_rule_on_a_missing_column_is_reported(spark):
    assert only_error(spark, same, keep=last_rows(2, by=("k", "ticker"))) == (
        "keeps last_rows(2, by=k, ticker) of stream 's', which has no column 'ticker'; its columns are: seq, k, x, epoch"
    )


def test_keeping_epochs_of_a_stream_without_epoch_is_reported(spark):
    app = App("shop")
    first = app.operator(inputs=app.source("s", "seq long"), name="first")(lambda rows: rows.select("seq"))
    second = app.operator(inputs=first, keep=last_epochs(2), name="second")(same)
    app.sink("out", second)
    assert examine(app.graph(), spark)[1] == [
        f"operator 'second' ({second.origin}) keeps last_epochs(2) of stream 'first', which has no column 'epoch'; "
        "select it in operator 'first' too"
    ]


def test_windowed_output_must_have_an_epoch(spark):
    assert only_error(spark, lambda rows: rows.select("seq"), keep=last_epochs(2)) == (
        "keeps epochs, so its output must have the column 'epoch', got seq"
    )


def test_operator_after_a_window_must_pass_on_the_epoch(spark):
    app = App("shop")
    windows = app.operator(inputs=app.source("s", "seq long"), keep=last_epochs(2), name="windows")(same)
    bare = app.operator(inputs=windows, name="bare")(lambda rows: rows.select("seq"))
    app.sink("out", bare)
    assert examine(app.graph(), spark)[1] == [
        f"operator 'bare' ({bare.origin}) reads a stream whose rows belong to epochs, so its output must have the column 'epoch', "
        "got seq"
    ]


def test_key_that_no_input_has_is_reported(spark):
    assert only_error(spark, same, key="ticker") == "has the key 'ticker', which none of its inputs has"


@pytest.mark.parametrize(
    ("schema", "key", "message"),
    [
        ("seq long, k nonsense", (), r"its schema, 'seq long, k nonsense', cannot be read by Spark: "),
        ("seq int", (), r"has 'seq' as int; it must be 'seq long'"),
        ("seq long, time string", (), r"has 'time' as string; it must be 'time timestamp'"),
        ("seq long", "k", r"has the key 'k', but its columns are: seq"),
    ],
)
def test_invalid_source_schema_is_reported(spark, schema, key, message):
    app = App("shop")
    app.sink("out", app.source("s", schema, key=key))
    with pytest.raises(ApplicationError, match=r"^application 'application': source 's' \(test_analysis.py:\d+\)") as caught:
        analyse(app.graph(), spark)
    assert message in str(caught.value)


def test_operators_behind_a_broken_one_are_skipped(spark):
    app = App("shop")
    source = app.source("s", "seq long, k int")
    bad = app.operator(inputs=source, name="bad")(lambda rows: None)
    app.sink("a", app.operator(inputs=bad, name="behind")(lambda rows: 1 / 0))
    app.sink("b", app.operator(inputs=source, name="worse", keep=last_rows(1, by="x"))(same))
    with pytest.raises(ApplicationError) as caught:
        analyse(app.graph(), spark, name="shop")
    assert [error.split("'")[1] for error in caught.value.errors] == ["bad", "worse"]


@pytest.mark.parametrize("expression", ["sum(x)", "count(*)", "avg(k)", "cast(sum(x) as decimal(10, 2))", "max(k)"])
def test_numbers_are_scores(spark, expression):
    app = App("shop")
    app.sink("out", app.source("s", "seq long, k int, x double"))
    graph = app.graph()
    assert check_score(graph, spark, analyse(graph, spark), sink="out", expression=expression) == []


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("max(name)", "the score 'max(name)' of sink 'out' is a string; it must be a number"),
        (
            "max(time) - min(time)",
            "the score 'max(time) - min(time)' of sink 'out' is a interval day to second; it must be a number",
        ),
        ("sum(price)", "the score 'sum(price)' of sink 'out' cannot be computed as an aggregate of its rows: [UNRESOLVED_COLUMN"),
        ("seq", "the score 'seq' of sink 'out' cannot be computed as an aggregate of its rows: [MISSING_GROUP_BY"),
        ("sum(", "the score 'sum(' of sink 'out' cannot be computed as an aggregate of its rows: [PARSE_SYNTAX_ERROR]"),
    ],
)
def test_score_must_be_a_number(spark, expression, message):
    app = App("shop")
    app.sink("out", app.source("s", "seq long, time timestamp, name string"))
    graph = app.graph()
    errors = check_score(graph, spark, analyse(graph, spark), sink="out", expression=expression)
    assert len(errors) == 1
    assert errors[0].startswith(message)
