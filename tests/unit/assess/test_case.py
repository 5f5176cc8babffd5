"""Cases and trials, and where in the trace their outages lie."""

import numpy as np
import pytest

from holdfast.app import App
from holdfast.assess.case import Case, OutageLocator, Tempo, Trial
from holdfast.errors import HoldfastError


def test_protected_group_loses_output_until_failover():
    case = Case(("a", "b"), 2.0)
    assert (case.side, case.outage(16.0), case.outage(0.5), case.name) == ("output", 2.0, 0.5, "a+b (replica, 2 s)")
    assert (Case(("a",)).side, Case(("a",)).outage(16.0)) == ("input", 16.0)


def trace_locator():
    app = App("shop")
    orders = app.source("orders", "seq long")
    large = app.operator(inputs=orders, name="large")(lambda rows: rows)
    app.sink("out", app.operator(inputs=large, name="alert")(lambda rows: rows))
    seqs = {"orders": np.arange(100), "large": np.arange(0, 100, 4)}
    return app.graph(), OutageLocator(seqs["orders"], seqs, Tempo(100.0, 400.0))


def test_rate_of_an_operator_is_its_share_of_the_sources():
    graph, locator = trace_locator()
    assert locator.tempo_of(graph, Case(("alert",))) == Tempo(25.0, 100.0)
    assert locator.tempo_of(graph, Case(("orders",))) == Tempo(100.0, 400.0)


def test_affected_stretch_counts_source_tuples():
    gaps = OutageLocator(np.arange(0, 1000, 10), {}, Tempo(1.0, 1.0))
    assert gaps.last(5, 1) == 50
    assert gaps.last(5, 20) == 240
    assert gaps.last(95, 20) == 990


def test_outage_counts_the_targets_own_tuples():
    graph, locator = trace_locator()
    assert locator.locate(graph, Case(("orders",)), offset=10, tuples=5) == (10, 14)
    assert locator.locate(graph, Case(("alert",)), offset=10, tuples=5) == (10, 28)


def test_units_that_fail_at_once_fail_for_the_same_time():
    graph, locator = trace_locator()
    for failing in (("orders",), ("alert",), ("large", "alert")):
        case = Case(failing, at_once=True)
        assert locator.tempo_of(graph, case) == Tempo(100.0, 400.0)
        assert locator.locate(graph, case, offset=10, tuples=5) == (10, 14)
        assert locator.room(graph, case, tuples=5) == 96
    assert locator.count(graph, Case(("alert",), at_once=True)) == 25, "it has no more tuples to lose than before"


def test_outage_outside_the_trace_is_rejected():
    graph, locator = trace_locator()
    with pytest.raises(HoldfastError, match="offset 100 lies past the end of the trace, which has 100 source tuples"):
        locator.locate(graph, Case(("orders",)), offset=100, tuples=1)
    with pytest.raises(
        HoldfastError, match="an outage of 30 tuples of alert at offset 10 is longer than the trace, where 22 are left"
    ):
        locator.locate(graph, Case(("alert",)), offset=10, tuples=30)


def test_trials_have_readable_names():
    assert Trial("vwap", 10, 0.5, "peak", 2).name == "vwap | 10 | 0.5 s peak | 2"
