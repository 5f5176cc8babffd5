"""`plan_strategy`: from a descriptor to a strategy. `holdfast plan` calls it for descriptors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

from holdfast.documents.descriptor import Descriptor
from holdfast.entry_points import create_named, installed_entry_points
from holdfast.errors import HoldfastError
from holdfast.planning.laar.completeness import cost, internal_completeness
from holdfast.planning.laar.exhaustive import Exhaustive
from holdfast.planning.laar.explanation import infeasible_error, infeasible_error_under, most_complete_or_greedy, undecided_error
from holdfast.planning.laar.failure_model_solver import FailureModelSolver
from holdfast.planning.laar.failure_models import FailureModel, Pessimistic
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Instance
from holdfast.planning.laar.milp import Milp
from holdfast.planning.laar.pricing import Account
from holdfast.planning.laar.solver import Outcome, Solution, Solver, solved
from holdfast.planning.laar.strategy import SearchSummary, Strategy

GROUP = "holdfast.solvers"
SOLVERS: Mapping[str, Callable[[], Solver]] = {"milp": Milp, "exhaustive": Exhaustive}
ALIASES = {"best": "milp", "exact": "milp"}
# The share of the time limit that is reserved to explain a search that finds nothing, and its maximum.
_RESERVE, _MOST_RESERVE_S = 0.15, 10.0


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStrategy:
    """A strategy, the problem that it solves, and the solver's solution."""

    instance: Instance
    solution: Solution
    strategy: Strategy
    active: Active
    failure: FailureModel

    def explained(self, account: Account | None = None) -> Strategy:
        """Return the strategy with its explanations, and with its account if given."""
        return self.strategy.explained(self.instance, failure=self.failure, account=account)

    def why(self, explained: Strategy | None = None) -> list[str]:
        """Return the explanation line by line: IC and cost, the reason for each replica, and what more budget would buy."""
        solution, strategy = self.solution, explained or self.explained()
        proof = "optimal" if solution.outcome is Outcome.BST else f"within {solution.gap:.2%} of the optimum"
        under = "" if isinstance(self.failure, Pessimistic) else f" under failure model {strategy.failure}"
        head = (
            f"IC {strategy.internal_completeness:.4f}{under} for an SLA of {strategy.sla:.10g}, at {strategy.cost:.6g} CPU s per "
            f"billing period ({proof}, by {solution.solver} in {solution.seconds:.1f} s)"
        )
        return [head, *(f"warning: {text}" for text in strategy.warnings), *_search_lines(solution), *strategy.explanation_lines()]


def _search_lines(solution: Solution) -> list[str]:
    """Return lines about FT-Search, if it was used: tree nodes, prunings by rule with their mean height, and its first solution."""
    lines = []
    if solution.prunings:
        cuts = ", ".join(f"{rule} {cut.count} (mean height {cut.height:.1f})" for rule, cut in solution.prunings.items())
        lines.append(f"search: {solution.tree_nodes} nodes; pruned by {cuts}")
    if solution.first is not None:
        lines.append(f"first solution: {solution.first.cost:.6g} CPU s after {solution.first.seconds:.2f} s")
    return lines


def solver_names() -> list[str]:
    """Return the names of all solvers: built-in ones, best first, then those of the entry-point group `holdfast.solvers`."""
    return [*SOLVERS, *sorted({entry.name for entry in installed_entry_points(GROUP)} - SOLVERS.keys())]


def solver_named(name: str) -> Solver:
    """Return a solver by its name or alias. A package's solver is imported on demand. Raises HoldfastError."""
    name = ALIASES.get(name, name)
    if name in SOLVERS:
        return SOLVERS[name]()
    for entry in installed_entry_points(GROUP).select(name=name):
        solver: Solver = create_named(entry, kind="solver", method="solve")
        return solver
    raise HoldfastError(f"there is no solver '{name}'; solvers are: {', '.join(solver_names())}")


def plan_strategy(
    descriptor: Descriptor,
    *,
    sla: float | None = None,
    solver: str | Solver = "milp",
    seconds: float = 60.0,
    failure: FailureModel | None = None,
) -> PlannedStrategy:
    """Return the cheapest strategy that meets the SLA (the descriptor's unless given) under the failure model.

    Raises InfeasibleError when there is none, saying the best that can be met and what blocks it; and HoldfastError when
    time ran out with nothing known. Explaining that is part of `seconds`.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> planned = plan_strategy(figure_1(), sla=0.6)
    >>> {c.name: {pe: len(r) for pe, r in c.active.items()} for c in planned.strategy.configurations}
    {'low': {'pe1': 2, 'pe2': 2}, 'high': {'pe1': 1, 'pe2': 1}}
    """
    instance = Instance.of(descriptor, sla=sla)
    planner = solver_named(solver) if isinstance(solver, str) else solver
    model = failure or Pessimistic()
    if not isinstance(model, Pessimistic):
        planner = FailureModelSolver(model, planner)
    started = perf_counter()
    reserve_s = min(_MOST_RESERVE_S, _RESERVE * seconds)
    solution = planner.solve(instance, seconds=seconds - reserve_s)
    if solution.active is None:
        remaining_s = max(reserve_s, seconds - (perf_counter() - started))
        if isinstance(planner, FailureModelSolver):
            solution = _fall_back_under(instance, solution, planner, remaining_s=remaining_s)
        else:
            solution = _fall_back(instance, solution, solver=planner.name, seconds=seconds, remaining_s=remaining_s)
    assert solution.active is not None
    strategy = Strategy.of(
        instance,
        solution.active,
        solver=solution.solver,
        outcome=solution.outcome.value,
        bound=solution.bound,
        failure=model,
        search=SearchSummary.of(solution),
    )
    return PlannedStrategy(instance, solution, strategy, solution.active, model)


def _fall_back(instance: Instance, solution: Solution, *, solver: str, seconds: float, remaining_s: float) -> Solution:
    """Return the most complete strategy if it meets the SLA, for a search that found none. Otherwise raise the explanation."""
    if solution.outcome is Outcome.NUL:
        raise infeasible_error(instance, seconds=remaining_s)
    started = perf_counter()
    best, proven = most_complete_or_greedy(instance, seconds=remaining_s)
    if best is not None and internal_completeness(instance, best) >= instance.sla - IC_TOLERANCE:
        took = solution.seconds + perf_counter() - started
        return solved(solver, instance, best, optimal=False, seconds=took, bound=solution.bound)
    raise undecided_error(instance, best, proven=proven, solver=solver, seconds=seconds)


def _fall_back_under(instance: Instance, solution: Solution, planner: FailureModelSolver, *, remaining_s: float) -> Solution:
    """Do the same as `_fall_back` under a failure model other than the pessimistic one."""
    started = perf_counter()
    best, proven = planner.most_complete(instance, seconds=remaining_s)
    reached = 0.0 if best is None else internal_completeness(instance, best, failure=planner.failure)
    if best is None or reached < instance.sla - IC_TOLERANCE:
        raise infeasible_error_under(instance, best, proven=proven, failure=planner.failure)
    spent, took = cost(instance, best), solution.seconds + perf_counter() - started
    return Solution(planner.name, Outcome.SOL, took, best, spent, reached, bound=min(spent, solution.bound))
