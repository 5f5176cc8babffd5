"""A deployment from a descriptor and a strategy."""

import pytest

from holdfast.errors import DocumentError
from holdfast.planning.laar import Instance, Strategy, static_replication
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.simulate import (
    Deployment,
)


def test_all_errors_of_a_mismatched_strategy_are_reported():
    descriptor = figure_1()
    instance = Instance.of(descriptor)
    strategy = Strategy.of(instance, static_replication(instance))
    with pytest.raises(DocumentError, match="strategy of 'shop': is not for application 'figure-1' of the descriptor; plan it"):
        Deployment.of(descriptor, strategy.model_copy(update={"application": "shop"}))
    other = strategy.model_copy(update={"placement": {"pe1": ("node1", "elsewhere"), "vwap": ("node1", "node2")}})
    with pytest.raises(DocumentError) as error:
        Deployment.of(descriptor, other)
    assert "does not name PE 'pe2' of the descriptor" in str(error.value)
    assert "names PE 'vwap', which the descriptor does not have" in str(error.value)
    assert "places replicas on node 'elsewhere', which the descriptor does not have" in str(error.value)
