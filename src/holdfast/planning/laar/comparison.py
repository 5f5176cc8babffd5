"""Explained strategies of solvers, baselines and the contract, alone or compared with each other."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.documents.descriptor import Descriptor
from holdfast.errors import HoldfastError
from holdfast.planning.laar.baselines import BASELINES, baseline
from holdfast.planning.laar.failure_models import FailureModel, Pessimistic
from holdfast.planning.laar.infeasibility import InfeasibleError
from holdfast.planning.laar.instance import Active, Instance
from holdfast.planning.laar.milp import Milp
from holdfast.planning.laar.planner import ALIASES, plan_strategy, solver_names
from holdfast.planning.laar.pricing import Account, account, negotiate
from holdfast.planning.laar.solver import Outcome
from holdfast.planning.laar.strategy import Strategy


@dataclass(frozen=True, slots=True)
class ExplainedStrategy:
    """A strategy and its explanation, line by line."""

    strategy: Strategy
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The strategies of all solvers and baselines that have one, and the errors of the others by name."""

    strategies: list[ExplainedStrategy]
    errors: dict[str, HoldfastError]

    @property
    def solved(self) -> bool:
        """Whether any solver, not only a baseline, has a strategy."""
        return bool(self.strategies) and self.strategies[0].strategy.solver.upper() not in BASELINES

    @property
    def reportable_errors(self) -> dict[str, HoldfastError]:
        """The errors other than infeasibility, which is the same for all solvers."""
        return {name: error for name, error in self.errors.items() if not isinstance(error, InfeasibleError)}


def compare_solvers(descriptor: Descriptor, *, ic: float | None, failure: FailureModel, seconds: float) -> Comparison:
    """Run all solvers and baselines, each for at most `seconds`."""
    comparison = Comparison([], {})
    for name in (*solver_names(), *BASELINES):
        name = name.lower()
        try:
            explained = strategy_by(name, descriptor, ic=ic, failure=failure, seconds=seconds)
        except HoldfastError as error:
            comparison.errors[name] = error
            continue
        comparison.strategies.append(explained)
    return comparison


def strategy_by(name: str, descriptor: Descriptor, *, ic: float | None, failure: FailureModel, seconds: float) -> ExplainedStrategy:
    """Return the explained strategy of a solver or baseline by its name."""
    if name in ALIASES or name in solver_names():
        planned = plan_strategy(descriptor, sla=ic, solver=name, seconds=seconds, failure=failure)
        explained = planned.explained(_account(descriptor, planned.instance, planned.active, failure))
        return ExplainedStrategy(explained, planned.why(explained))
    if name.upper() not in BASELINES:
        names = [*solver_names(), *ALIASES, *(name.lower() for name in BASELINES)]
        raise HoldfastError(f"there is no solver '{name}' of descriptors; solvers are: {', '.join(names)}, all")
    instance = Instance.of(descriptor, sla=ic)
    active = baseline(name.upper(), instance, seconds=seconds)
    strategy = Strategy.of(instance, active, solver=name, failure=failure)
    strategy = strategy.explained(instance, failure=failure, account=_account(descriptor, instance, active, failure))
    under = "" if isinstance(failure, Pessimistic) else f" under failure model {failure.name}"
    head = (
        f"IC {strategy.internal_completeness:.4f}{under} for an SLA of {strategy.sla:.10g}, at {strategy.cost:.6g} CPU s per "
        f"billing period (baseline {name.upper()}, which ignores the SLA)"
    )
    violated = [f"breaks: {text}" for text in strategy.breaks] or ["breaks nothing: nodes carry it, and the SLA is met"]
    return ExplainedStrategy(strategy, [head, *violated, *_warnings(strategy), *strategy.explanation_lines()])


def strategy_by_contract(descriptor: Descriptor, *, ic: float | None, seconds: float) -> ExplainedStrategy:
    """Return the explained strategy of the least running cost plus expected penalty."""
    pricing = descriptor.contract.pricing
    if pricing.cpu_second <= 0 and pricing.penalty <= 0:
        raise HoldfastError(
            f"--by-contract wants prices, and the contract of '{descriptor.application}' has none; "
            "give contract.pricing.cpu_second, penalty or both"
        )
    instance = Instance.of(descriptor, sla=ic)
    deal = negotiate(instance, pricing, seconds=seconds)
    outcome = Outcome.BST if deal.optimal else Outcome.SOL
    head = (
        f"IC {deal.ic:.4f} {'keeps' if deal.meets_sla else 'breaks'} the SLA of {instance.sla:.10g}: running cost plus expected "
        f"penalty is {deal.account.spending:.6g} ({'no strategy has less' if deal.optimal else 'the least that was found'})"
    )
    strategy = Strategy.of(instance, deal.active, solver="contract", outcome=outcome.value)
    strategy = strategy.explained(instance, account=deal.account)
    return ExplainedStrategy(strategy, [head, *_warnings(strategy), *strategy.explanation_lines()])


def cheapest_by_sla(descriptor: Descriptor, *, seconds: float) -> list[tuple[float, float]]:
    """Return cost and IC of the cheapest strategy for each SLA of 0.1, 0.2 and so on, as far as there is one."""
    instance = Instance.of(descriptor)
    points = []
    for tenth in range(1, 11):
        solution = Milp().solve(instance.at(tenth / 10), seconds=seconds / 10)
        if solution.cost is None or solution.ic is None:
            break
        points.append((solution.cost, solution.ic))
    return points


def _account(descriptor: Descriptor, instance: Instance, active: Active, failure: FailureModel) -> Account | None:
    """Return the strategy's account if the contract has prices and the failure model is the contract's."""
    pricing = descriptor.contract.pricing
    if max(pricing.fare, pricing.cpu_second, pricing.penalty) <= 0 or not isinstance(failure, Pessimistic):
        return None
    return account(instance, active, pricing)


def _warnings(strategy: Strategy) -> list[str]:
    return [f"warning: {text}" for text in strategy.warnings]
