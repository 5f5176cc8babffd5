"""The planner for full topologies (PPA Algorithm 4): every operator contributes its heaviest tasks first."""

from dataclasses import dataclass

import numpy as np

from holdfast.documents.topology import Floats
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.planner import SAME, Plan, check_budget, made


@dataclass(frozen=True, slots=True)
class Full:
    """Starts from the heaviest task of every operator, then takes from the operator whose next task gains most.

    Exact order within an operator, and no look beyond one task at a time: right where every edge is full, where any
    task of an operator completes trees with any of the next.
    """

    name: str = "full"

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        queues = queues_of(measure)
        if budget < len(queues):
            return made(self, measure, budget, chosen=())
        alive = np.zeros(len(measure.weights))
        for queue in queues:
            alive[queue.pop(0)] = 1.0
        for _ in range(budget - len(queues)):
            _take_best(measure, queues, alive)
        return made(self, measure, budget, chosen=map(int, np.flatnonzero(alive)))


def queues_of(measure: Measure) -> list[list[int]]:
    """Each operator's tasks, most useful first: by the gain of the task over none of its operator, all others alive."""
    topology, queues = measure.topology, []
    for at, span in enumerate(topology.spans):
        others = np.where(topology.operator_of == at, 0.0, 1.0)
        tasks = np.arange(span.start, span.stop, dtype=np.int64)
        gains = np.round(measure.extended(others, list(tasks[:, None])), 12)
        queues.append([int(i) for i in tasks[np.lexsort((topology.rank[span], -gains))]])
    return queues


def _take_best(measure: Measure, queues: list[list[int]], alive: Floats) -> None:
    """Move the head of the best queue into the plan."""
    rank = measure.topology.rank
    heads = sorted(((queue[0], at) for at, queue in enumerate(queues) if queue), key=lambda head: int(rank[head[0]]))
    values = measure.extended(alive, [np.array([task]) for task, _ in heads])
    best = int(np.flatnonzero(values >= values.max() - SAME)[0])
    alive[queues[heads[best][1]].pop(0)] = 1.0
