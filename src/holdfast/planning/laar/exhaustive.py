"""The reference solver, which tries every strategy. It is for small instances and for tests of the other solvers."""

import time
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar.completeness import cost, internal_completeness, node_load, processed_rates
from holdfast.planning.laar.failure_models import FailureModel, Pessimistic
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Floats, Instance
from holdfast.planning.laar.solver import Outcome, Solution, solved


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Tries every non-empty set of active replicas of every PE in every configuration, under any failure model.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> solution = Exhaustive().solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.tree_nodes, solution.outcome.value, round(solution.ic, 3)
    (81, 'BST', 0.667)
    """

    most: int = 2_000_000
    failure: FailureModel = field(default_factory=Pessimistic)
    name: str = field(default="exhaustive", init=False)

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        started = time.perf_counter()
        strategies = self.strategies(instance)
        parts = self._parts(instance)
        prices, ic = np.zeros(1), np.zeros(1)
        for part in parts:  # all combinations over configurations, the last varying fastest
            prices = np.add.outer(prices, part.price).ravel()
            ic = np.add.outer(ic, part.ic).ravel()
        prices[ic < instance.sla - IC_TOLERANCE] = np.inf
        elapsed = time.perf_counter() - started
        if not np.isfinite(prices).any():
            return Solution(self.name, Outcome.NUL, elapsed, bound=float("inf"), tree_nodes=int(strategies))
        chosen = np.unravel_index(int(np.argmin(prices)), tuple(len(part.price) for part in parts))
        active = np.stack([part.active[n] for part, n in zip(parts, chosen, strict=True)])
        if isinstance(self.failure, Pessimistic):
            return solved(self.name, instance, active, optimal=True, seconds=elapsed, tree_nodes=int(strategies))
        total = cost(instance, active)
        reached = internal_completeness(instance, active, failure=self.failure)
        return Solution(self.name, Outcome.BST, elapsed, active, total, reached, bound=total, tree_nodes=int(strategies))

    def most_complete(self, instance: Instance) -> Active | None:
        """Return the feasible strategy of the highest IC, the cheapest among equals, or None if there is none."""
        parts = self._parts(instance)
        if not all(len(part.price) for part in parts):
            return None
        return np.stack([part.active[np.lexsort((part.price, -part.ic))[0]] for part in parts])

    def _parts(self, instance: Instance) -> list["_Part"]:
        strategies = self.strategies(instance)
        if strategies > self.most:
            raise HoldfastError(
                f"'{instance.application}' has {strategies:.3g} strategies; the exhaustive solver takes at most "
                f"{self.most}; use milp"
            )
        return [_Part.of(instance, c, self.failure) for c in range(instance.shape[0])]

    def strategies(self, instance: Instance) -> float:
        """Return the number of strategies."""
        configurations, pes, replicas = instance.shape
        return float(2**replicas - 1) ** (configurations * pes)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """All feasible choices of active replicas in one configuration, with their shares of the cost and of IC."""

    active: Active
    price: Floats
    ic: Floats

    @classmethod
    def of(cls, instance: Instance, c: int, failure: FailureModel) -> "_Part":
        _, pes, replicas = instance.shape
        sets = [bits for bits in product((False, True), repeat=replicas) if any(bits)]
        active = np.array(list(product(sets, repeat=pes)), dtype=np.bool_)
        many = instance.repeated(c, len(active))
        fits = np.asarray((node_load(many, active) <= instance.limit).all(axis=1))
        best = float((instance.probability @ instance.rate_in).sum())
        scenarios = [share * processed_rates(many, phi) for share, phi in failure.scenarios(many, active)]
        processed = np.sum(scenarios, axis=0).sum(axis=1) * instance.probability[c]
        price = (many.work * active.sum(axis=2)).sum(axis=1) * instance.probability[c]
        ic = processed / best if best > 0 else np.full(len(active), 1.0 / len(instance.probability))
        return cls(active[fits], price[fits], ic[fits])
