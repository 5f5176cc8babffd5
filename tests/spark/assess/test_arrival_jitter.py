"""Arrival orders that vary between runs."""

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_rows
from holdfast.assess.arrival_jitter import jittered
from holdfast.engine.whole_trace import build_whole_trace


def joined():
    """Two inputs that meet in an operator with a memory: each order of b carries the seq of the newest order of a before it."""
    app = App("join")
    orders = app.source("orders", "seq long, time timestamp, customer string, amount double")
    a = app.operator(inputs=orders, name="a")(lambda rows: rows.where("amount % 2 = 0").select("seq", "amount"))
    b = app.operator(inputs=orders, name="b")(lambda rows: rows.where("amount % 2 = 1").select("seq"))

    @app.operator(inputs=[a, b], keep={a: last_rows(1)})
    def newest(a, b):
        before = Window.orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
        both = a.unionByName(b, allowMissingColumns=True).withColumn("kept", F.last("amount", ignorenulls=True).over(before))
        return both.where("amount is null").select("seq", "kept")

    app.sink("out", newest)
    return app


@pytest.mark.filterwarnings("ignore")
def test_arrival_order_varies_within_the_bound_by_seed(spark, orders):
    rows = orders.withColumn("epoch", F.col("seq"))

    def observed(seed):
        graph = jittered(joined().graph(), bound=5, seeds=[seed])
        table = build_whole_trace(graph, {"orders": rows})["newest"].toArrow()
        return dict(zip(table["seq"].to_pylist(), table["kept"].to_pylist(), strict=True))

    one, other = observed(1), observed(2)
    assert one == observed(1) != other
    assert sorted(one) == list(range(1, 40, 2))
    assert all(kept is None or abs(kept - seq) <= 11 for seq, kept in one.items())
    ordered = [kept for _, kept in sorted(one.items()) if kept is not None]
    assert ordered == sorted(ordered)
