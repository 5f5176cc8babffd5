"""The advice for Bargain Discovery, from impacts measured on a generated market of 1,000,000 events (seed 1)."""

from pathlib import Path

import pytest

from holdfast.advise.advice import Advice, measured_plan
from holdfast.advise.budget import Budget, Prices
from holdfast.advise.candidates import candidate_plans, completeness
from holdfast.advise.losses import Loss, protected_case, together_case
from holdfast.advise.plan_document import plan_document
from holdfast.advise.protection_units import tasks_of, units_of, whole_units
from holdfast.app.load import load_app
from holdfast.app.task_topology import topology_of

GRAPH = load_app(Path(__file__).parents[3] / "examples" / "bargain_discovery.py").graph()
UNITS, TOPOLOGY = units_of(GRAPH), topology_of(GRAPH, name="bargain-discovery")
IMPACT = {
    "aggregator": 62.0,
    "trade_filter": 62.0,
    "vwap": 57.0,
    "market": 11.0,
    "trade_quote": 11.0,
    "bargain_index": 8.0,
    "quote_filter": 7.0,
}
CPU = {
    "aggregator": 0.09,
    "trade_filter": 0.09,
    "vwap": 0.09,
    "market": 0.12,
    "quote_filter": 0.07,
    "trade_quote": 0.28,
    "bargain_index": 0.26,
}
"""Of the shares sums were written down: 27 % of the first three, 46 % of the first five."""
FAILOVER, TOGETHER = 0.12, 11.3
"""What a failover costs (2.8 were left on average), and all that a plan leaves open at once, much the same for every plan."""


@pytest.fixture
def advice():
    budget, prices, whole = Budget(share=0.5), Prices(tasks_of(GRAPH), CPU), whole_units(TOPOLOGY, GRAPH)
    single = {name: Loss(name, (impact,)) for name, impact in IMPACT.items()}
    plans = candidate_plans(whole, IMPACT, budget, prices)
    over = {name: Loss(protected_case(target, failover_s=1.0).name, (FAILOVER,)) for name, target in UNITS.items()}
    together = [together_case(UNITS, plan.protected, failover_s=1.0).name for plan in plans]
    measured = {loss.case: loss for loss in [*over.values(), *(Loss(case, (TOGETHER,)) for case in together)]}
    how = {"units": UNITS, "failover_s": 1.0}
    weighed = [measured_plan(plan, single, measured, **how, completeness=completeness(whole, plan.protected)) for plan in plans]
    return Advice(
        application="bargain-discovery",
        budget=budget,
        outage_s=16.0,
        failover_s=1.0,
        single=single,
        plans=tuple(weighed),
        because=dict.fromkeys(UNITS, "it was measured"),
        prices=prices,
        units=UNITS,
        reaching_goal=frozenset(plan.objective for plan in plans),
        failing_over=over,
    )


def test_trade_filter_aggregator_and_vwap_come_before_quote_filter(advice):
    assert advice.chosen.candidate.protected == ("aggregator", "trade_filter", "vwap", "market", "quote_filter")
    assert [each["operator"] for each in advice.document()["protect"]][:3] == ["aggregator", "trade_filter", "vwap"]
    assert plan_document(advice, TOPOLOGY).tasks[:3] == ("aggregator/0", "trade_filter/0", "vwap/0")


def test_half_of_the_cpu_leaves_a_tenth_of_the_loss(advice):
    assert advice.unprotected.mean == pytest.approx(31.1, abs=0.1)
    assert advice.remaining == pytest.approx(0.091, abs=0.002) and advice.remaining < 0.1
    assert advice.prices.share(advice.chosen.candidate.protected) == pytest.approx(0.46)


def test_next_replica_goes_to_trade_quote(advice):
    following = advice.next_unit()
    assert (following.operator, following.remaining) == ("trade_quote", pytest.approx(0.04, abs=0.002))
