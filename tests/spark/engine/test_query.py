"""Structured Streaming queries as operators: what they compute, what a fork computes, and which mistakes are named."""

import itertools
import os
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from holdfast.app import App
from holdfast.engine.analysis import analyse, examine
from holdfast.engine.application_check import SampleOptions, check_application
from holdfast.engine.connector.feeds import EpochFile, EpochFiles
from holdfast.engine.query.query_function import FIXED_SETTINGS
from holdfast.engine.query.query_run import QueryRun
from holdfast.errors import OperatorError
from holdfast.log.row_files import sort_rows

LEFT = "seq long, time timestamp, at timestamp, key string, left long"
RIGHT = "seq long, time timestamp, at timestamp, key string, right long"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = {PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}


def windows(left):
    window = F.window("at", "4 seconds", "2 seconds")
    return left.withWatermark("at", "2 seconds").groupBy(window, "key").agg(F.sum("left").alias("sum"))


def sessions(left):
    session = F.session_window("at", "1 second")
    return left.withWatermark("at", "1 second").groupBy(session, "key").agg(F.sum("left").alias("sum"), F.count("*").alias("rows"))


def join(left, right):
    one, other = left.withWatermark("at", "1 second").alias("l"), right.withWatermark("at", "3 seconds").alias("r")
    near = "l.key = r.key and r.at between l.at - interval 1 second and l.at + interval 2 seconds"
    return one.join(other, F.expr(near), "leftOuter").selectExpr("l.key as key", "l.at as at", "r.at as other", "left", "right")


def deduplication(left):
    return left.withWatermark("at", "2 seconds").dropDuplicatesWithinWatermark(["key", "left"]).select("key", "left")


QUERIES = [windows, sessions, join, deduplication]


@pytest.fixture
def application(spark):
    def define(function, *, settings=None, output_mode="append"):
        app = App("queries")
        schemas = {"left": LEFT, "right": RIGHT}
        inputs = [app.source(name, schemas[name]) for name in function.__code__.co_varnames[: function.__code__.co_argcount]]
        query = app.query(inputs=inputs, settings=settings, output_mode=output_mode, name="query")(function)
        app.sink("out", query)
        return query, analyse(app.graph(), spark)

    return define


def random_epochs(rng, *, epochs=9):
    """Return the rows of each epoch and source: out of order, with duplicates, and with empty epochs."""
    number = 0
    result = []
    for epoch in range(epochs):
        of_epoch = {}
        for stream in ("left", "right"):
            rows = []
            for _ in range(rng.choice([0, 1, 20])):
                number += 1
                at_us = epoch * 1_000_000 + rng.randrange(1_000_000) - rng.choice([0, 0, 0, 1, 3]) * 900_000
                rows.append((number, epoch * 1_000_000, max(0, at_us), rng.choice("xyz"), rng.randrange(20)))
            of_epoch[stream] = table(stream, rows + rows[:1])
        result.append(of_epoch)
    return result


