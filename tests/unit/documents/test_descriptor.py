"""The application descriptor: what it refuses, and what it works out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import document_text, parse_document
from holdfast.errors import DocumentError

GOOD = """\
application: bargain-discovery
sources:
  market:
    rates:
      - {name: low, rate: 400.0, probability: 0.8}
      - {name: high, rate: 1500.0, probability: 0.2}
pes:
  trade_filter: {operators: [trade_filter], inputs: {market: {selectivity: 0.2, cost: 1.3e-6}}}
  quote_filter: {operators: [quote_filter], inputs: {market: {selectivity: 0.8, cost: 1.0e-6}}}
  bargain: {inputs: {trade_filter: {selectivity: 0.0, cost: 2e-6}, quote_filter: {selectivity: 0.1, cost: 4e-6}}}
sinks: {bargains: {inputs: [bargain]}}
nodes: {node1: {cores: 1.0}, node2: {rack: r1}}
placement: {trade_filter: [node1, node2], quote_filter: [node2, node1], bargain: [node1, node2]}
contract: {sla: {internal_completeness: 0.7}, pricing: {cpu_second: 0.01}}
"""


def changed(*changes):
    text = GOOD
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def errors_of(*changes):
    with pytest.raises(DocumentError) as caught:
        parse_document(changed(*changes), Descriptor)
    return caught.value.errors


def test_descriptor_survives_writing_and_reading():
    descriptor = parse_document(GOOD, Descriptor)
    assert parse_document(document_text(descriptor), Descriptor) == descriptor
    assert parse_document(document_text(descriptor, json_text=True), Descriptor, json_text=True) == descriptor


def test_pes_are_in_topological_order_with_ties_by_name():
    descriptor = parse_document(GOOD, Descriptor)
    assert descriptor.topological_order == ("quote_filter", "trade_filter", "bargain")
    assert descriptor.predecessors("bargain") == ("quote_filter", "trade_filter")
    assert descriptor.predecessors("bargains") == ("bargain",)
    assert descriptor.predecessors("market") == ()


def test_configurations_are_the_product_of_independent_rates():
    second = "  news: {rates: [{name: calm, rate: 1, probability: 0.5}, {name: storm, rate: 9, probability: 0.5}]}\npes:"
    descriptor = parse_document(changed(("pes:", second)), Descriptor)
    assert [(c.name, round(c.probability, 3)) for c in descriptor.input_configurations] == [
        ("market=low,news=calm", 0.4),
        ("market=low,news=storm", 0.4),
        ("market=high,news=calm", 0.1),
        ("market=high,news=storm", 0.1),
    ]
    assert descriptor.input_configurations[1].rates == {"market": 400.0, "news": 9.0}


def test_joint_distribution_replaces_the_product():
    joint = "configurations: [{rates: {market: high}, probability: 1.0}]\npes:"
    (only,) = parse_document(changed(("pes:", joint)), Descriptor).input_configurations
    assert (only.name, only.rates, only.probability) == ("high", {"market": 1500.0}, 1.0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("rate: 400.0", "rate: -4"), "sources.market.rates[0].rate (line 5): wanted a number of at least 0, got -4.0"),
        (("probability: 0.8", "probability: 0.7"), "sources.market.rates (line 4): wanted probabilities that sum to 1, got 0.9"),
        (("name: low", "name: high"), "sources.market.rates (line 4): names rate 'high' twice; names must differ"),
        (("cost: 1.3e-6", "cost: -1"), "pes.trade_filter.inputs.market.cost (line 8): wanted a number of at least 0, got -1.0"),
        (
            ("inputs: [bargain]", "inputs: [bargin]"),
            "sinks.bargains.inputs[0] (line 11): reads stream 'bargin', which does not exist; streams are: "
            "bargain, market, quote_filter, trade_filter",
        ),
        (("inputs: [bargain]", "inputs: []"), "sinks.bargains.inputs (line 11): has no input; a sink reads at least one stream"),
        (("{bargains: {inputs: [bargain]}}", "{}"), "sinks (line 11): has no sink; an application writes at least one"),
        (
            ("{bargains: {inputs: [bargain]}}", "{market: {inputs: [bargain]}}"),
            "'market' names a source and a sink; names must differ",
        ),
        (("cores: 1.0", "cores: 0"), "nodes.node1.cores (line 12): wanted a number above 0, got 0.0"),
        (
            ("bargain: [node1, node2]", "bargain: [node1, node3]"),
            "placement.bargain[1] (line 13): is node 'node3', which does not exist; nodes are: node1, node2",
        ),
        (
            ("bargain: [node1, node2]", "bargain: [node1]"),
            'placement.bargain (line 13): wanted 2 nodes (one per replica), got ["node1"]',
        ),
        (
            ("bargain: [node1, node2]", "bargain: [node1, node1]"),
            "placement.bargain (line 13): puts two replicas on node 'node1', which would lose both at once",
        ),
        (
            (", bargain: [node1, node2]", ""),
            "placement (line 13): places no replica of PE 'bargain'; place every PE, or leave placement out",
        ),
        (
            ("internal_completeness: 0.7", "internal_completeness: 1.7"),
            "contract.sla.internal_completeness (line 14): wanted a number from 0 to 1, got 1.7",
        ),
        (("cpu_second: 0.01", "penalty: -5"), "contract.pricing.penalty (line 14): wanted a number of at least 0, got -5.0"),
        (
            ("{market: {selectivity: 0.8, cost: 1.0e-6}}", "{}"),
            "pes.quote_filter.inputs (line 9): has no input; a PE reads at least one stream",
        ),
        (("contract:", "replicas: 0\nplacement2: x\ncontract:"), "replicas (line 14): wanted a whole number of at least 1, got 0"),
        (
            ("pes:", "configurations: [{rates: {market: mid}, probability: 1.0}]\npes:"),
            "configurations[0].rates.market (line 7): has no rate named 'mid'; rates are: high, low",
        ),
        (
            ("pes:", "configurations: [{rates: {}, probability: 1.0}]\npes:"),
            "configurations[0].rates (line 7): gives no rate for source 'market'",
        ),
        (
            ("pes:", "configurations: [{rates: {market: low}, probability: 0.5}]\npes:"),
            "configurations (line 7): wanted probabilities that sum to 1, got 0.5",
        ),
    ],
)
def test_error_is_reported_with_its_place(change, error):
    assert error in errors_of(change)


def test_cycle_is_shown():
    errors = errors_of(("trade_filter: {operators: [trade_filter], inputs: {market", "trade_filter: {inputs: {bargain"))
    assert "pes (line 7): form a cycle: bargain -> trade_filter -> bargain; an application graph has none" in errors


def test_all_errors_are_reported_together():
    errors = errors_of(
        ("rate: 400.0", "rate: -4"),
        ("probability: 0.2", "probability: 0.3"),
        ("trade_filter: {operators: [trade_filter], inputs: {market", "trade_filter: {inputs: {bargain"),
        ("inputs: [bargain]", "inputs: [bargin]"),
        ("quote_filter: [node2, node1]", "quote_filter: [node2, node9]"),
        ("cpu_second", "cpu_secnd"),
    )
    text = "\n".join(errors)
    assert len(errors) == 6
    for words in ("got -4", "sum to 1, got 1.1", "cycle", "'bargin'", "'node9'", "cpu_secnd"):
        assert words in text


def test_nodes_may_be_left_out():
    text = GOOD.split("nodes:")[0]
    assert parse_document(text, Descriptor).nodes == {}


def test_replicas_may_share_the_only_node():
    one = parse_document(
        GOOD.split("nodes:")[0] + "nodes: {h: {}}\nplacement: {trade_filter: [h, h], quote_filter: [h, h], bargain: [h, h]}\n",
        Descriptor,
    )
    assert one.placement is not None


def test_too_many_configurations_ask_for_a_joint_distribution():
    many = "".join(
        f"  s{i}: {{rates: [{{name: a, rate: 1, probability: 0.5}}, {{name: b, rate: 2, probability: 0.5}}]}}\n" for i in range(13)
    )
    (error,) = errors_of(("pes:", many + "pes:"))
    assert "make 16384 input configurations, wanted at most 4096" in error


@given(st.permutations(["a", "b", "c", "d"]))
def test_topological_order_ignores_the_written_order(names):
    inputs = {"a": ["s"], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    descriptor = Descriptor.model_validate(
        {
            "application": "x",
            "sources": {"s": {"rates": [{"name": "r", "rate": 1, "probability": 1}]}},
            "pes": {n: {"inputs": {i: {"selectivity": 1, "cost": 1} for i in inputs[n]}} for n in names},
            "sinks": {"o": {"inputs": ["d"]}},
        }
    )
    assert descriptor.topological_order == ("a", "b", "c", "d")


def test_old_field_name_is_reported_with_the_new_one():
    with pytest.raises(DocumentError, match=r"hosts \(line 12\): is now called 'nodes'; rename the field"):
        parse_document(GOOD.replace("nodes: {", "hosts: {"), Descriptor)
