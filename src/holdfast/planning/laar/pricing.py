"""Contracts in money: what a billing period brings and costs, and whether meeting the SLA is worth it.

The paper treats the SLA as a constraint and leaves a penalty for breaking it to future work. Here the penalty is part of
what is minimised: CPU time at its price, plus the penalty times the probability that a failure occurs in the period. A
penalty falls due whole when the SLA is broken, or in proportion to what is missing from it.
"""

import time
from dataclasses import dataclass

from holdfast.documents.descriptor import Pricing
from holdfast.planning.laar.best_of_two import Best
from holdfast.planning.laar.completeness import cost, internal_completeness
from holdfast.planning.laar.explanation import infeasible, undecided
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Instance
from holdfast.planning.laar.milp import cheapest_with_shortfall
from holdfast.planning.laar.solver import Outcome, Solver, base_cost

_FREE = 1e6  # the weight of IC against CPU time that costs nothing


@dataclass(frozen=True, slots=True)
class Account:
    """One billing period in money."""

    fare: float
    running: float
    penalty: float

    @property
    def spending(self) -> float:
        """What is minimised: running cost plus expected penalty."""
        return self.running + self.penalty

    @property
    def profit(self) -> float:
        return self.fare - self.spending


@dataclass(frozen=True, slots=True, eq=False)
class Deal:
    """The strategy that costs least in money, and its account. `optimal` if no other costs less."""

    active: Active
    ic: float
    account: Account
    meets_sla: bool
    optimal: bool


def account(instance: Instance, active: Active, pricing: Pricing) -> Account:
    """What a billing period under a strategy brings and costs.

    The pipeline of Figure 1 for thirty days at 0.01 a CPU second, with both replicas at Low and one at High.

    >>> import numpy as np
    >>> from holdfast.planning.laar.examples import figure_1
    >>> instance = Instance.of(figure_1(sla=0.7))
    >>> active = np.array([[[True, True], [True, True]], [[False, True], [True, False]]])
    >>> deal = account(instance, active, Pricing(fare=90000, cpu_second=0.01, penalty=5000))
    >>> round(deal.running, 2), deal.penalty, round(deal.profit, 2)
    (41472.0, 5000.0, 43528.0)
    """
    missing = max(0.0, instance.sla - IC_TOLERANCE - internal_completeness(instance, active))
    due = missing / instance.sla if pricing.penalty_basis == "shortfall" and missing else float(missing > 0)
    return Account(
        fare=pricing.fare,
        running=pricing.cpu_second * cost(instance, active),
        penalty=pricing.failure_probability * pricing.penalty * due,
    )


def negotiate(instance: Instance, pricing: Pricing, *, solver: Solver | None = None, seconds: float = 60.0) -> Deal:
    """The strategy that minimises running cost plus expected penalty.

    A penalty that falls due whole leaves two candidates: the cheapest strategy that meets the SLA and the cheapest at
    all. A penalty in proportion to the shortfall is one mixed-integer programme. Raises if nodes are too small even for
    one replica of each PE.
    """
    if pricing.penalty_basis == "shortfall" and pricing.penalty > 0 and instance.sla > 0:
        return _shortfall(instance, pricing, seconds=seconds)
    planner = solver or Best()
    started = time.perf_counter()
    meeting = planner.solve(instance, seconds=seconds / 2)
    left = max(0.1, seconds - (time.perf_counter() - started))
    breaking = planner.solve(instance.at(0.0), seconds=left)
    decided = meeting.outcome.decided and breaking.outcome.decided
    if meeting.active is None and breaking.active is None:
        left = max(0.1, seconds - (time.perf_counter() - started))
        if breaking.outcome is Outcome.NUL:
            raise infeasible(instance.at(0.0), seconds=left)
        raise undecided(instance.at(0.0), None, proven=1.0, solver=planner.name, seconds=seconds)
    deals = [
        _deal(instance, solution.active, pricing, optimal=decided)
        for solution in (meeting, breaking)
        if solution.active is not None
    ]
    return min(deals, key=lambda deal: (deal.account.spending, -deal.ic))


def _shortfall(instance: Instance, pricing: Pricing, *, seconds: float) -> Deal:
    started = time.perf_counter()
    active, optimal = cheapest_with_shortfall(instance, weight=_weight(instance, pricing), seconds=seconds)
    if active is None:
        raise infeasible(instance.at(0.0), seconds=max(0.1, seconds - (time.perf_counter() - started)))
    return _deal(instance, active, pricing, optimal=optimal)


def _weight(instance: Instance, pricing: Pricing) -> float:
    """What missing all of IC costs, in units of the cost without replication.

    CPU time given away free would leave it undecided how much of it to use, so it is counted at next to nothing. A weight at
    which less IC than counts would outweigh all replicas is as good as any greater one.
    """
    expected = pricing.failure_probability * pricing.penalty / instance.sla
    unit = pricing.cpu_second * base_cost(instance)
    if unit <= 0:
        return _FREE if expected > 0 else 0.0
    most = instance.shape[2] / IC_TOLERANCE
    return expected / unit if expected < unit * most else most


def _deal(instance: Instance, active: Active, pricing: Pricing, *, optimal: bool) -> Deal:
    ic = internal_completeness(instance, active)
    return Deal(
        active=active,
        ic=ic,
        account=account(instance, active, pricing),
        meets_sla=ic >= instance.sla - IC_TOLERANCE,
        optimal=optimal,
    )
