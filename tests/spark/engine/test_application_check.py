"""`holdfast check` names the error of each wrong operator, and accepts correct ones."""

import random
import time
import uuid
from datetime import datetime

import pyarrow as pa
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_epochs, last_rows, state_table
from holdfast.engine.analysis import analyse, examine
from holdfast.engine.application_check import FirstLawCheck
from holdfast.engine.forbidden_calls import forbidden_calls
from holdfast.engine.schema import to_frame

SCHEMA = "seq long, time timestamp, k int, x double"
BY_K = last_rows(2, by="k")
TOTALS = state_table("k int, n long", by="k")


def rows_of_trace(count: int = 400, per_epoch: int = 8) -> pa.Table:
    rng = random.Random(5)
    seqs = range(1, count + 1)
    times = pa.array([1_700_000_000_000_000 + seq * 1_000_000 // per_epoch for seq in seqs], pa.timestamp("us", "UTC"))
    keys = pa.array([rng.randrange(3) for _ in seqs], pa.int32())
    return pa.table({"seq": seqs, "time": times, "k": keys, "x": [float(rng.randrange(50)) for _ in seqs]})


def by_key():
    return Window.partitionBy("k").orderBy("seq")


def average(rows, back):
    return rows.select("seq", "k", F.avg("x").over(by_key().rowsBetween(-back, 0)).alias("x"))


def window_count(rows, epochs):
    spread = rows.withColumn("epoch", F.explode(F.expr(f"sequence(epoch, epoch + {epochs - 1})")))
    return spread.groupBy("epoch", "k").agg(F.max("seq").alias("seq"), F.count("*").alias("n"))


def recent_pairs(rows, seconds):
    before = rows.selectExpr("seq as other", "time as other_time", "k as other_k")
    on = F.expr(f"other < seq and other_k = k and other_time > time - interval {seconds} seconds")
    return rows.join(before, on).groupBy("epoch", "seq").agg(F.count("*").alias("n"))


def running_count(rows, state, *, times=1, remember=True):
    before = F.coalesce(F.col("n"), F.lit(0).cast("long"))
    output = rows.join(state, "k", "left").select("seq", "k", (before + F.count("*").over(by_key())).alias("n"))
    seen = rows.groupBy("k").agg((F.count("*") * times).alias("n"))
    after = seen.unionByName(state).groupBy("k").agg(F.sum("n").alias("n"))
    return output, after if remember else state


def action_collect(rows):
    return rows.where(F.col("x") > max((row["x"] for row in rows.collect()), default=0) / 2)


def action_count(rows):
    return rows.withColumn("n", F.lit(rows.count()))


def action_pandas(rows):
    return rows.withColumn("mean", F.lit(float(rows.select("x").toPandas()["x"].sum())))


def action_show(rows):
    rows.groupBy("k").count().show()
    return rows


def action_write(rows):
    rows.write.format("noop").mode("overwrite").save()
    return rows


def action_that_fails_on_no_rows(rows):
    return rows.where(F.col("x") > max(row["x"] for row in rows.collect()))


def age_in_udf(rows):
    @F.udf("double")
    def age(moment):
        return (datetime.now() - moment).total_seconds()

    return rows.select("seq", age("time").alias("age"))


def random_in_udf(rows):
    @F.udf("double")
    def noisy(x):
        import random as generator

        return x + generator.random()

    return rows.select("seq", noisy("x").alias("x"))


def random_in_arrow(rows):
    def noisy(batches):
        for batch in batches:
            yield pa.record_batch([batch["seq"], pa.array([draw() for _ in range(batch.num_rows)])], names=["seq", "x"])

    return rows.mapInArrow(noisy, "seq long, x double")


def draw():
    return random.gauss(0, 1)


CALLS = 0


def counting_calls(rows):
    global CALLS
    CALLS += 1
    return rows.withColumn("call", F.lit(CALLS))


def hidden_random(rows):
    """Draws random numbers in a way that its code does not show."""

    def noisy(batches):
        for batch in batches:
            numbers = getattr(__import__("random"), "ran" + "dom")
            yield pa.record_batch([batch["seq"], pa.array([numbers() for _ in range(batch.num_rows)])], names=["seq", "x"])

    return rows.mapInArrow(noisy, "seq long, x double")


def latest_value(rows):
    so_far = by_key().rowsBetween(Window.unboundedPreceding, 0)
    return rows.withColumn("big", F.last(F.when(F.col("x") > 40, F.col("x")), ignorenulls=True).over(so_far))


FORBIDDEN = {
    "action_collect": (action_collect, "uses an action, 'collect'"),
    "action_count": (action_count, "uses an action, 'count'"),
    "action_pandas": (action_pandas, "uses an action, 'toPandas'"),
    "action_show": (action_show, "uses an action, 'show'"),
    "action_write": (action_write, "uses an action, 'write'"),
    "clock_sql": (lambda rows: rows.withColumn("at", F.current_timestamp()), "uses the clock, 'current_timestamp'"),
    "clock_filter": (lambda rows: rows.where("time > now() - interval 1 hour"), "uses the clock, 'now'"),
    "clock_python": (lambda rows: rows.withColumn("at", F.lit(time.time())), "uses the clock, 'time.time'"),
    "clock_udf": (age_in_udf, "uses the clock, 'datetime.datetime.now'"),
    "random_sql": (lambda rows: rows.withColumn("r", F.rand(3)), "uses randomness, 'rand'"),
    "random_uuid": (lambda rows: rows.withColumn("id", F.expr("uuid()")), "uses randomness, 'uuid'"),
    "random_sample": (lambda rows: rows.sample(0.5), "uses randomness, 'sample'"),
    "random_python": (lambda rows: rows.withColumn("id", F.lit(str(uuid.uuid4()))), "uses randomness, 'uuid.uuid4'"),
    "random_udf": (random_in_udf, "uses randomness, 'random.random'"),
    "random_arrow": (random_in_arrow, "uses randomness, 'random.gauss'"),
    "numbered": (lambda rows: rows.withColumn("i", F.monotonically_increasing_id()), "randomness, 'monotonically_increasing_id'"),
    "global_count": (counting_calls, "uses a global variable, 'CALLS'"),
}
ORDER = "it depends on the order of rows"
AHEAD = "it looks ahead"
BREAKING = {
    "rows_short": (lambda rows: average(rows, 5), BY_K, "last_rows(2, by=k) keeps: last_rows(5, by=k) would do"),
    "rows_none": (lambda rows: average(rows, 3), None, "keeps none: last_rows(3, by=k) would do"),
    "rows_by_nothing": (lambda rows: average(rows, 4), last_rows(4), "last_rows(4, by=nothing) keeps: last_rows(4, by=k) would do"),
    "rows_latest": (latest_value, last_rows(1, by="k"), "looks further back than last_rows(1, by=k) keeps: last_rows("),
    "epochs_short": (lambda rows: window_count(rows, 6), last_epochs(4), "last_epochs(4) keeps: last_epochs(5) would do"),
    "epochs_none": (lambda rows: recent_pairs(rows, 4), None, "keeps none: last_epochs("),
    "epochs_join": (
        lambda rows: recent_pairs(rows, 10),
        last_epochs(5),
        "last_epochs(5) keeps: last_epochs(10) would do",
    ),
    "state_twice": (lambda rows, state: running_count(rows, state, times=2), TOTALS, "each row must be counted once"),
    "state_forgotten": (lambda rows, state: running_count(rows, state, remember=False), TOTALS, "its state table must contain"),
    "ahead_lead": (
        lambda rows: rows.withColumn("x", F.lead("x").over(by_key())),
        BY_K,
        f"{AHEAD}: later rows change its output ('lead(",
    ),
    "ahead_frame": (lambda rows: rows.withColumn("m", F.max("x").over(Window.partitionBy("k"))), BY_K, f"{AHEAD}: later rows"),
    "ahead_total": (
        lambda rows: rows.groupBy("k").agg(F.max("seq").alias("seq"), F.sum("x").alias("x")),
        None,
        f"{AHEAD}: later rows change its output (a groupBy without the column 'epoch')",
    ),
    "ahead_limit": (lambda rows: rows.orderBy(F.desc("x"), "seq").limit(9), None, AHEAD),
    "order_list": (lambda rows: rows.groupBy("epoch").agg(F.max("seq").alias("seq"), F.collect_list("x").alias("x")), None, ORDER),
    "order_first": (lambda rows: rows.groupBy("epoch").agg(F.max("seq").alias("seq"), F.first("x").alias("x")), None, ORDER),
    "order_ties": (
        lambda rows: rows.withColumn("place", F.row_number().over(Window.partitionBy("epoch").orderBy("k"))),
        None,
        ORDER,
    ),
    "order_duplicates": (lambda rows: rows.dropDuplicates(["epoch", "k"]), None, ORDER),
    "hidden_random": (hidden_random, None, "it uses random numbers, the clock, or values that it keeps between calls"),
    "invented": (lambda rows: rows.select((F.col("seq") + 1000).alias("seq"), "x"), None, "a row must carry the seq of the tuple"),
}
CORRECT = {
    "filtered": (lambda rows: rows.where("x > 3"), None),
    "averaged": (lambda rows: average(rows, 2), BY_K),
    "generous": (lambda rows: average(rows, 1), last_rows(4, by="k")),
    "windowed": (lambda rows: window_count(rows, 6), last_epochs(5)),
    "counted": (running_count, TOTALS),
    "per_epoch": (
        lambda rows: rows.groupBy("epoch").agg(F.max("seq").alias("seq"), F.array_sort(F.collect_set("k")).alias("ks")),
        None,
    ),
    "last_big": (lambda rows: average(rows.where("x > 40"), 1), last_rows(60, by="k")),
    "paired": (lambda rows: recent_pairs(rows, 4), last_epochs(5)),
}


def app_of(operators):
    app = App("checked", epoch_s=1.0)
    source = app.source("s", SCHEMA)
    for name, (function, keep) in operators.items():
        app.sink(f"{name}_out", app.operator(inputs=source, keep=keep, name=name)(function))
    return app.graph()


def test_forbidden_calls_are_named(spark):
    graph = app_of({name: (function, None) for name, (function, _) in FORBIDDEN.items()})
    calls = forbidden_calls(spark, graph, examine(graph, spark)[0])
    texts = {call.operator.name: str(call) for call in calls}
    assert {name for name, (_, words) in FORBIDDEN.items() if words not in texts.get(name, "")} == set()
    assert "test_application_check.py:" in texts["action_collect"]


def test_action_that_fails_on_empty_input_is_named(spark):
    graph = app_of({"greedy": (action_that_fails_on_no_rows, None)})
    schemas, errors = examine(graph, spark)
    assert "max() " in errors[0]
    (call,) = forbidden_calls(spark, graph, schemas)
    assert "uses an action, 'collect'" in str(call)


def test_correct_operators_use_nothing_forbidden(spark):
    graph = app_of(CORRECT)
    assert forbidden_calls(spark, graph, examine(graph, spark)[0]) == []


def report_on(spark, operators):
    graph = app_of(operators)
    check = FirstLawCheck(spark, graph, analyse(graph, spark), epoch_s=1.0, parts=3, seed=1)
    frames = {"s": to_frame(spark, rows_of_trace())}
    return check.report(frames, rows=4000, only=set(operators), progress=lambda *_: None)


def error_of(report, name):
    return next((error for error in report.errors if f"operator '{name}'" in error), "no error")


def unexplained(report, names):
    return {name for name in names if BREAKING[name][2] not in error_of(report, name)}


SAMPLE = ("rows_short", "epochs_short", "ahead_lead", "order_list")
"""One operator for each of the main causes. The others run with the long tests."""


def test_each_cause_is_named_and_correct_operators_are_accepted(spark):
    report = report_on(
        spark, {name: BREAKING[name][:2] for name in SAMPLE} | {name: CORRECT[name] for name in ("windowed", "counted")}
    )
    assert unexplained(report, SAMPLE) == set()
    assert len(report.errors) == len(SAMPLE)


@pytest.mark.long
def test_every_breach_is_explained(spark):
    report = report_on(spark, {name: each[:2] for name, each in BREAKING.items()})
    assert unexplained(report, BREAKING) == set()


@pytest.mark.long
def test_correct_operators_are_accepted(spark):
    assert report_on(spark, CORRECT).errors == []


def test_short_trace_leaves_rules_unexercised(spark):
    graph = app_of({"windowed": CORRECT["windowed"]})
    check = FirstLawCheck(spark, graph, analyse(graph, spark), epoch_s=1.0, parts=3, seed=1)
    frames = {"s": to_frame(spark, rows_of_trace(24))}
    report = check.report(frames, rows=4000, only={"windowed"}, progress=lambda *_: None)
    assert report.errors == []
    (warning,) = report.warnings
    assert warning.startswith("last_epochs(5) of operator 'windowed' is not exercised: the sample needs rows of 's' in more than 6")
