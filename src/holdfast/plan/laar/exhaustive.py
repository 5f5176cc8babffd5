"""The reference solver: looks at every strategy. For instances small enough, and to hold the other solvers to."""

import time
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.plan.laar.completeness import cost, violations
from holdfast.plan.laar.instance import Active, Instance
from holdfast.plan.laar.solver import Outcome, Solution, solved


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Tries every non-empty set of active replicas of every PE in every configuration.

    >>> from holdfast.plan.laar.examples import figure_1
    >>> solution = Exhaustive().solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.nodes, solution.outcome.value, round(solution.ic, 3)
    (81, 'BST', 0.667)
    """

    most: int = 100_000
    name: str = field(default="exhaustive", init=False)

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        started = time.perf_counter()
        configurations, pes, replicas = instance.shape
        sets = [np.array(bits, dtype=np.bool_) for bits in product((False, True), repeat=replicas) if any(bits)]
        strategies = len(sets) ** (configurations * pes)
        if strategies > self.most:
            raise HoldfastError(
                f"'{instance.application}' has {strategies:.3g} strategies; the exhaustive solver takes at most "
                f"{self.most}; use ft-search or milp"
            )
        best: Active | None = None
        least = np.inf
        for choice in product(sets, repeat=configurations * pes):
            active = np.array(choice).reshape(instance.shape)
            price = cost(instance, active)
            if price < least and not any(violations(instance, active)):
                best, least = active, price
        elapsed = time.perf_counter() - started
        if best is None:
            return Solution(self.name, Outcome.NUL, elapsed, bound=float("inf"), nodes=strategies)
        return solved(self.name, instance, best, optimal=True, seconds=elapsed, nodes=strategies)
