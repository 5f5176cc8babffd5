"""Cases and rates from the options of a campaign."""

from types import SimpleNamespace

import pytest

from holdfast.assess.campaign_fit import case_tempo
from holdfast.assess.campaign_setup import build_cases, read_rates
from holdfast.assess.case import Case, Tempo
from holdfast.errors import HoldfastError

from .alert_graph import rare_alerts


def test_group_without_a_target_is_also_tried_without_replica():
    assert build_cases([("a",)], [("a", "b")], failover_s=2.0) == [Case(("a",)), Case(("a", "b"), 2.0)]
    assert build_cases([("a",)], [("b", "c")], failover_s=2.0) == [Case(("a",)), Case(("b", "c")), Case(("b", "c"), 2.0)]


PROFILE = """
application: orders
sources:
  orders: {rates: [{name: low, rate: 90, probability: 0.5}, {name: high, rate: 200, probability: 0.5}]}
pes:
  front: {operators: [large, alert], inputs: {orders: {selectivity: 0.1, cost: 0.001}}, rate: {average: 100, peak: 200}}
sinks: {out: {inputs: [front]}, shown: {inputs: [front]}}
nodes: {node1: {cores: 1}}
"""


def test_profile_gives_rates_of_whole_pes_only(tmp_path):
    (tmp_path / "orders.yaml").write_text(PROFILE)
    graph, locator = rare_alerts()
    context, rates = SimpleNamespace(graph=graph), read_rates(tmp_path / "orders.yaml", graph)

    def tempo(*target, failover_s=None):
        return case_tempo(context, locator, Case(target, failover_s), rates)

    assert tempo("orders") == tempo("large") == tempo("large", "alert") == Tempo(100.0, 200.0)
    assert tempo("alert") == tempo("large", failover_s=1.0) == Tempo(4.0, 8.0)  # of 100 orders 4 are large
    assert case_tempo(context, locator, Case(("alert",)), {}) == Tempo(0.4, 0.8)


def test_profile_of_another_application_is_rejected(tmp_path):
    (tmp_path / "orders.yaml").write_text(PROFILE.replace("large", "huge").replace("application: orders", "application: shop"))
    with pytest.raises(HoldfastError, match=r"orders.yaml' is of application 'shop': it has huge, which this application"):
        read_rates(tmp_path / "orders.yaml", rare_alerts()[0])
