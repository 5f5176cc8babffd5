"""Why trials cannot share a job."""

from types import SimpleNamespace

import numpy as np

from holdfast.app import App, last_rows
from holdfast.assess.batched import obstacle
from holdfast.assess.campaign_context import TraceKey
from holdfast.assess.fault_reach import find_fault_path
from holdfast.assess.operator_shape import Shape
from holdfast.documents.fault import Loss


def context(*, deterministic, span=1000):
    """Orders priced by the newest price, and smoothed; every stream carries the key."""
    app = App("shop")
    prices = app.source("prices", "seq long, item string")
    orders = app.source("orders", "seq long, item string")
    join = app.operator(inputs=[prices, orders], keep={prices: last_rows(1, by="item")}, name="priced")
    smooth = app.operator(inputs=join(lambda prices, orders: orders), keep=last_rows(4, by="item"), name="smooth")
    app.sink("out", smooth(lambda rows: rows))
    text = SimpleNamespace(name="item", dataType=SimpleNamespace(simpleString=lambda: "string"))
    return SimpleNamespace(
        graph=app.graph(),
        shapes={name: Shape("rows", (("item",),)) for name in ("priced", "smooth")},
        schemas={name: [text] for name in ("prices", "orders", "priced", "smooth")},
        trace_key=TraceKey("item", ("item",), np.zeros(1, np.int64)),
        span=(7, span),
        scores=(),
        deterministic=deterministic,
        groups=lambda operators: [("item",) for _ in operators],
    )


def obstacle_for(target, **changes):
    of = context(**changes)
    fault = Loss(target=(target,), offset=0, tuples=1)
    return obstacle(of, find_fault_path(of.graph, of.shapes, fault, "out"))


def test_varying_arrival_order_prevents_shared_jobs():
    message = obstacle_for("smooth", deterministic=False)
    assert message.startswith("operator 'priced' reads streams whose arrival order varies from run to run, so its output does too")
    assert "with --jitter 0 the order is always the same, and they share jobs" in message
    assert obstacle_for("smooth", deterministic=True) is None
    assert obstacle_for("orders", deterministic=False) is None


def test_widely_spaced_seqs_prevent_shared_jobs():
    message = obstacle_for("orders", deterministic=True, span=10**13)
    assert message == "its seqs, from 7 to 10,000,000,000,006, cover too wide a range to encode the number of a trial as well"
