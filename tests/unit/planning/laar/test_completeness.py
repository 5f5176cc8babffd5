"""Rates, completeness, cost and load, worked out by hand."""

import numpy as np
import pytest

from holdfast.documents.descriptor import Descriptor
from holdfast.errors import HoldfastError
from holdfast.planning.laar import (
    Independent,
    Instance,
    NodeCrash,
    cost,
    expected_rates,
    expected_work,
    internal_completeness,
    node_load,
    violations,
)
from holdfast.planning.laar.examples import figure_1

LOW_FULL_HIGH_ALONE = np.array([[[True, True], [True, True]], [[False, True], [True, False]]])


def diamond(**changes):
    """s -> a -> (b, c) -> d, b of selectivity 2, on three nodes."""
    document = {
        "application": "diamond",
        "sources": {"s": {"rates": [{"name": "only", "rate": 10.0, "probability": 1.0}]}},
        "pes": {
            "a": {"inputs": {"s": {"selectivity": 1.0, "cost": 0.01}}},
            "b": {"inputs": {"a": {"selectivity": 2.0, "cost": 0.02}}},
            "c": {"inputs": {"a": {"selectivity": 0.5, "cost": 0.03}}},
            "d": {"inputs": {"b": {"selectivity": 1.0, "cost": 0.01}, "c": {"selectivity": 3.0, "cost": 0.02}}},
        },
        "sinks": {"o": {"inputs": ["d"]}},
        "nodes": {"h1": {}, "h2": {}, "h3": {}},
        "placement": {"a": ["h1", "h2"], "b": ["h2", "h3"], "c": ["h1", "h3"], "d": ["h1", "h2"]},
        "contract": {"billing_period_s": 100.0},
    }
    return Descriptor.model_validate({**document, **changes})


def test_rates_and_work_follow_the_graph():
    descriptor = diamond()
    (configuration,) = descriptor.input_configurations
    assert expected_rates(descriptor, configuration) == {"s": 10, "a": 10, "b": 20, "c": 5, "d": 35}
    work = expected_work(descriptor, configuration)
    assert work == pytest.approx({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.3})


def test_pe_that_is_not_full_silences_downstream():
    instance = Instance.of(diamond())
    active = np.ones(instance.shape, dtype=bool)
    assert internal_completeness(instance, active) == 1.0
    active[0, instance.pes.index("b"), 0] = False
    # of 10 + 10 + 10 + 25 tuples a second, b's 10 and d's 20 from b are lost
    assert internal_completeness(instance, active) == pytest.approx(25 / 55)
    active[0, instance.pes.index("a"), 0] = False
    assert internal_completeness(instance, active) == 0.0


def test_independent_failures_multiply_along_paths():
    instance = Instance.of(diamond())
    active = np.ones(instance.shape, dtype=bool)
    up = 1 - 0.1**2
    expected = (10 * up + 2 * 10 * up**2 + 25 * up**3) / 55
    assert internal_completeness(instance, active, failure=Independent(0.1)) == pytest.approx(expected)


def test_node_crash_stops_all_its_replicas():
    instance = Instance.of(diamond())
    active = np.ones(instance.shape, dtype=bool)
    active[0, instance.pes.index("b")] = [True, False]
    assert internal_completeness(instance, active, failure=NodeCrash("h1")) == 1.0
    assert internal_completeness(instance, active, failure=NodeCrash("h2")) == pytest.approx(25 / 55)
    assert internal_completeness(instance, active, failure=NodeCrash()) == pytest.approx((2 + 25 / 55) / 3)
    with pytest.raises(HoldfastError, match="node 'h9' does not exist; nodes are: h1, h2, h3"):
        internal_completeness(instance, active, failure=NodeCrash("h9"))


def test_failure_probability_is_between_0_and_1():
    with pytest.raises(HoldfastError, match=r"from 0 to 1, got 1\.5"):
        Independent(1.5)


def test_cost_and_load_of_figure_2():
    instance = Instance.of(figure_1())
    assert cost(instance, LOW_FULL_HIGH_ALONE) == pytest.approx(2592000 * (0.8 * 1.6 + 0.2 * 1.6))
    assert node_load(instance, LOW_FULL_HIGH_ALONE) == pytest.approx(np.array([[0.8, 0.8], [0.8, 0.8]]))
    assert node_load(instance, np.ones_like(LOW_FULL_HIGH_ALONE))[1] == pytest.approx([1.6, 1.6])


def test_violations_name_node_pe_and_sla():
    instance = Instance.of(figure_1(sla=0.7))
    assert list(violations(instance, LOW_FULL_HIGH_ALONE)) == ["internal completeness is 0.6667, the SLA wants 0.7"]
    assert list(violations(instance, np.ones_like(LOW_FULL_HIGH_ALONE))) == [
        "node 'node1' is overloaded in configuration 'high': load 1.6, capacity 1",
        "node 'node2' is overloaded in configuration 'high': load 1.6, capacity 1",
    ]
    none = LOW_FULL_HIGH_ALONE.copy()
    none[1, 1] = False
    assert "PE 'pe2' has no active replica in configuration 'high'" in list(violations(instance, none))


def test_descriptor_without_nodes_is_an_error():
    with pytest.raises(HoldfastError, match=r"names no nodes.*add at least one under 'nodes'"):
        Instance.of(diamond(nodes={}, placement=None))


def test_sla_is_between_0_and_1():
    with pytest.raises(HoldfastError, match=r"a number from 0 to 1, got 1\.2"):
        Instance.of(diamond(), sla=1.2)


def test_application_without_tuples_is_complete():
    silent = diamond(sources={"s": {"rates": [{"name": "only", "rate": 0.0, "probability": 1.0}]}})
    instance = Instance.of(silent)
    assert internal_completeness(instance, np.zeros(instance.shape, dtype=bool)) == 1.0
