"""The interface of all solvers of LAAR's problem (Eq. 9 to 12, pessimistic failures)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from holdfast.planning.laar.completeness import cost, internal_completeness, node_load
from holdfast.planning.laar.instance import Active, Instance


class Outcome(StrEnum):
    """How a search ended (LAAR Figure 4)."""

    BST = "BST"  # an optimal strategy
    SOL = "SOL"  # a feasible strategy, perhaps not the best
    NUL = "NUL"  # no feasible strategy exists
    TMO = "TMO"  # time ran out with nothing known

    @property
    def decided(self) -> bool:
        """Whether the outcome is proven, so that a further search is useless."""
        return self in (Outcome.BST, Outcome.NUL)


@dataclass(frozen=True, slots=True)
class FoundStrategy:
    """An intermediate solution: its cost, and when it was found."""

    cost: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Pruning:
    """How often a rule pruned the search, and the mean height of the pruned subtrees."""

    count: int
    height: float


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The result of a solver for one instance. Costs are in CPU seconds per billing period.

    `bound` is a proven lower bound on the cost of every feasible strategy (infinite when none exists).
    """

    solver: str
    outcome: Outcome
    seconds: float
    active: Active | None = None
    cost: float | None = None
    ic: float | None = None
    bound: float = 0.0
    first: FoundStrategy | None = None
    last: FoundStrategy | None = None
    tree_nodes: int = 0
    prunings: Mapping[str, Pruning] = field(default_factory=dict)

    @property
    def gap(self) -> float:
        """How far the cost may be from the optimum, as a share of the cost."""
        if self.cost is None:
            return 0.0 if self.outcome is Outcome.NUL else float("inf")
        return max(0.0, 1.0 - self.bound / self.cost) if self.cost > 0 else 0.0


class Solver(Protocol):
    """Finds the cheapest feasible strategy.

    A solver stops after about `seconds` and returns its best strategy. It never returns one that violates Eq. 10, 11 or 12.
    """

    @property
    def name(self) -> str: ...

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution: ...


def base_cost(instance: Instance) -> float:
    """Return the cost of one active replica of each PE, the least that Eq. 12 allows."""
    return float(instance.billing_period_s * (instance.probability @ instance.work).sum())


def solved(
    name: str,
    instance: Instance,
    active: Active,
    *,
    optimal: bool,
    seconds: float,
    bound: float = 0.0,
    first: FoundStrategy | None = None,
    last: FoundStrategy | None = None,
    tree_nodes: int = 0,
    prunings: Mapping[str, Pruning] | None = None,
) -> Solution:
    """Return the Solution of a feasible strategy, with its lone replicas spread evenly."""
    active = spread(instance, active)
    total = cost(instance, active)
    return Solution(
        solver=name,
        outcome=Outcome.BST if optimal else Outcome.SOL,
        seconds=seconds,
        active=active,
        cost=total,
        ic=internal_completeness(instance, active),
        bound=total if optimal else min(bound, total),
        first=first,
        last=last,
        tree_nodes=tree_nodes,
        prunings=prunings or {},
    )


def spread(instance: Instance, active: Active) -> Active:
    """Return the strategy with the lone replicas of each configuration on the nodes with most room, heaviest PE first.

    Cost and completeness do not depend on which replica of a PE runs alone, so they do not change. If that does not fit, the
    configuration stays as it was. This also makes the result independent of the order of the search.
    """
    result = active.copy()
    full: Active = np.asarray(active.all(axis=2))
    for c in range(active.shape[0]):
        load = np.zeros(len(instance.nodes))
        for i in np.flatnonzero(full[c]):
            np.add.at(load, instance.node_of[i], instance.work[c, i])
        alone = np.flatnonzero(~full[c])
        for i in sorted(alone, key=lambda i: (-instance.work[c, i], i)):
            nodes = instance.node_of[i]
            fill = (load[nodes] + instance.work[c, i]) / instance.capacity[nodes]
            chosen = int(np.argmin(fill))
            result[c, i] = False
            result[c, i, chosen] = True
            load[nodes[chosen]] += instance.work[c, i]
    crowded = (node_load(instance, result) > instance.limit).any(axis=1)
    result[crowded] = active[crowded]
    return result
