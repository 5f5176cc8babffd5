"""Dead tasks: their share of the keys is missing from everything that is made of it, and nothing else is."""

import pytest

from holdfast import App
from holdfast.engine.epochs import ByTime, spans_of, with_epochs
from holdfast.engine.task_division import task_of
from holdfast.errors import HoldfastError
from holdfast_papers.ppa.task_failures import run_without

SCHEMA = "seq long, time timestamp, shop int"


@pytest.fixture(scope="module")
def shops(spark):
    """Forty shops in four source tasks, four tasks that read one of them each, two that read two, and one that reads all."""
    app = App("shops", epoch_s=1.0)
    before = app.source("orders", SCHEMA, key="shop", parallelism=4)
    for name, tasks, how in (("checked", 4, None), ("pairs", 2, "merge"), ("all", 1, None)):
        words = {"key": "shop", "parallelism": tasks, **({"partitioning": how} if how else {})}
        before = app.operator(inputs=before, name=name, **words)(lambda orders: orders)
    app.sink("out", before)
    graph = app.graph()
    rows = spark.range(1, 401).selectExpr("id as seq", "timestamp_micros(id * 10000) as time", "cast(id % 40 as int) as shop")
    cut = with_epochs({"orders": rows.cache()}, ByTime(1.0))
    spans = spans_of(cut)
    task = {row.shop: row.task for row in rows.select("shop", task_of(("shop",), 4).alias("task")).distinct().collect()}
    return graph, cut, (spans[0].first, spans[-1].last), task


def left(shops, *failed: str) -> set[int]:
    graph, cut, epochs, _ = shops
    return {row.shop for row in run_without(graph, cut, failed, epochs=epochs)["all"].select("shop").distinct().collect()}


@pytest.mark.parametrize(
    ("failed", "dead"),
    [
        ((), ()),
        (("orders/1",), (1,)),
        (("checked/2",), (2,)),
        (("pairs/1",), (2, 3)),
        (("orders/0", "checked/1", "pairs/1"), (0, 1, 2, 3)),
        (("all/0",), (0, 1, 2, 3)),
    ],
)
def test_only_rows_of_dead_tasks_are_missing(shops, failed, dead):
    assert left(shops, *failed) == {shop for shop, task in shops[3].items() if task not in dead}


def test_unknown_task_cannot_fail(shops):
    graph, cut, epochs, _ = shops
    with pytest.raises(HoldfastError, match=r"task 'pairs/2' does not exist; tasks are: all/0, checked/0"):
        run_without(graph, cut, ["pairs/2"], epochs=epochs)
