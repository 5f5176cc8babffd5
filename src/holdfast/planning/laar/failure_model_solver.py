"""A solver for failure models other than the pessimistic one.

Only the pessimistic model makes the problem linear. For small applications this
solver tries all strategies. For larger ones it bisects over pessimistic SLAs: each gives a cheapest strategy, whose
completeness under the chosen model grows with the SLA. It then deactivates replicas that the SLA does not need, the most
expensive first. If no such strategy meets the SLA, it adds replicas to the cheapest strategy while nodes have room.
"""

import time
from dataclasses import dataclass, field

import numpy as np

from holdfast.planning.laar.completeness import cost, internal_completeness, node_load, violations
from holdfast.planning.laar.exhaustive import Exhaustive
from holdfast.planning.laar.failure_models import FailureModel
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Instance
from holdfast.planning.laar.milp import Milp, most_complete
from holdfast.planning.laar.solver import Outcome, Solution, Solver, base_cost

STEPS = 7


@dataclass(frozen=True, slots=True)
class FailureModelSolver:
    """Solves for any failure model: exactly if all strategies can be tried, otherwise a cheap strategy without a proof.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> from holdfast.planning.laar.failure_models import NodeCrash
    >>> solution = FailureModelSolver(NodeCrash()).solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.outcome.value, round(solution.ic, 3), round(solution.cost / 2592000, 3)
    ('BST', 0.75, 1.6)
    """

    failure: FailureModel
    solver: Solver = field(default_factory=Milp)
    most: int = 2_000_000

    @property
    def name(self) -> str:
        return f"{self.solver.name} for {self.failure.name}"

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        started = time.perf_counter()
        exhaustive = Exhaustive(most=self.most, failure=self.failure)
        if exhaustive.strategies(instance) <= self.most:
            return exhaustive.solve(instance, seconds=seconds)
        best: Active | None = None
        low, high = 0.0, 1.0
        for step in range(STEPS):
            sla = (0.0, 1.0)[step] if step < 2 else (low + high) / 2
            active = self.solver.solve(instance.at(sla), seconds=seconds / STEPS).active
            meets = active is not None and self._meets(instance, active)
            if active is not None and meets and (best is None or cost(instance, active) < cost(instance, best)):
                best = active
            if meets and sla == 0:
                break
            low, high = (low, sla) if meets or active is None else (sla, high)
        if best is None:
            most, _ = self.most_complete(instance, seconds=max(0.1, seconds - (time.perf_counter() - started)))
            best = most if most is not None and self._meets(instance, most) else None
        elapsed = time.perf_counter() - started
        if best is None:
            return Solution(self.name, Outcome.TMO, elapsed, bound=base_cost(instance))
        best = self._without_excess(instance, best)
        ic = internal_completeness(instance, best, failure=self.failure)
        elapsed = time.perf_counter() - started
        return Solution(self.name, Outcome.SOL, elapsed, best, cost(instance, best), ic, bound=base_cost(instance))

    def most_complete(self, instance: Instance, *, seconds: float = 60.0) -> tuple[Active | None, bool]:
        """Return a feasible strategy of high IC and whether none has more (proven); (None, True) if no strategy is feasible."""
        until = time.perf_counter() + seconds
        exhaustive = Exhaustive(most=self.most, failure=self.failure)
        if exhaustive.strategies(instance) <= self.most:
            return exhaustive.most_complete(instance), True
        cheapest = self.solver.solve(instance.at(0.0), seconds=seconds / 4)
        if cheapest.active is None:
            return None, cheapest.outcome is Outcome.NUL
        starts = [cheapest.active]
        pessimistic, _ = most_complete(instance, seconds=seconds / 4)
        if pessimistic is not None:
            starts.append(pessimistic)
        candidates = [self._with_more_replicas(instance, active, until=until) for active in starts]
        return max(candidates, key=lambda active: internal_completeness(instance, active, failure=self.failure)), False

    def _with_more_replicas(self, instance: Instance, active: Active, *, until: float) -> Active:
        """Return a strategy with more replicas, as room and time allow: one of each PE, upstream first, on the emptiest node."""
        strategy = active.copy()
        now, more = internal_completeness(instance, strategy, failure=self.failure), True
        while more:
            more = False
            for c, i in np.ndindex(strategy.shape[:2]):
                if time.perf_counter() >= until:
                    return strategy
                room = instance.limit - node_load(instance, strategy)[c]
                idle = [j for j in np.flatnonzero(~strategy[c, i]) if room[instance.node_of[i, j]] >= instance.work[c, i]]
                for j in sorted(idle, key=lambda j: (-room[instance.node_of[i, j]], j)):
                    strategy[c, i, j] = True
                    then = internal_completeness(instance, strategy, failure=self.failure)
                    if then > now:
                        now, more = then, True
                        break
                    strategy[c, i, j] = False
        return strategy

    def _meets(self, instance: Instance, active: Active) -> bool:
        return not any(violations(instance, active, failure=self.failure))

    def _without_excess(self, instance: Instance, active: Active) -> Active:
        """Return a strategy without the replicas that the SLA does not need. Each is tried once, the most expensive first."""
        strategy = active.copy()
        price = (instance.probability[:, None] * instance.work)[:, :, None] * active
        for c, i, j in sorted(np.argwhere(active), key=lambda at: (-price[tuple(at)], *at)):
            if strategy[c, i].sum() < 2:
                continue
            strategy[c, i, j] = False
            if internal_completeness(instance, strategy, failure=self.failure) < instance.sla - IC_TOLERANCE:
                strategy[c, i, j] = True
        return strategy
