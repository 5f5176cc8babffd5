"""FT-Search (LAAR section 4.5): depth-first search for the cheapest strategy, with four prunings, on several threads."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar.completeness import violations
from holdfast.planning.laar.dual_bounds import cost_penalties, loss_penalties
from holdfast.planning.laar.examples import figure_1
from holdfast.planning.laar.ftsearch_kernel import DONE, FOUND, PRUNINGS, split, step
from holdfast.planning.laar.ftsearch_tree import Trail, Tree, activation, build_tree, root_cursor
from holdfast.planning.laar.instance import Active, Instance
from holdfast.planning.laar.linear_programme import Programme
from holdfast.planning.laar.solver import FoundStrategy, Outcome, Pruning, Solution, base_cost, solved

_SLICE_NODES = 100_000
_FIRST_SLICE_NODES = 1_000


@dataclass(frozen=True, slots=True)
class FTSearch:
    """Searches the tree of strategies; complete when it ends in time.

    `bounds` is "paper" for the four prunings as the paper has them, or "dual" to sharpen CPU, COMPL and COST with the
    dual values of the linear relaxation and to try first what the relaxation suggests. Each worker is a thread that
    hands half of what it has left to an idle one.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> solution = FTSearch(workers=1).solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.outcome.value, round(solution.ic, 3), round(solution.cost / 2592000, 3)
    ('BST', 0.667, 1.6)
    """

    workers: int = 2
    bounds: Literal["paper", "dual"] = "dual"
    name: str = field(default="ft-search", init=False)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise HoldfastError(f"FT-Search wants at least 1 worker, got {self.workers}")

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        _load()
        started = time.perf_counter()
        sharpen = self.bounds == "dual"
        price = loss = None
        if sharpen:
            programme = Programme.of(instance)
            price, loss = cost_penalties(instance, programme), loss_penalties(programme)
        tree = build_tree(instance, price=price, loss=loss, sharpen=sharpen)
        hunt = _Hunt(instance, tree, started=started, deadline=started + seconds)
        hunt.run(self.workers)
        return hunt.solution(self.name, floor=max(0.0, price.root) if price is not None else 0.0)


@cache
def _load() -> None:
    """Load the compiled search, once in a process: that is no part of any search's time."""
    tree = build_tree(Instance.of(figure_1()), price=None, loss=None, sharpen=False)
    step(tree, root_cursor(tree), np.array([np.inf]), 1)


class _Hunt:
    """One search: the trails that wait, the best strategy so far, and who is idle."""

    def __init__(self, instance: Instance, tree: Tree, *, started: float, deadline: float) -> None:
        self.instance, self.tree = instance, tree
        self.started, self.deadline = started, deadline
        self.best = np.array([np.inf])
        self.active: Active | None = None
        self.first: FoundStrategy | None = None
        self.last: FoundStrategy | None = None
        self.waiting: deque[Trail] = deque([root_cursor(tree)])
        self.finished: list[Trail] = []
        self.changed = threading.Condition()
        self.idle = 0
        self.late = False
        self.failures: list[BaseException] = []

    def run(self, workers: int) -> None:
        threads = [threading.Thread(target=self._work, args=(workers,), daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # an interrupt reaches this thread alone: the workers stop at their next slice
            self.late = True
            raise
        if self.failures:
            raise self.failures[0]

    def solution(self, name: str, *, floor: float) -> Solution:
        elapsed = time.perf_counter() - self.started
        pruned = np.sum([trail.pruned for trail in self.finished], axis=0)
        heights = np.sum([trail.heights for trail in self.finished], axis=0)
        prunings = {
            rule: Pruning(int(pruned[r]), float(heights[r] / pruned[r]) if pruned[r] else 0.0) for r, rule in enumerate(PRUNINGS)
        }
        tree_nodes = int(sum(trail.cursor[2] for trail in self.finished))
        bound = base_cost(self.instance) * (1 + floor)
        if self.active is None:
            outcome = Outcome.TMO if self.late else Outcome.NUL
            bound = bound if self.late else float("inf")
            return Solution(name, outcome, elapsed, bound=bound, tree_nodes=tree_nodes, prunings=prunings)
        return solved(
            name,
            self.instance,
            self.active,
            optimal=not self.late,
            seconds=elapsed,
            bound=bound,
            first=self.first,
            last=self.last,
            tree_nodes=tree_nodes,
            prunings=prunings,
        )

    def _work(self, workers: int) -> None:
        try:
            while (trail := self._take(workers)) is not None:
                self._search(trail)
                with self.changed:
                    self.finished.append(trail)
        except BaseException as failure:  # handed to the caller's thread, which raises it
            with self.changed:
                self.failures.append(failure)
                self.late = True
                self.changed.notify_all()

    def _take(self, workers: int) -> Trail | None:
        """The next trail; waits while another worker may still hand one over."""
        with self.changed:
            self.idle += 1
            while not self.waiting and self.idle < workers and not self.late:
                self.changed.wait()
            if not self.waiting or self.late:
                self.finished.extend(self.waiting)
                self.waiting.clear()
                self.changed.notify_all()
                return None
            self.idle -= 1
            return self.waiting.popleft()

    def _search(self, trail: Trail) -> None:
        budget = _FIRST_SLICE_NODES
        while True:
            status = step(self.tree, trail, self.best, budget)
            if status == DONE:
                return
            if status == FOUND:
                self._keep(trail)
                continue
            budget = _SLICE_NODES
            with self.changed:
                if self.late or time.perf_counter() >= self.deadline:
                    self.late = True
                    self.changed.notify_all()
                    return
                if self.idle > len(self.waiting) and (taken := split(self.tree, trail)) is not None:
                    self.waiting.append(taken)
                    self.changed.notify()

    def _keep(self, trail: Trail) -> None:
        price = float(trail.spent[-1])
        active = activation(self.instance, self.tree, trail)
        with self.changed:
            if price >= self.best[0] or any(violations(self.instance, active)):
                return
            self.best[0] = price
            self.active = active
            found = FoundStrategy(base_cost(self.instance) * (1 + price), time.perf_counter() - self.started)
            self.first = self.first or found
            self.last = found
