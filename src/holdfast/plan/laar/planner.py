"""From a descriptor to a strategy: the one call behind `holdfast plan` for LAAR."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.errors import HoldfastError
from holdfast.model.descriptor import Descriptor
from holdfast.plan.laar.best import Best
from holdfast.plan.laar.exhaustive import Exhaustive
from holdfast.plan.laar.explain import infeasible, next_steps, reasons
from holdfast.plan.laar.ftsearch import FTSearch
from holdfast.plan.laar.instance import Active, Instance
from holdfast.plan.laar.milp import Milp
from holdfast.plan.laar.solver import Outcome, Solution, Solver
from holdfast.plan.laar.strategy import Strategy

SOLVERS: Mapping[str, Callable[[], Solver]] = {
    "best": Best,
    "ft-search": FTSearch,
    "milp": Milp,
    "exhaustive": Exhaustive,
}


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A strategy, the problem it solves and how the solver came to it."""

    instance: Instance
    solution: Solution
    strategy: Strategy
    active: Active

    def why(self) -> list[str]:
        """The plan in words: what it promises and costs, each replica's reason, and what more would buy."""
        solution, strategy = self.solution, self.strategy
        proof = "optimal" if solution.outcome is Outcome.BST else f"within {solution.gap:.2%} of the optimum"
        lines = [
            f"IC {strategy.internal_completeness:.4f} for an SLA of {strategy.sla:.4g}, at {strategy.cost:.6g} CPU s per "
            f"billing period ({proof}, by {solution.solver} in {solution.seconds:.1f} s)"
        ]
        lines += reasons(self.instance, self.active)
        fitting = [step for step in next_steps(self.instance, self.active) if step.fits]
        if fitting:
            step = fitting[0]
            lines.append(
                f"next: all replicas of {step.pe} in '{step.configuration}' would bring {step.ic:.4f} IC for {step.cost:.4g} CPU s"
            )
        else:
            lines.append("next: no PE could become full without moving others; more IC needs another SLA or more hosts")
        return lines


def solver_named(name: str) -> Solver:
    """A solver by its name."""
    if name not in SOLVERS:
        raise HoldfastError(f"there is no solver '{name}'; solvers are: {', '.join(SOLVERS)}")
    return SOLVERS[name]()


def plan_strategy(
    descriptor: Descriptor, *, sla: float | None = None, solver: str | Solver = "best", seconds: float = 60.0
) -> Planned:
    """The cheapest strategy that meets the SLA (the descriptor's unless given).

    Raises InfeasibleError when there is none, saying the best that can be met and what blocks it; and HoldfastError when
    time ran out with nothing known.

    >>> from holdfast.plan.laar.examples import figure_1
    >>> planned = plan_strategy(figure_1(), sla=0.6)
    >>> {c.name: {pe: len(r) for pe, r in c.active.items()} for c in planned.strategy.configurations}
    {'low': {'pe1': 2, 'pe2': 2}, 'high': {'pe1': 1, 'pe2': 1}}
    """
    instance = Instance.of(descriptor, sla=sla)
    planner = solver_named(solver) if isinstance(solver, str) else solver
    solution = planner.solve(instance, seconds=seconds)
    if solution.outcome is Outcome.NUL:
        raise infeasible(instance)
    if solution.active is None:
        raise HoldfastError(
            f"no strategy for '{descriptor.application}' was found in {seconds:g} s, nor a proof that there is none; "
            "give more seconds, or take solver 'best'"
        )
    strategy = Strategy.of(instance, solution.active, solver=solution.solver, outcome=solution.outcome.value, bound=solution.bound)
    return Planned(instance, solution, strategy, solution.active)
