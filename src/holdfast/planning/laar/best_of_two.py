"""The better of the two solvers: FT-Search decides small instances at once, the MILP the rest."""

import time
from dataclasses import dataclass, field, replace

from holdfast.planning.laar.ftsearch import FTSearch
from holdfast.planning.laar.instance import Instance
from holdfast.planning.laar.milp import Milp
from holdfast.planning.laar.solver import Outcome, Solution


@dataclass(frozen=True, slots=True)
class Best:
    """Gives FT-Search a small share of the time and, if that does not decide, the MILP what is left.

    Of two undecided answers it keeps the cheaper strategy, with the stronger of the two proven bounds.
    """

    workers: int = 2
    share: float = 0.03
    name: str = field(default="best", init=False)

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        started = time.perf_counter()
        searched = FTSearch(workers=self.workers).solve(instance, seconds=self.share * seconds)
        if searched.outcome.decided:
            return searched
        proved = Milp(workers=min(2, self.workers)).solve(instance, seconds=max(0.0, seconds - (time.perf_counter() - started)))
        elapsed = searched.seconds + proved.seconds
        if proved.outcome.decided:
            return replace(proved, seconds=elapsed, first=searched.first, last=searched.last)
        bound = max(searched.bound, proved.bound)
        known = [solution for solution in (proved, searched) if solution.outcome is Outcome.SOL]
        chosen = min(known, key=lambda solution: solution.cost or 0.0, default=proved)
        if chosen.cost is not None:
            bound = min(bound, chosen.cost)
        return replace(chosen, seconds=elapsed, bound=bound, first=searched.first, last=searched.last)
