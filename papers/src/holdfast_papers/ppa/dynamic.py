"""PPA Algorithm 1, dynamic programming: builds every union of MC-trees within the budget, one replica at a time."""

from dataclasses import dataclass, field

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.ppa import QUALITY_TOLERANCE, Measure, Plan, build_plan, check_budget, sorted_by_name
from holdfast_papers.ppa.mc_trees import count_ways, ways

Set = frozenset[int]


@dataclass(frozen=True, slots=True)
class Dynamic:
    """Finds the best plan, with the fewest replicas of that quality (Theorem 1). Exponential in the number of MC-trees.

    Raises HoldfastError for more than `most_trees` trees or `most_plans` candidate plans.

    >>> from holdfast.documents import TaskOperator, Topology
    >>> from holdfast.planning.ppa import output_fidelity
    >>> lanes = Topology(topology="lanes", operators={
    ...     "a": TaskOperator(parallelism=3, rates=(2.0, 1.0, 1.0)),
    ...     "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"})})
    >>> plan = Dynamic().plan(output_fidelity(lanes), budget=3)
    >>> plan.tasks, plan.quality, plan.proven
    (('a/0', 'b/0'), 0.5, True)
    """

    name: str = "dynamic"
    most_trees: int = field(default=2_000, kw_only=True)
    most_plans: int = field(default=200_000, kw_only=True)

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        count = count_ways(measure)  # where a fork rejoins, a plan may need a choice that is no minimal tree
        if count > self.most_trees:
            raise self._too_large(measure, f"{count} MC-trees, more than {self.most_trees}")
        units = sorted(set(ways(measure)), key=lambda tree: (len(tree), sorted_by_name(measure, tree)))
        candidates = self._unions(measure, [tree for tree in units if len(tree) <= budget], budget)
        best = _best(measure, candidates)
        return build_plan(self, measure, budget, chosen=best, bound=measure.of(best))

    def _unions(self, measure: Measure, units: list[Set], budget: int) -> list[Set]:
        """Return every union of trees with at most `budget` tasks. A union of n tasks grows from smaller ones."""
        by_size: list[set[Set]] = [{frozenset()}, *(set() for _ in range(budget))]
        count_plans = 1
        for usage in range(budget + 1):
            for candidate in by_size[usage]:
                for tree in units:
                    union = candidate | tree
                    if usage < len(union) <= budget and union not in by_size[len(union)]:
                        by_size[len(union)].add(union)
                        count_plans += 1
                if count_plans > self.most_plans:
                    raise self._too_large(measure, f"more than {self.most_plans} candidate plans")
        return [plan for plans in by_size for plan in plans]

    def _too_large(self, measure: Measure, what: str) -> HoldfastError:
        return HoldfastError(
            f"topology '{measure.topology.topology}' is too large for dynamic programming: it has {what};"
            " use planner frontier or structure-aware, or a smaller budget"
        )


def _best(measure: Measure, candidates: list[Set]) -> Set:
    """Return the candidate of the highest quality, then with the fewest tasks, then first by name."""
    values = np.zeros(len(candidates))
    step = 4096
    for at in range(0, len(candidates), step):
        part = candidates[at : at + step]
        alive = np.zeros((len(measure.weights), len(part)))
        for column, tasks in enumerate(part):
            alive[list(tasks), column] = 1.0
        values[at : at + step] = measure.values(alive)
    top = [candidates[i] for i in np.flatnonzero(values >= values.max() - QUALITY_TOLERANCE)]
    return min(top, key=lambda plan: (len(plan), [int(measure.topology.rank[i]) for i in sorted_by_name(measure, plan)]))
