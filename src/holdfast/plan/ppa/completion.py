"""The cheapest way to complete a set of tasks to whole MC-trees, given what is replicated already."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from holdfast.model.topology import Floats, Ints
from holdfast.plan.ppa.fidelity import Edge, Measure

SHADE = 1e-3  # of costs that are equal the heavier task is taken; a shade of a replica never outweighs a whole one


class Completion:
    """For one plan: how many more replicas make each task complete upstream, and bring its output to a weighted task.

    Two passes over the topology, one each way. Costs of joined branches are added up, which counts a task twice that
    both need: the tasks returned are right, and at most as many as the cost says.
    """

    def __init__(self, measure: Measure, alive: Floats) -> None:
        self.measure = measure
        self.missing = 1.0 - alive
        self.up = self.missing.copy()
        self.best_up: list[tuple[Ints, ...]] = []
        for edges in measure.edges:
            self.best_up.append(self._look_up(edges))
        self.down = np.where(measure.weights > 0, 0.0, np.inf)
        self.reader = np.full(len(alive), -1, dtype=np.int64)
        for edges in reversed(measure.edges):
            self._look_down(edges)

    def of(self, tasks: Iterable[int]) -> set[int]:
        """The tasks and what completes them, without those replicated already."""
        wanted = set(tasks)
        for task in list(wanted):
            self._supply(task, wanted)
        for task in sorted(wanted):
            if not self._is_read_within(task, wanted):
                self._deliver(task, wanted)
        return {task for task in wanted if self.missing[task]}

    def _look_up(self, edges: tuple[Edge, ...]) -> tuple[Ints, ...]:
        """Costs of an operator's tasks from those of its inputs; per stream, the cheapest upstream task of each."""
        if not edges:
            return ()
        picks, costs = [], []
        for edge in edges:
            chosen = _cheapest(self.up[edge.up] - SHADE * edge.weights, edge.groups_up) + edge.up.start
            picks.append(chosen[edge.groups_down])
            costs.append(self.up[picks[-1]])
        cost = np.sum(costs, axis=0) if edges[0].joined else np.min(costs, axis=0)
        self.up[edges[0].down] += cost
        return tuple(picks)

    def _look_down(self, edges: tuple[Edge, ...]) -> None:
        if not edges:
            return
        down = edges[0].down
        arriving = [self.up[picks] for picks in self.best_up[int(self.measure.topology.operator_of[down.start])]]
        for at, edge in enumerate(edges):
            cost = self.missing[down] + self.down[down]
            if edge.joined:
                cost = cost + np.sum([a for i, a in enumerate(arriving) if i != at], axis=0)
            local = _cheapest(cost - SHADE * self.measure.topology.rates[down] / self._most(down), edge.groups_down)
            offered = cost[local][edge.groups_up]
            better = offered < self.down[edge.up]
            self.down[edge.up] = np.where(better, offered, self.down[edge.up])
            taken = (local + down.start)[edge.groups_up]
            self.reader[edge.up] = np.where(better, taken, self.reader[edge.up])

    def _most(self, span: slice) -> float:
        return float(self.measure.topology.rates[span].max()) or 1.0

    def _supply(self, task: int, wanted: set[int], *, but: int = -1) -> None:
        """Add to `wanted` what the task needs upstream: one complete task of any stream, or of each if joined."""
        at = int(self.measure.topology.operator_of[task])
        edges, picks = self.measure.edges[at], self.best_up[at]
        if not edges:
            return
        local = task - edges[0].down.start
        supplied = [self._has_member(edge, local, wanted) for edge in edges]
        if edges[0].joined:
            needed = [i for i, served in enumerate(supplied) if not served and i != but]
        elif any(supplied) or but >= 0:
            needed = []
        else:
            needed = [int(np.argmin([self.up[p[local]] for p in picks]))]
        for i in needed:
            self._add_complete(int(picks[i][local]), wanted)

    def _add_complete(self, task: int, wanted: set[int]) -> None:
        if self.up[task] and task not in wanted:
            wanted.add(task)
            self._supply(task, wanted)

    def _deliver(self, task: int, wanted: set[int]) -> None:
        """Add to `wanted` the way of the task's output to a weighted task."""
        while self.down[task] and self.reader[task] >= 0:
            reader = int(self.reader[task])
            fresh = reader not in wanted
            wanted.add(reader)
            up = int(self.measure.topology.operator_of[task])
            at = int(self.measure.topology.operator_of[reader])
            from_here = next(i for i, s in enumerate(self.measure.topology.streams[at]) if s.up == up)
            self._supply(reader, wanted, but=from_here)
            if not fresh:
                return
            task = reader

    def _has_member(self, edge: Edge, local: int, wanted: set[int]) -> bool:
        group = edge.groups_down[local]
        first, last = np.searchsorted(edge.groups_up, [group, group + 1]) + edge.up.start
        return any(first <= task < last for task in wanted)

    def _is_read_within(self, task: int, wanted: set[int]) -> bool:
        topology = self.measure.topology
        at = int(topology.operator_of[task])
        for stream in topology.readers[at]:
            group = stream.groups_up[task - topology.spans[at].start]
            first, last = np.searchsorted(stream.groups_down, [group, group + 1]) + topology.spans[stream.down].start
            if any(first <= other < last for other in wanted):
                return True
        return False


def _cheapest(costs: Floats, groups: Ints) -> Ints:
    """For each group, where its lowest cost stands (the first of equals)."""
    order = np.lexsort((costs, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return order[starts].astype(np.int64)
