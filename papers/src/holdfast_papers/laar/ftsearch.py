"""FT-Search (LAAR section 4.5): a depth-first search for the cheapest strategy, with four prunings, on several threads.

The prunings (CPU, COMPL, COST, DOM) are in `ftsearch_kernel.step`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar import (
    Active,
    FoundStrategy,
    Instance,
    Outcome,
    Programme,
    Pruning,
    Solution,
    base_cost,
    figure_1,
    solved,
    violations,
)
from holdfast_papers.laar.dual_bounds import cost_penalties, loss_penalties
from holdfast_papers.laar.ftsearch_kernel import DONE, FOUND, PRUNINGS, split, step
from holdfast_papers.laar.ftsearch_tree import Cursor, Tree, build_tree, root_cursor, strategy_of

_SLICE_NODES = 100_000
_FIRST_SLICE_NODES = 1_000


@dataclass(frozen=True, slots=True)
class FTSearch:
    """Searches the tree of strategies. The result is optimal if the search ends in time.

    With `bounds="paper"` the four prunings are those of the paper. With "dual", the dual values of the linear relaxation
    tighten CPU, COMPL and COST, and the search first tries what the relaxation suggests. Each worker is a thread that hands
    part of its subtree to an idle worker. `clock` measures the time limit: with `time.process_time` it is CPU time, so
    that a busy machine does not shorten the search.

    >>> from holdfast.planning.laar import Instance, figure_1
    >>> solution = FTSearch(workers=1).solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.outcome.value, round(solution.ic, 3), round(solution.cost / 2592000, 3)
    ('BST', 0.667, 1.6)
    """

    workers: int = 2
    bounds: Literal["paper", "dual"] = "dual"
    clock: Callable[[], float] = time.perf_counter
    name: str = field(default="ft-search", init=False)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise HoldfastError(f"FT-Search wants at least 1 worker, got {self.workers}")

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        _load()
        started = self.clock()
        sharpen = self.bounds == "dual"
        price = loss = None
        if sharpen:
            programme = Programme.of(instance)
            price, loss = cost_penalties(instance, programme), loss_penalties(programme)
        tree = build_tree(instance, price=price, loss=loss, sharpen=sharpen)
        parallel = ParallelSearch(instance, tree, clock=self.clock, started=started, deadline=started + seconds)
        parallel.run(self.workers)
        return parallel.solution(self.name, floor=max(0.0, price.root) if price is not None else 0.0)


@cache
def _load() -> None:
    """Load the compiled search once per process, so that no search's time includes it."""
    tree = build_tree(Instance.of(figure_1()), price=None, loss=None, sharpen=False)
    step(tree, root_cursor(tree), np.array([np.inf]), 1)


class ParallelSearch:
    """A search on several threads: the cursors that wait for a worker, the best strategy so far, and the number of idle workers."""

    def __init__(self, instance: Instance, tree: Tree, *, clock: Callable[[], float], started: float, deadline: float) -> None:
        self.instance, self.tree = instance, tree
        self.clock, self.started, self.deadline = clock, started, deadline
        self.best = np.array([np.inf])
        self.active: Active | None = None
        self.first: FoundStrategy | None = None
        self.last: FoundStrategy | None = None
        self.waiting: deque[Cursor] = deque([root_cursor(tree)])
        self.finished: list[Cursor] = []
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
        except BaseException:  # an interrupt reaches only this thread; the workers stop after their current slice
            self.late = True
            raise
        if self.failures:
            raise self.failures[0]

    def solution(self, name: str, *, floor: float) -> Solution:
        elapsed = self.clock() - self.started
        pruned = np.sum([cursor.pruned for cursor in self.finished], axis=0)
        heights = np.sum([cursor.heights for cursor in self.finished], axis=0)
        prunings = {
            rule: Pruning(int(pruned[r]), float(heights[r] / pruned[r]) if pruned[r] else 0.0) for r, rule in enumerate(PRUNINGS)
        }
        tree_nodes = int(sum(cursor.position[2] for cursor in self.finished))
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
            while (cursor := self._take(workers)) is not None:
                self._search(cursor)
                with self.changed:
                    self.finished.append(cursor)
        except BaseException as failure:  # the caller's thread raises it
            with self.changed:
                self.failures.append(failure)
                self.late = True
                self.changed.notify_all()

    def _take(self, workers: int) -> Cursor | None:
        """Return the next cursor, or None at the end. Waits while another worker may still hand one over."""
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

    def _search(self, cursor: Cursor) -> None:
        budget = _FIRST_SLICE_NODES
        while True:
            status = step(self.tree, cursor, self.best, budget)
            if status == DONE:
                return
            if status == FOUND:
                self._record(cursor)
                continue
            budget = _SLICE_NODES
            with self.changed:
                if self.late or self.clock() >= self.deadline:
                    self.late = True
                    self.changed.notify_all()
                    return
                if self.idle > len(self.waiting) and (other := split(self.tree, cursor)) is not None:
                    self.waiting.append(other)
                    self.changed.notify()

    def _record(self, cursor: Cursor) -> None:
        price = float(cursor.spent[-1])
        active = strategy_of(self.instance, self.tree, cursor)
        with self.changed:
            if price >= self.best[0] or any(violations(self.instance, active)):
                return
            self.best[0] = price
            self.active = active
            latest = FoundStrategy(base_cost(self.instance) * (1 + price), self.clock() - self.started)
            self.first = self.first or latest
            self.last = latest
