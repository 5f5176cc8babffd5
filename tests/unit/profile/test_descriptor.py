"""The descriptor built from a measurement."""

import numpy as np
import pytest

from holdfast.app import App, last_rows
from holdfast.profile import Measurement, describe
from holdfast.profile.measurement import MeasuredInput, MeasuredPe
from holdfast.profile.rates import Flow

SCHEMA = "seq long, time timestamp, k int"


def shop() -> App:
    """Return an app with two sources, a PE with two output streams, and a PE that reads both of them and a source."""
    app = App("shop")
    orders, prices = app.source("orders", SCHEMA), app.source("prices", SCHEMA)
    large = app.operator(inputs=orders, pe="split", name="large")(lambda rows: rows)
    small = app.operator(inputs=orders, pe="split", name="small")(lambda rows: rows)
    joined = app.operator(inputs=[large, small, prices], keep={prices: last_rows(1)}, correlated=True, name="joined")(
        lambda a, b, c: a
    )
    app.sink("out", joined)
    return app


MEASUREMENT = Measurement(
    pes={
        "split": MeasuredPe({"orders": MeasuredInput(1.0, 2e-6)}, Flow(10.0, 20.0)),
        "joined": MeasuredPe(
            {"large": MeasuredInput(0.5, 4e-6), "small": MeasuredInput(0.1, 8e-6), "prices": MeasuredInput(0.0, 1e-6)},
            Flow(15.0, 25.0),
        ),
    },
    source_counts={"orders": np.array([10, 10, 20, 20]), "prices": np.array([5, 5, 5, 30])},
    step_s=2.0,
    leaving={"orders": 100.0, "prices": 50.0, "large": 25.0, "small": 75.0, "joined": 20.0},
    shares={},
    reading_s={"orders": 1e-6, "prices": 1e-6},
)


def test_descriptor_has_all_measurements():
    descriptor = describe(shop(), MEASUREMENT, level_count=2, nodes=3)
    assert list(descriptor.errors()) == []
    assert descriptor.application == "shop"
    assert [(r.name, r.rate, r.probability) for r in descriptor.sources["orders"].rates] == [("low", 5.0, 0.5), ("high", 10.0, 0.5)]
    split, joined = descriptor.pes["split"], descriptor.pes["joined"]
    assert split.operators == ("large", "small")
    assert (split.stateful, split.correlated, joined.stateful, joined.correlated) == (False, False, True, True)
    assert (split.rate.average, split.rate.peak) == (10.0, 20.0)
    assert descriptor.sinks["out"].inputs == ("joined",)
    assert sorted(descriptor.nodes) == ["node1", "node2", "node3"]


def test_two_streams_of_one_pe_are_one_input():
    joined = describe(shop(), MEASUREMENT).pes["joined"]
    assert set(joined.inputs) == {"split", "prices"}
    assert joined.inputs["split"].selectivity == pytest.approx((25 * 0.5 + 75 * 0.1) / 100)
    assert joined.inputs["split"].cost == pytest.approx((25 * 4e-6 + 75 * 8e-6) / 100)
    assert joined.inputs["prices"].cost == 1e-6


def test_selectivities_multiply_to_the_measured_output():
    descriptor = describe(shop(), MEASUREMENT)
    split = 100 * descriptor.pes["split"].inputs["orders"].selectivity
    joined = split * descriptor.pes["joined"].inputs["split"].selectivity
    assert joined == pytest.approx(25 * 0.5 + 75 * 0.1)


def test_configurations_are_the_combinations_that_occurred():
    descriptor = describe(shop(), MEASUREMENT, level_count=2)
    assert {tuple(sorted(c.rates.items())): c.probability for c in descriptor.configurations} == {
        (("orders", "low"), ("prices", "low")): 0.5,
        (("orders", "high"), ("prices", "low")): 0.25,
        (("orders", "high"), ("prices", "high")): 0.25,
    }
