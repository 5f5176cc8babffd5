"""Placement: apart, balanced, and by rack."""

import numpy as np

from holdfast.documents.descriptor import Descriptor, DescriptorNode
from holdfast.planning.laar import expected_work, place
from holdfast_papers.laar.generator import generate


def flat(pes, nodes, *, replicas=2):
    return Descriptor.model_validate(
        {
            "application": "flat",
            "sources": {"s": {"rates": [{"name": "r", "rate": 1.0, "probability": 1.0}]}},
            "pes": {f"p{i}": {"inputs": {"s": {"selectivity": 1.0, "cost": w}}} for i, w in enumerate(pes)},
            "sinks": {"o": {"inputs": ["p0"]}},
            "nodes": {name: node.model_dump() for name, node in nodes.items()},
            "replicas": replicas,
        }
    )


def loads(descriptor):
    (configuration,) = descriptor.input_configurations
    work = expected_work(descriptor, configuration)
    load = dict.fromkeys(descriptor.nodes, 0.0)
    for pe, nodes in place(descriptor).items():
        for node in nodes:
            load[node] += work[pe]
    return load


def test_load_is_balanced():
    load = loads(flat([5, 4, 3, 3, 2, 1, 1, 1], {f"h{i}": DescriptorNode() for i in range(4)}))
    assert max(load.values()) - min(load.values()) <= 1


def test_larger_node_gets_more_load():
    load = loads(flat([1] * 30, {"big": DescriptorNode(cores=2), "s1": DescriptorNode(), "s2": DescriptorNode()}))
    assert 1.6 < load["big"] / load["s1"] < 2.4


def test_different_racks_come_before_emptier_nodes():
    nodes = {"a1": DescriptorNode(rack="a"), "a2": DescriptorNode(rack="a"), "b1": DescriptorNode(rack="b")}
    for placed in place(flat([3, 2, 2, 1, 1], nodes)).values():
        assert {nodes[h].rack for h in placed} == {"a", "b"}


def test_replicas_share_nodes_only_if_nodes_are_few():
    assert place(flat([1], {"only": DescriptorNode()}))["p0"] == ("only", "only")
    three = place(flat([1, 1], {"x": DescriptorNode(), "y": DescriptorNode()}, replicas=3))
    assert all(set(nodes) == {"x", "y"} for nodes in three.values())


def test_equal_nodes_are_chosen_by_name():
    assert place(flat([1], {"z": DescriptorNode(), "a": DescriptorNode(), "m": DescriptorNode()}))["p0"] == ("a", "m")


def test_placement_is_deterministic():
    descriptor = generate(np.random.default_rng(4))
    assert place(descriptor) == place(descriptor) == descriptor.placement
