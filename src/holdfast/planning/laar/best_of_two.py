"""A solver that combines both: FT-Search solves small instances at once, the MILP solves the rest."""

import time
from dataclasses import dataclass, field, replace

from holdfast.planning.laar.ftsearch import FTSearch
from holdfast.planning.laar.instance import Instance
from holdfast.planning.laar.milp import Milp
from holdfast.planning.laar.solver import Outcome, Solution


@dataclass(frozen=True, slots=True)
class BestOfTwo:
    """Runs FT-Search for a small share of the time and, if it proves nothing, the MILP for the rest.

    If neither has a proof, it returns the cheaper strategy with the stronger of the two proven bounds.
    """

    workers: int = 2
    share: float = 0.03
    name: str = field(default="best", init=False)

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        started = time.perf_counter()
        by_search = FTSearch(workers=self.workers).solve(instance, seconds=self.share * seconds)
        if by_search.outcome.decided:
            return by_search
        by_milp = Milp(workers=min(2, self.workers)).solve(instance, seconds=max(0.0, seconds - (time.perf_counter() - started)))
        elapsed = by_search.seconds + by_milp.seconds
        if by_milp.outcome.decided:
            return replace(by_milp, seconds=elapsed, first=by_search.first, last=by_search.last)
        bound = max(by_search.bound, by_milp.bound)
        solutions = [solution for solution in (by_milp, by_search) if solution.outcome is Outcome.SOL]
        cheapest = min(solutions, key=lambda solution: solution.cost or 0.0, default=by_milp)
        if cheapest.cost is not None:
            bound = min(bound, cheapest.cost)
        return replace(cheapest, seconds=elapsed, bound=bound, first=by_search.first, last=by_search.last)
