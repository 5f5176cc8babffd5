"""The dynamic programme (PPA Algorithm 1): every union of MC-trees that fits, grown one replica of budget at a time."""

from dataclasses import dataclass, field

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.mc_trees import count_ways, ways
from holdfast.planning.ppa.planner import SAME, Plan, by_name, check_budget, made

Set = frozenset[int]


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The best plan, proven, with as few replicas as that quality needs (Theorem 1). Exponential in the MC-trees.

    Raises HoldfastError once more than `most_trees` trees or `most_plans` candidate plans would be held.

    >>> from holdfast.documents.topology import TaskOperator, Topology
    >>> from holdfast.planning.ppa.fidelity import output_fidelity
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
        count = count_ways(measure)  # where a fork meets again a plan may need a way that is no minimal tree
        if count > self.most_trees:
            raise self._too_large(measure, f"{count} MC-trees, more than {self.most_trees}")
        units = sorted(set(ways(measure)), key=lambda tree: (len(tree), by_name(measure, tree)))
        candidates = self._unions(measure, [tree for tree in units if len(tree) <= budget], budget)
        best = _best(measure, candidates)
        return made(self, measure, budget, chosen=best, bound=measure.of(best))

    def _unions(self, measure: Measure, units: list[Set], budget: int) -> list[Set]:
        """Every union of trees with at most `budget` tasks, by size: a plan of n tasks grows from smaller ones."""
        by_size: list[set[Set]] = [{frozenset()}, *(set() for _ in range(budget))]
        held = 1
        for usage in range(budget + 1):
            for candidate in by_size[usage]:
                for tree in units:
                    union = candidate | tree
                    if usage < len(union) <= budget and union not in by_size[len(union)]:
                        by_size[len(union)].add(union)
                        held += 1
                if held > self.most_plans:
                    raise self._too_large(measure, f"more than {self.most_plans} candidate plans")
        return [plan for plans in by_size for plan in plans]

    def _too_large(self, measure: Measure, what: str) -> HoldfastError:
        return HoldfastError(
            f"topology '{measure.topology.topology}' is too large for dynamic programming: it has {what};"
            " use planner frontier or structure-aware, or a smaller budget"
        )


def _best(measure: Measure, candidates: list[Set]) -> Set:
    """The candidate of highest quality, then fewest tasks, then first by name."""
    values = np.zeros(len(candidates))
    step = 4096
    for at in range(0, len(candidates), step):
        part = candidates[at : at + step]
        alive = np.zeros((len(measure.weights), len(part)))
        for column, tasks in enumerate(part):
            alive[list(tasks), column] = 1.0
        values[at : at + step] = measure.values(alive)
    top = [candidates[i] for i in np.flatnonzero(values >= values.max() - SAME)]
    return min(top, key=lambda plan: (len(plan), [int(measure.topology.rank[i]) for i in by_name(measure, plan)]))
