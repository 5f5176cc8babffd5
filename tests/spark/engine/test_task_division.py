"""Spark and the runtime assign a row to the same task."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from holdfast import App
from holdfast.engine.analysis import examine
from holdfast.engine.task_division import task_of
from holdfast.log.row_files import partition_numbers
from holdfast.profile.measurement import task_shares

KEYS = {
    "int": [*range(-5, 200), None],
    "bigint": [*range(0, 2**40, 2**33), None],
    "string": [f"key {number}" for number in range(200)] + ["", "ä", None],
    "boolean": [True, False, None],
    "double": [0.1 * number for number in range(-50, 50)] + [0.0, -0.0, 1e30, float("nan"), None],
    "decimal(10,2)": [Decimal(number) / 100 for number in range(0, 2000, 17)] + [None],
    "date": [dt.date(2024, 1, 1) + dt.timedelta(days=day) for day in range(60)] + [None],
    "timestamp": [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=step) for step in range(60)] + [None],
    "struct<a: int, b: string>": [(number, "x") for number in range(20)] + [None],
}


@pytest.mark.parametrize("kind", KEYS)
def test_spark_and_the_runtime_choose_the_same_task(spark, kind):
    frame = spark.createDataFrame([(key,) for key in KEYS[kind]], f"key {kind}")
    rows = frame.select("key", task_of(("key",), 4).alias("task")).toArrow()
    assert rows["task"].to_pylist() == partition_numbers(rows, ("key",), parts=4).tolist()


def test_several_key_columns_choose_the_same_task(spark):
    frame = spark.createDataFrame([(a, f"{b}") for a in range(20) for b in range(5)] + [(None, "x"), (1, None)], "a int, b string")
    rows = frame.select("a", "b", task_of(("a", "b"), 8).alias("task")).toArrow()
    assert rows["task"].to_pylist() == partition_numbers(rows, ("a", "b"), parts=8).tolist()
    assert set(rows["task"].to_pylist()) == set(range(8))


def test_profiled_task_shares_are_those_of_the_runtime(spark):
    app = App("shop", epoch_s=1.0)
    orders = app.source("orders", "seq long, time timestamp, shop string")
    counted = app.operator(inputs=orders, name="counted", key="shop", parallelism=4)(lambda orders: orders)
    app.sink("out", counted)
    frame = spark.range(1000).selectExpr("id as seq", "timestamp_seconds(id) as time", "concat('s', id % 37) as shop")
    rows = frame.toArrow()
    counts = np.bincount(partition_numbers(rows, ("shop",), parts=4), minlength=4)
    assert task_shares(app.graph(), {"orders": frame})["counted"] == pytest.approx(counts / 1000)


def joined(left: str, right: str, *, parallelism: int = 4) -> App:
    app = App("join", epoch_s=1.0)
    prices = app.source("prices", f"seq long, time timestamp, id {left}")
    orders = app.source("orders", f"seq long, time timestamp, id {right}")
    both = app.operator(inputs=[prices, orders], name="both", key="id", parallelism=parallelism)(
        lambda prices, orders: orders.join(prices.select("id"), "id")
    )
    app.sink("out", both)
    return app


@pytest.mark.parametrize(("left", "right"), [("decimal(10,2)", "int"), ("string", "int"), ("double", "int"), ("date", "timestamp")])
def test_parallel_join_on_keys_of_different_types_is_an_error(spark, left, right):
    _, errors = examine(joined(left, right).graph(), spark)
    assert len(errors) == 1
    assert errors[0].startswith("operator 'both' (test_task_division.py:")
    assert f"divides its inputs by 'id', which is {left} in 'prices' and {right} in 'orders'" in errors[0]
    assert "cast one of them" in errors[0]


@pytest.mark.parametrize(("left", "right", "tasks"), [("int", "bigint", 4), ("string", "string", 4), ("decimal(10,2)", "int", 1)])
def test_join_on_keys_that_divide_alike_is_accepted(spark, left, right, tasks):
    assert examine(joined(left, right, parallelism=tasks).graph(), spark)[1] == []
