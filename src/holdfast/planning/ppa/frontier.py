"""The frontier planner: never worse than structure-aware, and with a bound on the distance to the best plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from holdfast.documents.topology import Floats
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import Formula, build_formula
from holdfast.planning.ppa.greedy import Greedy
from holdfast.planning.ppa.knapsack import EVALUATIONS, Knapsack, Paying
from holdfast.planning.ppa.planner import QUALITY_TOLERANCE, Plan, build_plan, check_budget, task_numbers, without_useless
from holdfast.planning.ppa.relaxation import relax
from holdfast.planning.ppa.structure_aware import StructureAware

REFILL = 1_000  # evaluations of a knapsack that only spends the rest of a budget
ATTEMPTS = 24  # at improving a plan; fewer for many tasks, to limit the time
TASK_ATTEMPTS = 4_000
CLOSE = 1e-9  # a plan this close to its bound counts as the best
PAYING: tuple[Paying, ...] = ("first", "last")


@dataclass(frozen=True, slots=True)
class Frontier:
    """Solves a knapsack over the measure's formula. It is exact for most topologies, and then the plan is proven optimal.

    If it is not exact, the planner completes its plan, the structure-aware plan, the greedy plan and those of two relaxations.
    It improves the best of them by removing the least useful replicas and spending their budget again. The relaxations give an
    upper bound on the quality of any plan.

    >>> from holdfast.documents.topology import TaskOperator, Topology
    >>> from holdfast.planning.ppa.fidelity import output_fidelity
    >>> t = Topology(topology="t", operators={
    ...     "a": TaskOperator(parallelism=3, rates=(4.0, 3.0, 3.0)),
    ...     "b": TaskOperator(parallelism=3, inputs={"a": "full"}),
    ...     "c": TaskOperator(parallelism=3, inputs={"b": "one-to-one"})})
    >>> plan = Frontier().plan(output_fidelity(t), budget=6)
    >>> plan.tasks, round(plan.quality, 3), plan.proven
    (('a/0', 'a/1', 'b/0', 'b/1', 'c/0', 'c/1'), 0.467, True)
    """

    name: str = "frontier"
    evaluations: int = field(default=EVALUATIONS, kw_only=True)

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        formula = build_formula(measure)
        nothing = np.zeros(len(measure.weights))
        knapsack = Knapsack(formula, budget, free=nothing, evaluations=self.evaluations)
        if knapsack.exact:
            chosen = without_useless(measure, knapsack.tasks(budget))
            return build_plan(self, measure, budget, chosen=chosen, bound=knapsack.value(budget))
        relaxed = relax(measure, budget)
        bound = relaxed.bound
        starts: list[Iterable[int]] = [knapsack.tasks(budget), relaxed.chosen]
        starts += [task_numbers(measure, p.plan(measure, budget)) for p in (StructureAware(), Greedy())]
        best = self._best(measure, formula, starts, budget)
        if measure.of(best) < bound - CLOSE:
            starts = [best]
            for paying in PAYING:
                above = Knapsack(formula, budget, free=nothing, paying=paying, evaluations=self.evaluations)
                bound = min(bound, above.value(budget))
                starts.append(above.tasks(budget))
            best = self._best(measure, formula, starts, budget)
        if measure.of(best) < bound - CLOSE:
            best = _improve(measure, formula, best, budget=budget)
        return build_plan(self, measure, budget, chosen=best, bound=bound)

    def _best(self, measure: Measure, formula: Formula, starts: list[Iterable[int]], budget: int) -> set[int]:
        """Complete these plans and return the best, with the fewest replicas among equals."""
        distinct = {frozenset(without_useless(measure, sorted(start)[:budget])): None for start in starts}
        completed = [refill(measure, formula, start, budget=budget) for start in distinct]
        return max(completed, key=lambda tasks: (round(measure.of(tasks), 12), -len(tasks)))


def refill(measure: Measure, formula: Formula, chosen: Iterable[int], *, budget: int) -> set[int]:
    """Return a plan without its useless replicas, with the rest of the budget spent by a knapsack."""
    tasks = without_useless(measure, chosen)
    value = measure.of(tasks)
    while len(tasks) < budget:
        knapsack = Knapsack(formula, budget - len(tasks), free=_mask(measure, tasks), evaluations=REFILL)
        more = without_useless(measure, tasks | knapsack.tasks(budget - len(tasks)))
        if measure.of(more) <= value + QUALITY_TOLERANCE:
            break
        tasks, value = more, measure.of(more)
    return tasks


def _improve(measure: Measure, formula: Formula, chosen: set[int], *, budget: int) -> set[int]:
    """Replace the replicas whose loss costs least. After a failed attempt, try twice as many."""
    best, value, dropped = chosen, measure.of(chosen), 1
    for _ in range(min(ATTEMPTS, max(2, TASK_ATTEMPTS // len(measure.weights)))):
        if not best or dropped > max(1, len(best) // 2):
            break
        tasks = np.array(sorted(best), dtype=np.int64)
        quality = np.round(measure.without_each(_mask(measure, best), tasks), 12)
        order = tasks[np.lexsort((measure.topology.rank[tasks], -quality))]
        trial = refill(measure, formula, set(map(int, order[dropped:])), budget=budget)
        if measure.of(trial) > value + QUALITY_TOLERANCE:
            best, value, dropped = trial, measure.of(trial), 1
        else:
            dropped *= 2
    return best


def _mask(measure: Measure, chosen: Iterable[int]) -> Floats:
    alive = np.zeros(len(measure.weights))
    alive[list(chosen)] = 1.0
    return alive
