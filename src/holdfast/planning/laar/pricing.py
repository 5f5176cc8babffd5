"""Pricing: what a billing period earns and costs, and whether it pays to meet the SLA.

The paper treats the SLA as a constraint and leaves a penalty for missing it to future work. Here the penalty is part of the
objective: the price of CPU time, plus the penalty times the probability of a failure in the period. The penalty is due in full
when the SLA is missed, or in proportion to the shortfall.
"""

import time
from dataclasses import dataclass

from holdfast.documents.descriptor import Pricing
from holdfast.planning.laar.completeness import cost, internal_completeness
from holdfast.planning.laar.explanation import infeasible_error, undecided_error
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Instance
from holdfast.planning.laar.milp import Milp, cheapest_with_shortfall
from holdfast.planning.laar.solver import Outcome, Solver, base_cost

_FREE = 1e6  # the weight of IC if CPU time is free


@dataclass(frozen=True, slots=True)
class Account:
    """One billing period in money."""

    fare: float
    running: float
    penalty: float

    @property
    def spending(self) -> float:
        """The objective: running cost plus expected penalty."""
        return self.running + self.penalty

    @property
    def profit(self) -> float:
        return self.fare - self.spending


@dataclass(frozen=True, slots=True, eq=False)
class Deal:
    """The strategy with the least spending, and its account. `optimal` if that is proven."""

    active: Active
    ic: float
    account: Account
    meets_sla: bool
    optimal: bool


def account(instance: Instance, active: Active, pricing: Pricing) -> Account:
    """Return what a billing period earns and costs under a strategy.

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
    """Return the strategy that minimises running cost plus expected penalty.

    If the penalty is due in full, there are two candidates: the cheapest strategy that meets the SLA and the cheapest of all.
    If it is proportional to the shortfall, one mixed-integer programme finds the strategy. Raises InfeasibleError if nodes are
    too small even for one replica of each PE.
    """
    if pricing.penalty_basis == "shortfall" and pricing.penalty > 0 and instance.sla > 0:
        return _shortfall(instance, pricing, seconds=seconds)
    planner = solver or Milp()
    started = time.perf_counter()
    meeting = planner.solve(instance, seconds=seconds / 2)
    remaining_s = max(0.1, seconds - (time.perf_counter() - started))
    breaking = planner.solve(instance.at(0.0), seconds=remaining_s)
    decided = meeting.outcome.decided and breaking.outcome.decided
    if meeting.active is None and breaking.active is None:
        remaining_s = max(0.1, seconds - (time.perf_counter() - started))
        if breaking.outcome is Outcome.NUL:
            raise infeasible_error(instance.at(0.0), seconds=remaining_s)
        raise undecided_error(instance.at(0.0), None, proven=1.0, solver=planner.name, seconds=seconds)
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
        raise infeasible_error(instance.at(0.0), seconds=max(0.1, seconds - (time.perf_counter() - started)))
    return _deal(instance, active, pricing, optimal=optimal)


def _weight(instance: Instance, pricing: Pricing) -> float:
    """Return the penalty for losing all IC, in units of the cost without replication.

    Free CPU time would make all strategies equally good, so it gets a tiny price. The weight is limited to the value at which an IC
    within the tolerance outweighs all replicas.
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
