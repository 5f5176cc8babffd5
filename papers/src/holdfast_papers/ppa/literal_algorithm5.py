"""PPA Algorithm 5 to the letter, for comparison with `StructureAware`, which departs from it where that pays off.

The algorithm gives up if the budget is below the number of operators. Otherwise each sub-topology gets a first plan with as many
replicas as it has operators, and is then expanded by whole plans of Algorithm 3 or 4, the densest first. A plan of a sub-topology
is valued with the tasks of all other sub-topologies alive, as in Algorithm 4. It is never completed to MC-trees of the whole
topology, and no expansion is smaller than what Algorithm 3 or 4 returns for that many replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planning.ppa import (
    QUALITY_TOLERANCE,
    ExpansionPool,
    Measure,
    Plan,
    SubTopology,
    build_plan,
    check_budget,
    decompose,
    queues_of,
    segments,
)

Tasks = frozenset[int]


@dataclass(frozen=True, slots=True)
class LiteralAlgorithm5:
    """The structure-aware algorithm as printed."""

    name: str = "Algorithm 5 as printed"

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        subs = [_SubPlanner(measure, sub) for sub in decompose(measure.topology)]
        usage = sum(sub.operators for sub in subs)
        if budget < usage:
            return build_plan(self, measure, budget, chosen=())
        plans = [sub.expand(frozenset()) for sub in subs]
        larger = [sub.expand(plan) for sub, plan in zip(subs, plans, strict=True)]
        while True:
            costs = [len(after) - len(before) for before, after in zip(plans, larger, strict=True)]
            fitting = [n for n, cost in enumerate(costs) if 0 < cost <= budget - usage]
            if not fitting:
                return build_plan(self, measure, budget, chosen=frozenset().union(*plans))
            densest = max(fitting, key=lambda n: subs[n].density(plans[n], larger[n]))
            usage += costs[densest]
            plans[densest] = larger[densest]
            larger[densest] = subs[densest].expand(plans[densest])


class _SubPlanner:
    """Plans one sub-topology, with the tasks of all others alive (PLANSUBTOPOLOGY)."""

    def __init__(self, measure: Measure, sub: SubTopology) -> None:
        self.measure, self.full, self.operators = measure, sub.full, len(sub.operators)
        spans = [measure.topology.spans[at] for at in sub.operators]
        own = {task for span in spans for task in range(span.start, span.stop)}
        self.outside = frozenset(range(len(measure.weights))) - own
        queues = queues_of(measure)
        self.queues = [queues[at] for at in sub.operators] if sub.full else []
        self.segments = [] if sub.full else segments(measure, sub.operators)

    def expand(self, plan: Tasks) -> Tasks:
        """Return the plan with at most as many more replicas as the sub-topology has operators."""
        return self._expand_full(plan) if self.full else self._expand_structured(plan)

    def density(self, plan: Tasks, larger: Tasks) -> float:
        """Return the gain per replica of a larger plan."""
        before, after = self.measure.values(np.column_stack([self._alive(plan), self._alive(larger)]))
        return float(after - before) / max(1, len(larger) - len(plan))

    def _expand_structured(self, plan: Tasks) -> Tasks:
        start = plan | self.outside
        pool = ExpansionPool(self.measure, self.segments, start=sorted(start))
        return plan | pool.expand(len(start) + self.operators)

    def _expand_full(self, plan: Tasks) -> Tasks:
        if not plan:
            return frozenset(queue[0] for queue in self.queues)
        rank, larger = self.measure.topology.rank, set(plan)
        for _ in range(self.operators):
            heads = [next((task for task in queue if task not in larger), None) for queue in self.queues]
            tasks = sorted((task for task in heads if task is not None), key=lambda task: int(rank[task]))
            if not tasks:
                break
            values = self.measure.extended(self._alive(frozenset(larger)), [np.array([task]) for task in tasks])
            larger.add(tasks[int(np.flatnonzero(values >= values.max() - QUALITY_TOLERANCE)[0])])
        return frozenset(larger)

    def _alive(self, plan: Tasks) -> np.ndarray:
        alive = np.zeros(len(self.measure.weights))
        alive[sorted(plan | self.outside)] = 1.0
        return alive
