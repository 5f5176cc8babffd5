"""The exact solver: LAAR's problem as a mixed-integer linear programme, solved by HiGHS, for any k and any configurations.

Two searches run in parallel, each in its own process, and the first proof wins. `milp_search.py` describes how they differ.
"""

import time
from dataclasses import dataclass, field, replace

from holdfast.errors import HoldfastError
from holdfast.planning.laar.instance import Active, Instance
from holdfast.planning.laar.milp_search import INFEASIBLE, OPTIMAL, SearchAnswer, SearchQuestion, Way, search
from holdfast.planning.laar.solver import Outcome, Solution, base_cost, solved
from holdfast.planning.solver_processes import Call, race, warm_up

# Most refined searches end within this time, and then the second process is not needed.
HEAD_START_S = 1.0
# How long after its time limit a search may take to return its result: this share of the limit, up to a maximum.
GRACE, MOST_GRACE_S = 0.2, 2.0


@dataclass(frozen=True, slots=True)
class Milp:
    """Solves to proven optimality, or returns a proven gap when time runs out. `workers` is 1 or 2 processes.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> solution = Milp().solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.outcome.value, round(solution.ic, 3), round(solution.cost / 2592000, 3)
    ('BST', 0.667, 1.6)
    """

    gap: float = 1e-7
    workers: int = 2
    name: str = field(default="milp", init=False)

    def __post_init__(self) -> None:
        if self.workers not in (1, 2):
            raise HoldfastError(f"the exact solver runs in 1 or 2 processes, got {self.workers}")

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        warm_up(search)  # the search's time does not include the start of a process
        started = time.perf_counter()
        answer = _answer(SearchQuestion(instance, "cost", self.gap), seconds=seconds, workers=self.workers)
        elapsed = time.perf_counter() - started
        bound = base_cost(instance) * (1 + max(0.0, answer.bound))
        if answer.status == INFEASIBLE:
            return Solution(self.name, Outcome.NUL, elapsed, bound=float("inf"), tree_nodes=answer.tree_nodes)
        if answer.active is None:
            return Solution(self.name, Outcome.TMO, elapsed, bound=bound, tree_nodes=answer.tree_nodes)
        optimal = answer.status == OPTIMAL
        return solved(
            self.name, instance, answer.active, optimal=optimal, seconds=elapsed, bound=bound, tree_nodes=answer.tree_nodes
        )


def most_complete(instance: Instance, *, seconds: float = 60.0) -> tuple[Active | None, float]:
    """Return a feasible strategy of the highest IC, and a proven upper bound on IC.

    Returns (None, 0.0) if no strategy meets Eq. 11 and 12, and None with another bound if time ran out before any was found.
    """
    answer = _answer(SearchQuestion(instance, "completeness", 1e-6), seconds=seconds)
    return (None, 0.0) if answer.status == INFEASIBLE else (answer.active, min(1.0, -answer.bound))


def cheapest_with_shortfall(instance: Instance, *, weight: float, seconds: float = 60.0) -> tuple[Active | None, bool]:
    """Return the strategy that minimises cost / base cost + weight * max(0, sla - IC), and whether that is proven."""
    answer = _answer(SearchQuestion(instance, "shortfall", 1e-7, weight), seconds=seconds)
    return answer.active, answer.status == OPTIMAL


def _answer(question: SearchQuestion, *, seconds: float, workers: int = 2) -> SearchAnswer:
    """Return the first decided answer, or else the best strategy with the best bound of all searches."""
    warm_up(search)
    deadline = time.monotonic() + seconds
    grace_s = min(MOST_GRACE_S, 0.2 + GRACE * seconds)
    ways: list[tuple[Way, float]] = [("both", 0.0)] if workers == 1 else [("refined", 0.0), ("whole", HEAD_START_S)]
    calls = [Call(search, (question, way, deadline), after_s=after_s) for way, after_s in ways]
    answers = [answer for answer in race(calls, settles=lambda a: a.decided, until=deadline + grace_s) if answer is not None]
    if not answers:
        return SearchAnswer(1, None, float("inf"), float("-inf"), 0)
    best = min(answers, key=lambda answer: (not answer.decided, answer.value))
    return best if best.decided else replace(best, bound=max(answer.bound for answer in answers))
