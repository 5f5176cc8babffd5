"""The profile of an advice is measured once and read again when the advice is resumed."""

import numpy as np
import pytest

from holdfast.advise.profile import load_or_measure_profile
from holdfast.app import App
from holdfast.errors import HoldfastError
from holdfast.profile.measurement import MeasuredInput, MeasuredPe, Measurement
from holdfast.profile.rates import flow

SUBJECT = {"application": "shop", "trace_hash": "1", "columns": None, "seqs": [1, 100]}


def shop():
    app = App("shop")
    orders = app.source("orders", "seq long, price double")
    paid = app.operator(inputs=orders, name="paid", pe="till")(lambda orders: orders)
    total = app.operator(inputs=paid, name="total", pe="till")(lambda paid: paid)
    app.sink("out", app.operator(inputs=total, name="last")(lambda total: total))
    return app


@pytest.fixture
def measured(monkeypatch):
    """How often it was measured; every time everything costs more."""
    calls = []

    def measure(spark, app, frames, *, progress):
        calls.append(app.name)
        counts, cost_s = np.full(10, 100), 0.001 * len(calls)
        rate = flow(counts, step_s=1.0)
        pes = {
            "till": MeasuredPe({"orders": MeasuredInput(1.0, 2 * cost_s)}, rate),
            "last": MeasuredPe({"total": MeasuredInput(1.0, cost_s)}, rate),
        }
        leaving = dict.fromkeys(("orders", "paid", "total", "last"), 100.0)
        return Measurement(pes, {"orders": counts}, 1.0, leaving, {}, {"orders": cost_s})

    monkeypatch.setattr("holdfast.advise.profile.measure", measure)
    return calls


def test_resumed_advice_reads_its_profile(measured, tmp_path):
    first = load_or_measure_profile(None, shop(), {}, SUBJECT, tmp_path)
    again = load_or_measure_profile(None, shop(), {}, SUBJECT, tmp_path)
    assert (again.cpu, again.topology, again.descriptor) == (first.cpu, first.topology, first.descriptor)
    assert measured == ["shop"]
    assert (tmp_path / "descriptor.yaml").exists() and (tmp_path / "topology.yaml").exists()


def test_each_subject_has_its_own_profile(measured, tmp_path):
    first = load_or_measure_profile(None, shop(), {}, SUBJECT, tmp_path)
    other = load_or_measure_profile(None, shop(), {}, {**SUBJECT, "trace_hash": "2"}, tmp_path)
    assert other.cpu["last"] == pytest.approx(2 * first.cpu["last"])
    assert load_or_measure_profile(None, shop(), {}, SUBJECT, tmp_path) == first
    assert len(measured) == 2


def test_cpu_of_fused_operators_is_that_of_their_pe(measured, tmp_path):
    cpu = load_or_measure_profile(None, shop(), {}, SUBJECT, tmp_path).cpu
    assert cpu == {"orders": pytest.approx(0.1), "paid+total": pytest.approx(0.2), "last": pytest.approx(0.1)}


def test_damaged_profile_is_reported(measured, tmp_path):
    load_or_measure_profile(None, shop(), {}, SUBJECT, tmp_path)
    (kept,) = tmp_path.glob("profile-*.json")
    kept.write_text("{")
    with pytest.raises(HoldfastError, match=r"profile-.*json' is damaged; give another folder"):
        load_or_measure_profile(None, shop(), {}, SUBJECT, tmp_path)
