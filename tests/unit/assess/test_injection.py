"""Injection operators in the graph: which readers are re-routed, and how the graph is displayed."""

from pathlib import Path

import pytest

from holdfast.app.load import load_app
from holdfast.assess.injection import Injection, describe_injected_graph, injected, injected_edges
from holdfast.assess.targets import group_targets
from holdfast.documents.fault import Loss

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def graph():
    return load_app(EXAMPLES / "bargain_discovery.py").graph()


@pytest.mark.parametrize(
    ("target", "side", "edges"),
    [
        (["market"], "input", {"market": ("trade_quote",)}),
        (["trade_filter"], "input", {"trade_quote": ("trade_filter",)}),
        (["bargain_index"], "input", {"quote_filter": ("bargain_index",), "vwap": ("bargain_index",)}),
        (["trade_filter", "aggregator", "vwap"], "input", {"trade_quote": ("trade_filter",)}),
        (["trade_filter", "aggregator", "vwap"], "output", {"vwap": ("bargain_index",)}),
        (["bargain_index"], "output", {"bargain_index": ("bargains",)}),
        (["trade_quote"], "output", {"trade_quote": ("quote_filter", "trade_filter")}),
    ],
)
def test_fault_affects_edges_of_its_target(graph, target, side, edges):
    result = injected_edges(graph, group_targets(graph, [target])[0], side)
    assert {stream: tuple(sorted(readers)) for stream, readers in result.items()} == edges


def test_target_reads_the_injection_operator_and_keeps_its_rules(graph):
    fault = Loss(target=("bargain_index",), offset=0, tuples=1)
    changed = injected(graph, [Injection(fault, 1, 2)]).operator("bargain_index")
    assert changed.inputs == ("loss before bargain_index on vwap", "loss before bargain_index on quote_filter")
    assert {str(rule) for rule in changed.keep.values()} == {"last_rows(1, by=ticker)"}
    assert list(changed.keep) == ["loss before bargain_index on vwap"]


def test_other_readers_read_the_original_stream(graph):
    changed = injected(graph, [Injection(Loss(target=("trade_filter",), offset=0, tuples=1), 1, 2)])
    assert changed.predecessors("quote_filter") == ("trade_quote",)


def test_injected_graph_marks_the_injection(graph):
    shown = describe_injected_graph(graph, Loss(target=("vwap",), offset=0, tuples=1))
    assert "* loss before vwap on aggregator  <-  aggregator" in shown.splitlines()
    assert "  vwap  <-  loss before vwap on aggregator" in shown.splitlines()
