"""Strategies under a failure model that is not the pessimistic one.

Only pessimistic failures make the problem linear, and only for them do FT-Search's prunings hold. Small applications are
looked at whole. For others, pessimistic SLAs are tried between none and all: each gives a strategy of least cost, whose
completeness under the chosen model grows with the SLA; what it has beyond need is then taken away, the dearest first. Where
none of these will do, the cheapest strategy is given more replicas, for as long as nodes carry them.
"""

import time
from dataclasses import dataclass, field

import numpy as np

from holdfast.planning.laar.best_of_two import Best
from holdfast.planning.laar.completeness import cost, internal_completeness, node_load, violations
from holdfast.planning.laar.exhaustive import Exhaustive
from holdfast.planning.laar.failure_models import FailureModel
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Instance
from holdfast.planning.laar.milp import most_complete
from holdfast.planning.laar.solver import Outcome, Solution, Solver, base_cost

STEPS = 7


@dataclass(frozen=True, slots=True)
class UnderFailure:
    """Solves for any failure model: exactly where every strategy can be looked at, else a cheap strategy without a proof.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> from holdfast.planning.laar.failure_models import NodeCrash
    >>> solution = UnderFailure(NodeCrash()).solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.outcome.value, round(solution.ic, 3), round(solution.cost / 2592000, 3)
    ('BST', 0.75, 1.6)
    """

    failure: FailureModel
    solver: Solver = field(default_factory=Best)
    most: int = 2_000_000

    @property
    def name(self) -> str:
        return f"{self.solver.name} for {self.failure.name}"

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        started = time.perf_counter()
        whole = Exhaustive(most=self.most, failure=self.failure)
        if whole.strategies(instance) <= self.most:
            return whole.solve(instance, seconds=seconds)
        found: Active | None = None
        low, high = 0.0, 1.0
        for step in range(STEPS):
            sla = (0.0, 1.0)[step] if step < 2 else (low + high) / 2
            active = self.solver.solve(instance.at(sla), seconds=seconds / STEPS).active
            meets = active is not None and self._meets(instance, active)
            if active is not None and meets and (found is None or cost(instance, active) < cost(instance, found)):
                found = active
            if meets and sla == 0:
                break
            low, high = (low, sla) if meets or active is None else (sla, high)
        if found is None:
            most, _ = self.most_complete(instance, seconds=max(0.1, seconds - (time.perf_counter() - started)))
            found = most if most is not None and self._meets(instance, most) else None
        elapsed = time.perf_counter() - started
        if found is None:
            return Solution(self.name, Outcome.TMO, elapsed, bound=base_cost(instance))
        found = self._trimmed(instance, found)
        ic = internal_completeness(instance, found, failure=self.failure)
        elapsed = time.perf_counter() - started
        return Solution(self.name, Outcome.SOL, elapsed, found, cost(instance, found), ic, bound=base_cost(instance))

    def most_complete(self, instance: Instance, *, seconds: float = 60.0) -> tuple[Active | None, bool]:
        """A strategy of high IC that nodes carry, and whether it is proven that none has more; (None, True) if they carry none."""
        until = time.perf_counter() + seconds
        whole = Exhaustive(most=self.most, failure=self.failure)
        if whole.strategies(instance) <= self.most:
            return whole.most_complete(instance), True
        cheapest = self.solver.solve(instance.at(0.0), seconds=seconds / 4)
        if cheapest.active is None:
            return None, cheapest.outcome is Outcome.NUL
        starts = [cheapest.active]
        pessimistic, _ = most_complete(instance, seconds=seconds / 4)
        if pessimistic is not None:
            starts.append(pessimistic)
        filled = [self._filled(instance, active, until=until) for active in starts]
        return max(filled, key=lambda active: internal_completeness(instance, active, failure=self.failure)), False

    def _filled(self, instance: Instance, active: Active, *, until: float) -> Active:
        """The strategy with more replicas, as long as nodes carry them and time is left: one of each PE in turn, upstream
        first, each on the node with most room."""
        made = active.copy()
        now, more = internal_completeness(instance, made, failure=self.failure), True
        while more:
            more = False
            for c, i in np.ndindex(made.shape[:2]):
                if time.perf_counter() >= until:
                    return made
                room = instance.limit - node_load(instance, made)[c]
                idle = [j for j in np.flatnonzero(~made[c, i]) if room[instance.node_of[i, j]] >= instance.work[c, i]]
                for j in sorted(idle, key=lambda j: (-room[instance.node_of[i, j]], j)):
                    made[c, i, j] = True
                    then = internal_completeness(instance, made, failure=self.failure)
                    if then > now:
                        now, more = then, True
                        break
                    made[c, i, j] = False
        return made

    def _meets(self, instance: Instance, active: Active) -> bool:
        return not any(violations(instance, active, failure=self.failure))

    def _trimmed(self, instance: Instance, active: Active) -> Active:
        """The strategy without replicas that the SLA does not need, tried once each, the dearest first."""
        made = active.copy()
        price = (instance.probability[:, None] * instance.work)[:, :, None] * active
        for c, i, j in sorted(np.argwhere(active), key=lambda at: (-price[tuple(at)], *at)):
            if made[c, i].sum() < 2:
                continue
            made[c, i, j] = False
            if internal_completeness(instance, made, failure=self.failure) < instance.sla - IC_TOLERANCE:
                made[c, i, j] = True
        return made
