"""Placement of injections by the shape of the graph."""

from pathlib import Path

import pytest

from holdfast.app import App, last_rows
from holdfast.app.load import load_app
from holdfast.assess.fused_targets import fused_targets
from holdfast.assess.targets import choose_targets, group_targets, position
from holdfast.errors import HoldfastError

EXAMPLES = Path(__file__).parents[3] / "examples"


def chosen(graph):
    return [choice.name for choice in choose_targets(graph) if choice.chosen]


@pytest.fixture(scope="module")
def bargains():
    return load_app(EXAMPLES / "bargain_discovery.py").graph()


def test_bargain_discovery_has_the_five_targets_of_the_paper(bargains):
    assert sorted(chosen(bargains)) == sorted(["market", "trade_filter", "quote_filter", "vwap", "bargain_index"])


def test_operator_that_is_no_target_names_the_one_it_behaves_like(bargains):
    like = {choice.name: choice.like for choice in choose_targets(bargains) if not choice.chosen}
    assert like == {"trade_quote": "market", "aggregator": "trade_filter"}


def test_stateful_operator_is_a_target_of_output_faults(bargains):
    choices = {choice.name: choice for choice in choose_targets(bargains, side="output")}
    targets = [name for name, choice in choices.items() if choice.chosen]
    assert sorted(targets) == ["aggregator", "bargain_index", "market", "quote_filter", "trade_filter"]
    assert choices["aggregator"].why == ("it is stateful, and keeps rows while its output is lost",)
    assert str(choices["vwap"]) == "vwap: behaves like aggregator, which feeds it alone, while it keeps nothing itself"


def test_every_operator_is_a_target_of_divergence(bargains):
    choices = {choice.name: choice for choice in choose_targets(bargains, kind="divergence")}
    assert [name for name, choice in choices.items() if not choice.chosen] == ["trade_quote"]  # it reads what the source puts out
    assert choices["aggregator"].why == ("values that differ before trade_filter may differ in another way here",)
    assert all(choice.chosen for choice in choose_targets(bargains, kind="divergence", side="output"))


def test_every_target_has_a_reason(bargains):
    message = {choice.name: str(choice) for choice in choose_targets(bargains)}
    assert "trade_quote also feeds quote_filter" in message["trade_filter"]
    assert "aggregator, which feeds it, is stateful" in message["vwap"]
    assert "reads 2 streams" in message["bargain_index"]
    assert "is a source" in message["market"]
    assert message["aggregator"] == "aggregator: behaves like trade_filter, which feeds it alone and keeps nothing"


def chain(*, stateful):
    app = App("chain")
    stream = app.source("s", "seq long, k string")
    for name in "abc":
        keep = last_rows(1, by="k") if name in stateful else None
        stream = app.operator(inputs=stream, keep=keep, name=name)(lambda rows: rows)
    app.sink("out", stream)
    return app.graph()


@pytest.mark.parametrize(("stateful", "targets"), [("", ["s"]), ("a", ["s", "b"]), ("b", ["s", "c"]), ("c", ["s"])])
def test_only_operators_after_state_are_targets_in_a_chain(stateful, targets):
    assert chosen(chain(stateful=stateful)) == targets


def test_pe_name_means_all_its_operators():
    app = App("fused")
    source = app.source("s", "seq long")
    first = app.operator(inputs=source, pe="both", name="a")(lambda rows: rows)
    second = app.operator(inputs=first, pe="both", name="b")(lambda rows: rows)
    app.sink("out", second)
    assert group_targets(app.graph(), [["both"]])[0] == ("a", "b")


def test_pe_with_a_distinct_failure_is_a_target():
    app = App("fused")
    source = app.source("s", "seq long, k string")
    front = app.operator(inputs=source, pe="front", name="a")(lambda rows: rows)
    kept = app.operator(inputs=front, keep=last_rows(1, by="k"), pe="front", name="b")(lambda rows: rows)
    left = app.operator(inputs=kept, pe="back", name="c")(lambda rows: rows)
    right = app.operator(inputs=kept, pe="back", name="d")(lambda rows: rows)
    app.sink("out", left)
    app.sink("rest", right)
    graph = app.graph()
    alone = [(name,) for name in chosen(graph)]
    assert alone == [("s",), ("c",), ("d",)]
    fused = fused_targets(graph, alone)  # what reaches the front is what the source sends
    assert list(fused) == [("c", "d")]
    assert str(fused["c", "d"]) == "c+d: a target, because they run in PE 'back' and fail together"
    assert list(fused_targets(graph, [*alone, ("c", "d")])) == []
    assert list(fused_targets(graph, alone, side="output")) == [("a", "b"), ("c", "d")]


def test_unknown_target_is_reported_with_known_names(bargains):
    with pytest.raises(HoldfastError, match=r"target 'agregator' is not a source, operator or PE .* they are: market, trade_quote"):
        group_targets(bargains, [["agregator"]])[0]
    with pytest.raises(
        HoldfastError, match="targets 'agregator', 'vwop' are not sources, operators or PEs of this application; they are"
    ):
        group_targets(bargains, [["vwap", "agregator"], ["vwop"]])
    with pytest.raises(HoldfastError, match="target 'bargains'"):
        group_targets(bargains, [["bargains"]])[0]


def test_position_is_the_longest_path_from_a_source(bargains):
    assert [position(bargains, name) for name in ("market", "quote_filter", "trade_filter", "bargain_index")] == [0, 2, 2, 5]
