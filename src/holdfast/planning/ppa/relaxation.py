"""The planning problem as a (mixed-integer) linear programme: exact without joins, an upper bound with them.

Fidelities are variables. Each is at most "the task is replicated", and at most the mean of the task's inputs. The product of a
join's inputs is at most each of them, which is its tightest linear upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from holdfast.documents.topology import Floats
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.planner import rank_tasks
from holdfast.planning.solver_processes import call_in_process

TREE_NODES = 200  # limit of the search tree; a limit on time would make plans depend on the machine
MOST_INTEGER_TASKS = 150


@dataclass(frozen=True, slots=True)
class Relaxed:
    """An upper bound on the quality of any plan of the budget, and the tasks that the programme replicates."""

    bound: float
    chosen: tuple[int, ...]


def relax(measure: Measure, budget: int) -> Relaxed:
    """Solve the programme: as a mixed-integer programme for small topologies, otherwise as a linear programme."""
    tasks = len(measure.weights)
    rows = _Rows(tasks)
    for edges in measure.edges:
        for edge in edges:
            rows.add_groups(edge.up.start, edge.groups_up, edge.weights)
    group = tasks * 2
    for edges in measure.edges:
        means = []
        for edge in edges:
            means.append(group + edge.groups_down)
            group += int(edge.groups_up[-1]) + 1
        if edges:
            rows.add_inputs(edges[0].down, means, None if edges[0].joined else [edge.mix for edge in edges])
    rows.add_replicas(budget)
    whole = tasks <= MOST_INTEGER_TASKS
    cost = np.zeros(group)
    cost[tasks : 2 * tasks] = -measure.weights
    integral = np.concatenate([np.full(tasks, int(whole)), np.zeros(group - tasks)])
    bound, values = call_in_process(_maximum, cost, integral, rows.matrix(group), np.array(rows.limits))
    best = [task for task in rank_tasks(measure, values[:tasks])[:budget] if values[task] > 1e-6]
    return Relaxed(min(1.0, bound), tuple(best))


def _maximum(cost: Floats, integral: Floats, matrix: csr_array, limits: Floats) -> tuple[float, Floats]:
    """Return an upper bound on the objective, and the best solution."""
    result = milp(
        cost,
        integrality=integral,
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, -np.inf, limits),
        options={"node_limit": TREE_NODES, "mip_rel_gap": 0.0},
    )
    bound = -result.mip_dual_bound if result.mip_dual_bound is not None else 1.0
    return float(bound), result.x if result.x is not None else np.zeros(len(cost))


class _Rows:
    """Constraints of the form "sum of coefficients times variables <= limit". Variables: x, then f, then group means."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.groups = 0
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.limits: list[float] = []
        for task in range(tasks):
            self.add([(tasks + task, 1.0), (task, -1.0)], 0.0)

    def add(self, terms: list[tuple[int, float]], limit: float) -> None:
        for column, value in terms:
            self.rows.append(len(self.limits))
            self.columns.append(column)
            self.values.append(value)
        self.limits.append(limit)

    def add_groups(self, start: int, groups: np.ndarray, weights: np.ndarray) -> None:
        """Limit each group's mean to the weighted sum of its tasks' fidelities (Eq. 1)."""
        first = 2 * self.tasks + self.groups
        terms: list[list[tuple[int, float]]] = [[] for _ in range(int(groups[-1]) + 1)]
        for i, (group, weight) in enumerate(zip(groups, weights, strict=True)):
            terms[int(group)].append((self.tasks + start + i, -float(weight)))
        for group, members in enumerate(terms):
            self.add([(first + group, 1.0), *members], 0.0)
        self.groups += len(terms)

    def add_inputs(self, down: slice, means: list[np.ndarray], mix: list[np.ndarray] | None) -> None:
        """Limit a task's fidelity to the mean of its inputs (Eq. 3), or to each of them (Eq. 2)."""
        for i, task in enumerate(range(down.start, down.stop)):
            own = (self.tasks + task, 1.0)
            if mix is None:
                for mean in means:
                    self.add([own, (int(mean[i]), -1.0)], 0.0)
            else:
                terms = [(int(mean[i]), -float(share[i])) for mean, share in zip(means, mix, strict=True)]
                self.add([own, *terms], 0.0)

    def add_replicas(self, budget: int) -> None:
        self.add([(task, 1.0) for task in range(self.tasks)], float(budget))

    def matrix(self, columns: int) -> csr_array:
        return csr_array((self.values, (self.rows, self.columns)), shape=(len(self.limits), columns))