def table(stream, rows):
    kinds = {"seq": pa.int64(), "time": pa.timestamp("us", "UTC"), "at": pa.timestamp("us", "UTC"), "key": pa.string()}
    columns = list(zip(*rows, strict=True)) or [[]] * 5
    schema = pa.schema([*kinds.items(), (stream, pa.int64())])
    return pa.table([pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def files_of(epochs, folder):
    """Write the rows of each epoch and source as a file. Return the batches for a QueryRun."""
    batches = []
    for number, tables in enumerate(epochs):
        files = {}
        for stream, rows in tables.items():
            path = folder / stream / f"{number}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, path)
            os.utime(path, (1_000_000 + number, 1_000_000 + number))  # a file source reads in this order
            part = (EpochFile(str(folder), f"{stream}/{path.name}", number, "exact"),) if rows.num_rows else ()
            files[stream] = EpochFiles(part, rows.num_rows)
        batches.append(files)
    return batches


def plain_streaming(spark, query, folder, *, epochs):
    """Return the rows of each batch that Spark gives without holdfast: one file of each source per batch."""
    session = spark.newSession()
    for key, value in {**FIXED_SETTINGS, "spark.sql.shuffle.partitions": "2"}.items():
        session.conf.set(key, value)
    tables = {}
    inputs = []
    for stream in query.inputs:
        schema = session.read.parquet(str(folder / stream)).schema
        reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        inputs.append(reader.parquet(str(folder / stream)).drop("seq"))
    writer = query.function(*inputs).writeStream.outputMode(query.output_mode)
    writer = writer.foreachBatch(lambda rows, number: tables.update({number: rows.toArrow()}))
    running = writer.option("checkpointLocation", str(folder / "plain")).trigger(availableNow=True).start()
    running.awaitTermination()
    assert sorted(tables) == list(range(epochs))
    return [tables[number] for number in range(epochs)]


def only(batch, query):
    return {stream: batch[stream] for stream in query.inputs}


def require_same_as_plain(spark, application, tmp_path, function, seed, settings=None):
    rng = random.Random(seed)
    query, schemas = application(function, settings=settings)
    epochs = random_epochs(rng)
    batches = files_of(epochs, tmp_path)
    expected = plain_streaming(spark, query, tmp_path, epochs=len(epochs))
    run = QueryRun(spark, query, schemas, tmp_path / "run-0")
    rows = []
    for number, batch in enumerate(batches):
        event = rng.choice(["none", "none", "restart", "fork", "fork while running"]) if number else "none"
        if event == "restart":
            run.stop()
        elif event != "none":
            before, run = run, run.fork(tmp_path / f"run-{number}")
            if event == "fork while running":
                list(run.process([only(batches[-1], query)]))  # the live head reads something else, and is dropped
                run.remove()
                run = before
            else:
                before.remove()
        rows += run.process([only(batch, query)])
    run.remove()
    assert sum(part.num_rows for part in expected) > 0
    for number, (ours, theirs) in enumerate(zip(rows, expected, strict=True)):
        assert sort_rows(ours).to_pylist() == sort_rows(theirs.cast(ours.schema)).to_pylist(), number


@pytest.mark.parametrize("function", QUERIES, ids=lambda function: function.__name__)
def test_forked_query_gives_the_rows_of_plain_streaming(spark, application, tmp_path, function):
    require_same_as_plain(spark, application, tmp_path, function, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("store", ["memory", "rocksdb"])
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("function", QUERIES, ids=lambda function: function.__name__)
def test_forked_query_gives_the_rows_of_plain_streaming_for_more_streams(spark, application, tmp_path, function, seed, store):
    require_same_as_plain(spark, application, tmp_path, function, seed, settings=ROCKSDB if store == "rocksdb" else None)


def test_fork_keeps_the_watermarks_of_both_inputs(spark, application, tmp_path):
    """Spark's checkpoint has only the lower watermark. A fork that did not know the higher one would stand still here."""

    def rows(stream, *seconds):
        return table(stream, [(1, 0, second * 1_000_000, f"k{second}", second) for second in seconds])

    epochs = [
        {"left": rows("left", 1, 20), "right": rows("right", 2)},
        {"left": rows("left"), "right": rows("right", 10)},  # the lower watermark rises without a row of the other input
        {"left": rows("left"), "right": rows("right")},
    ]
    batches = files_of(epochs, tmp_path)
    query, schemas = application(join)
    whole = QueryRun(spark, query, schemas, tmp_path / "whole")
    expected = list(whole.process(batches[:1]))
    fork = whole.fork(tmp_path / "fork")
    expected += whole.process(batches[1:])
    assert [part.num_rows for part in expected] == [0, 0, 1]
    assert [part.to_pylist() for part in fork.process(batches[1:])] == [part.to_pylist() for part in expected[1:]]
    whole.remove()
    fork.remove()


def failing(left):
    return left.select(F.expr("if(left = 7, raise_error('unlucky'), left)").alias("left"))


def test_failed_query_is_named_and_continues(spark, application, tmp_path):
    epochs = [{"left": table("left", [(1, 0, 0, "k", value)])} for value in (1, 7, 2)]
    first, bad, good = files_of(epochs, tmp_path)
    query, schemas = application(failing)
    run = QueryRun(spark, query, schemas, tmp_path / "run")
    assert [part.to_pylist() for part in run.process([first])] == [[{"left": 1}]]
    with pytest.raises(OperatorError, match=r"query 'query' \(test_query.py:\d+\) failed: .*unlucky"):
        list(run.process([bad]))
    assert [part.to_pylist() for part in run.process([good])] == [[{"left": 2}]]
    run.remove()


def batch_result(left):
    return left.sparkSession.range(3)


def action(left):
    rows = left.count()
    return left.limit(rows)


def own_sink(left):
    return left.writeStream.format("noop").start()


def own_source(left):
    return left.select("key").unionByName(left.sparkSession.readStream.format("rate").load().selectExpr("string(value) as key"))


def unbounded_aggregate(left):
    return left.groupBy("key").count()


def with_seq(left):
    return left.withColumn("seq", F.lit(1).cast("long"))


def unknown_column(left):
    return left.select("keys")


@pytest.mark.parametrize(
    ("function", "line", "message"),
    [
        (batch_result, 0, "returns a batch DataFrame"),
        (action, 1, r"runs an action such as count\(\)"),
        (own_sink, 0, "writes its result itself"),
        (own_source, 0, "reads a streaming source itself"),
        (unbounded_aggregate, 0, "cannot run with the output mode 'append': .*without watermark"),
        (with_seq, 0, "returns the column 'seq', a name that holdfast adds"),
        (unknown_column, 1, "raised AnalysisException: .*keys"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_mistake_in_a_query_is_named_with_its_line(spark, function, line, message):
    app = App("queries")
    query = app.query(inputs=app.source("left", LEFT))(function)
    app.sink("out", query)
    _, errors = examine(app.graph(), spark)
    place = f"test_query.py:{function.__code__.co_firstlineno + line}"
    assert len(errors) == 1
    assert re.search(message, errors[0]), errors
    assert f"query '{function.__name__}' ({place})" in errors[0]


CALLS = itertools.count()


def with_chance(left):
    return left.withColumn("chance", F.lit(next(CALLS)))


def check(spark, tmp_path, function):
    """Check an application on a trace in which every eighth row is eight seconds late."""
    app = App("queries")
    app.sink("out", app.query(inputs=app.source("left", LEFT))(function))
    rows = [(n + 1, n * 250_000, max(0, n * 250_000 - 8_000_000 * (n % 8 == 7)), "xyz"[n % 3], n % 20) for n in range(96)]
    pq.write_table(table("left", rows), tmp_path / "trace.parquet")
    sampling = SampleOptions(str(tmp_path / "trace.parquet"), None, 96, 6, 1)
    return check_application(spark, app, sampling=sampling, progress=lambda done, total: None)


def test_check_notes_that_late_rows_depend_on_the_epochs(spark, tmp_path):
    result = check(spark, tmp_path, windows)
    assert result.errors == []
    (note,) = result.warnings
    assert "query 'windows' (test_query.py:" in note and "depends on where epochs end" in note and "late for the watermark" in note


def test_check_reports_a_query_that_cannot_be_repeated(spark, tmp_path):
    (error,) = check(spark, tmp_path, with_chance).errors
    assert "query 'with_chance' (test_query.py:" in error and "must give the same rows when its epochs are repeated" in error
