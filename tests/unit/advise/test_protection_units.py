"""Protection units: fused operators fail, are protected and are paid for together."""

import pytest

from holdfast.advise.protection_units import choices_of, tasks_of, units_of, whole_units
from holdfast.app import App
from holdfast.app.task_topology import topology_of


def same(*frames):
    return frames[0]


@pytest.fixture
def graph():
    """rows feed clean and mean, which are fused, and raw; last joins what leaves them; echo only repeats clean."""
    app = App("fused")
    rows = app.source("rows", "seq long, time timestamp, key string, x double", key="key", parallelism=2)
    many = {"key": "key", "parallelism": 2}
    clean = app.operator(inputs=rows, name="clean", pe="first", **many)(same)
    mean = app.operator(inputs=clean, name="mean", pe="first", **many)(same)
    raw = app.operator(inputs=rows, name="raw", **many)(same)
    echo = app.operator(inputs=clean, name="echo", **many)(same)
    last = app.operator(inputs=[mean, raw, echo], name="last", correlated=True)(lambda mean, raw, echo: mean)
    app.sink("out", last)
    return app.graph()


def test_fused_operators_are_one_unit_with_the_tasks_of_their_pe(graph):
    assert units_of(graph)["clean+mean"] == ("clean", "mean")
    assert set(units_of(graph)) == {"rows", "clean+mean", "raw", "echo", "last"}
    assert tasks_of(graph) == {"rows": 2, "clean+mean": 2, "raw": 2, "echo": 2, "last": 1}


def test_fused_operators_are_one_target(graph):
    choices = {choice.name: choice for choice in choices_of(graph)}
    assert choices["clean+mean"].why == ("they run in one PE and fail together",)
    assert "clean" not in choices and "mean" not in choices


def test_operator_like_a_fused_one_is_its_own_target():
    app = App("shared")
    rows = app.source("rows", "seq long, x double")
    clean = app.operator(inputs=rows, name="clean", pe="first")(same)
    mean = app.operator(inputs=clean, name="mean", pe="first")(same)
    raw = app.operator(inputs=rows, name="raw")(same)
    echo = app.operator(inputs=raw, name="echo")(same)
    tail = app.operator(inputs=mean, name="tail")(same)
    app.sink("out", tail)
    app.sink("raws", echo)
    choices = {choice.name: choice for choice in choices_of(app.graph())}
    assert (choices["echo"].chosen, choices["echo"].like) == (False, "raw")
    assert choices["tail"].why == ("clean, whose behaviour it shares, fails together with others",)


def test_topology_of_whole_units_has_the_rates_between_them(graph):
    rates = {"rows": 100.0, "clean": 90.0, "mean": 9.0, "raw": 100.0, "echo": 90.0, "last": 9.0}
    whole = whole_units(topology_of(graph, name="fused", rates=rates), graph)
    assert set(whole.tasks) == {"rows/0", "clean+mean/0", "raw/0", "echo/0", "last/0"}
    assert set(whole.operators["last"].inputs) == {"clean+mean", "raw", "echo"}
    assert whole.operators["last"].correlated and not whole.operators["clean+mean"].correlated
    assert whole.operators["clean+mean"].rate == pytest.approx(99.0), "clean leaves the PE as well, for echo"
