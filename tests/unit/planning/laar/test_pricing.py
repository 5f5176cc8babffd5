"""Contracts with prices and penalties."""

import pytest

from holdfast.documents.descriptor import Pricing
from holdfast.planning.laar import (
    Instance,
    account,
    negotiate,
    non_replicated,
)
from holdfast.planning.laar.examples import figure_1


def test_small_penalty_is_paid_and_large_one_avoided():
    instance = Instance.of(figure_1(sla=0.6))
    saving = 0.64 * 2592000 * 0.01  # second replicas at Low, at 0.01 a CPU second
    for penalty, meets in ((saving * 0.9, False), (saving * 1.1, True)):
        deal = negotiate(instance, Pricing(cpu_second=0.01, penalty=penalty))
        assert deal.meets_sla is meets and deal.optimal
    unlikely = Pricing(cpu_second=0.01, penalty=saving * 1.1, failure_probability=0.5)
    assert not negotiate(instance, unlikely).meets_sla


def test_shortfall_penalty_buys_profitable_replicas():
    instance = Instance.of(figure_1(sla=0.8))
    pricing = Pricing(cpu_second=0.01, penalty=1e9, penalty_basis="shortfall")
    deal = negotiate(instance, pricing)
    assert deal.ic == pytest.approx(2 / 3) and not deal.meets_sla
    assert deal.account.penalty == pytest.approx(1e9 * (0.8 - 2 / 3) / 0.8)
    free = negotiate(instance.at(0.6), Pricing(cpu_second=0.0, penalty=10.0, penalty_basis="shortfall"))
    assert free.meets_sla and free.account.spending == 0.0
    cheap = negotiate(instance, Pricing(cpu_second=0.01, penalty=1.0, penalty_basis="shortfall"))
    assert cheap.ic == 0.0 and cheap.account.penalty == pytest.approx(1.0)


def test_profit_is_fare_minus_spending():
    instance = Instance.of(figure_1(sla=0.0))
    alone = non_replicated(instance)
    deal = account(instance, alone, Pricing(fare=50000.0, cpu_second=0.01))
    assert deal.profit == pytest.approx(50000 - 0.01 * 2592000 * 0.96)


@pytest.mark.parametrize(
    ("pricing", "complete"),
    [
        (Pricing(penalty=1, penalty_basis="shortfall", failure_probability=0.0), False),
        (Pricing(penalty=1, penalty_basis="shortfall"), True),
        (Pricing(penalty=1e60, cpu_second=1e-60, penalty_basis="shortfall"), True),
        (Pricing(penalty=1e-60, cpu_second=1e60, penalty_basis="shortfall"), False),
    ],
)
def test_extreme_prices_are_handled(pricing, complete):
    instance = Instance.of(figure_1(sla=0.6))
    deal = negotiate(instance, pricing)
    assert deal.ic == pytest.approx(2 / 3 if complete else 0.0)
    assert deal.account.penalty == pytest.approx(0.0 if complete else pricing.penalty * pricing.failure_probability)
