"""PPA Algorithm 4, full topologies: every operator contributes its heaviest tasks first."""

from dataclasses import dataclass

import numpy as np

from holdfast.documents import Floats
from holdfast.planning.ppa import QUALITY_TOLERANCE, Measure, Plan, build_plan, check_budget, queues_of


@dataclass(frozen=True, slots=True)
class Full:
    """Starts with the heaviest task of every operator, then adds from the operator whose next task gains most.

    It considers one task at a time. That suits topologies of full edges, where any task of an operator completes trees with any
    task of the next.
    """

    name: str = "full"

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        queues = queues_of(measure)
        if budget < len(queues):
            return build_plan(self, measure, budget, chosen=())
        alive = np.zeros(len(measure.weights))
        for queue in queues:
            alive[queue.pop(0)] = 1.0
        for _ in range(budget - len(queues)):
            _take_best(measure, queues, alive)
        return build_plan(self, measure, budget, chosen=map(int, np.flatnonzero(alive)))


def _take_best(measure: Measure, queues: list[list[int]], alive: Floats) -> None:
    """Move the head of the best queue into the plan."""
    rank = measure.topology.rank
    heads = sorted(((queue[0], at) for at, queue in enumerate(queues) if queue), key=lambda head: int(rank[head[0]]))
    values = measure.extended(alive, [np.array([task]) for task, _ in heads])
    best = int(np.flatnonzero(values >= values.max() - QUALITY_TOLERANCE)[0])
    alive[queues[heads[best][1]].pop(0)] = 1.0
