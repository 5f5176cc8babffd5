"""A graph with a rarely used operator, and the seqs of its streams."""

import numpy as np

from holdfast.app import App
from holdfast.assess.case import OutageLocator, Tempo


def rare_alerts():
    """A graph, and 100 orders of which 4 reach `large`, the last of them at seq 60."""
    app = App("orders")
    orders = app.source("orders", "seq long, time timestamp, amount double")
    app.sink("out", app.operator(inputs=orders, name="large")(lambda rows: rows.where("amount > 9")))
    app.sink("shown", app.operator(inputs="large", name="alert")(lambda rows: rows))
    seqs = {"orders": np.arange(100), "large": np.array([10, 20, 40, 60])}
    return app.graph(), OutageLocator(seqs["orders"], seqs, Tempo(10.0, 20.0))
