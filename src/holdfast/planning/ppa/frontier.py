"""Our own planner: never below structure-aware, and every plan says how far from the best it can be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from holdfast.documents.topology import Floats
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import Formula, build
from holdfast.planning.ppa.greedy import Greedy
from holdfast.planning.ppa.knapsack import EVALUATIONS, Knapsack, Paying
from holdfast.planning.ppa.planner import SAME, Plan, check_budget, made, numbers_of, pruned
from holdfast.planning.ppa.relaxation import relax
from holdfast.planning.ppa.structure_aware import StructureAware

REFILL = 1_000  # evaluations granted to a knapsack that only fills what an improved plan left free
ATTEMPTS = 24  # at improving a plan; fewer where tasks are many, so that time stays in proportion to the problem
TASK_ATTEMPTS = 4_000
CLOSE = 1e-9  # a plan this close to its bound is the best one
PAYING: tuple[Paying, ...] = ("first", "last")


@dataclass(frozen=True, slots=True)
class Frontier:
    """A knapsack over the measure's formula, which is exact for most topologies, and then the plan is proven best.

    Where it is not exact, its plan, the structure-aware and the greedy one and those of two relaxations are each
    completed; the best is improved by giving up its least useful replicas and spending them anew. The relaxations bound
    what any plan could be worth.

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
        formula = build(measure)
        nothing = np.zeros(len(measure.weights))
        knapsack = Knapsack(formula, budget, free=nothing, evaluations=self.evaluations)
        if knapsack.exact:
            chosen = pruned(measure, knapsack.tasks(budget))
            return made(self, measure, budget, chosen=chosen, bound=knapsack.value(budget))
        relaxed = relax(measure, budget)
        bound = relaxed.bound
        starts: list[Iterable[int]] = [knapsack.tasks(budget), relaxed.chosen]
        starts += [numbers_of(measure, p.plan(measure, budget)) for p in (StructureAware(), Greedy())]
        best = self._best(measure, formula, starts, budget)
        if measure.of(best) < bound - CLOSE:
            starts = [best]
            for paying in PAYING:
                above = Knapsack(formula, budget, free=nothing, paying=paying, evaluations=self.evaluations)
                bound = min(bound, above.value(budget))
                starts.append(above.tasks(budget))
            best = self._best(measure, formula, starts, budget)
        if measure.of(best) < bound - CLOSE:
            best = _improved(measure, formula, best, budget=budget)
        return made(self, measure, budget, chosen=best, bound=bound)

    def _best(self, measure: Measure, formula: Formula, starts: list[Iterable[int]], budget: int) -> set[int]:
        """The best of these plans once each is completed; of equals the one with fewest replicas."""
        distinct = {frozenset(pruned(measure, sorted(start)[:budget])): None for start in starts}
        filled = [refilled(measure, formula, start, budget=budget) for start in distinct]
        return max(filled, key=lambda tasks: (round(measure.of(tasks), 12), -len(tasks)))


def refilled(measure: Measure, formula: Formula, chosen: Iterable[int], *, budget: int) -> set[int]:
    """The plan with useless replicas given up, and the rest of the budget spent as the knapsack advises."""
    kept = pruned(measure, chosen)
    value = measure.of(kept)
    while len(kept) < budget:
        knapsack = Knapsack(formula, budget - len(kept), free=_mask(measure, kept), evaluations=REFILL)
        more = pruned(measure, kept | knapsack.tasks(budget - len(kept)))
        if measure.of(more) <= value + SAME:
            break
        kept, value = more, measure.of(more)
    return kept


def _improved(measure: Measure, formula: Formula, chosen: set[int], *, budget: int) -> set[int]:
    """Give up the replicas whose loss costs least, spend them anew, keep what is better; more of them each time."""
    best, value, dropped = chosen, measure.of(chosen), 1
    for _ in range(min(ATTEMPTS, max(2, TASK_ATTEMPTS // len(measure.weights)))):
        if not best or dropped > max(1, len(best) // 2):
            break
        tasks = np.array(sorted(best), dtype=np.int64)
        left = np.round(measure.without_each(_mask(measure, best), tasks), 12)
        order = tasks[np.lexsort((measure.topology.rank[tasks], -left))]
        trial = refilled(measure, formula, set(map(int, order[dropped:])), budget=budget)
        if measure.of(trial) > value + SAME:
            best, value, dropped = trial, measure.of(trial), 1
        else:
            dropped *= 2
    return best


def _mask(measure: Measure, chosen: Iterable[int]) -> Floats:
    alive = np.zeros(len(measure.weights))
    alive[list(chosen)] = 1.0
    return alive
