"""Completion of a set of tasks to whole MC-trees with the fewest additional replicas, given a plan."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from holdfast.documents.topology import Floats, Ints
from holdfast.planning.ppa.fidelity import Measure, TaskEdge

TIE_BREAK = 1e-3  # among equal costs the heavier task is preferred; this never outweighs a whole replica

Span = tuple[int, int]


class Links:
    """For every task, the ranges of tasks that it reads and that read it, one range per stream."""

    def __init__(self, measure: Measure) -> None:
        tasks = len(measure.weights)
        self.inputs: list[list[Span]] = [[] for _ in range(tasks)]
        self.outputs: list[list[tuple[Span, int]]] = [[] for _ in range(tasks)]
        self.joined = [False] * tasks
        for edges in measure.edges:
            for position, edge in enumerate(edges):
                self._link(edge, position)

    def _link(self, edge: TaskEdge, position: int) -> None:
        ups = _spans(edge.groups_up, edge.up.start)
        downs = _spans(edge.groups_down, edge.down.start)
        for i, group in enumerate(edge.groups_down):
            self.inputs[edge.down.start + i].append(ups[group])
            self.joined[edge.down.start + i] = edge.joined
        for i, group in enumerate(edge.groups_up):
            self.outputs[edge.up.start + i].append((downs[group], position))

    def unsupplied(self, tasks: Iterable[int]) -> list[int]:
        """Return the tasks that lack an input from the others in a stream that they need."""
        members = list(tasks)
        return [task for task in members if self.missing_streams(task, members)]

    def missing_streams(self, task: int, members: Iterable[int]) -> list[int]:
        """Return the input streams that the task needs and lacks: each empty one of a join, otherwise all or none."""
        empty = [i for i, (a, b) in enumerate(self.inputs[task]) if not any(a <= other < b for other in members)]
        return empty if self.joined[task] or len(empty) == len(self.inputs[task]) else []

    def unread(self, tasks: Iterable[int]) -> list[int]:
        """Return the tasks that none of the others reads."""
        members = list(tasks)
        return [task for task in members if not any(a <= other < b for (a, b), _ in self.outputs[task] for other in members)]


class Completion:
    """For one plan: how many more replicas complete each task upstream, and deliver its output to a task with weight.

    Computed by one pass in each direction. The costs of joined branches are added, which counts a task that both need twice; the
    returned tasks are correct, and not more than the cost.
    """

    def __init__(self, measure: Measure, links: Links, alive: Floats) -> None:
        self.measure, self.links = measure, links
        missing = 1.0 - alive
        up, down = missing.copy(), np.where(measure.weights > 0, 0.0, np.inf)
        reader = np.full(len(alive), -1, dtype=np.int64)
        picks = [_pass_downstream(edges, up) for edges in measure.edges]
        for edges, picked in zip(reversed(measure.edges), reversed(picks), strict=True):
            _pass_upstream(measure, edges, [up[p] for p in picked], missing=missing, down=down, reader=reader)
        self.missing: list[float] = missing.tolist()
        self.up: list[float] = up.tolist()
        self.down: list[float] = down.tolist()
        self.reader: list[int] = reader.tolist()
        self.picks: list[list[int]] = [[] for _ in alive]
        for edges, picked in zip(measure.edges, picks, strict=True):
            for stream in picked:
                for task, pick in zip(range(edges[0].down.start, edges[0].down.stop), stream.tolist(), strict=True):
                    self.picks[task].append(pick)

    def of(self, tasks: Iterable[int], *, unsupplied: Iterable[int], unread: Iterable[int]) -> set[int]:
        """Return the tasks and those that complete them, without tasks that are replicated already.

        `unsupplied` and `unread` are `Links.unsupplied` and `Links.unread` of these tasks; they do not depend on the plan.
        """
        tasks_to_add = set(tasks)
        for task in unsupplied:
            self._supply(task, tasks_to_add)
        for task in unread:
            self._deliver(task, tasks_to_add)
        return {task for task in tasks_to_add if self.missing[task]}

    def _supply(self, task: int, tasks_to_add: set[int], *, but: int = -1) -> None:
        """Add to `tasks_to_add` what the task needs upstream: one complete task of any stream, or of each stream for a join."""
        needed = self.links.missing_streams(task, tasks_to_add)
        if not needed:
            return
        picks = self.picks[task]
        if not self.links.joined[task]:
            needed = [] if but >= 0 else [min(needed, key=lambda i: (self.up[picks[i]], i))]
        for i in needed:
            if i != but:
                self._add_complete(picks[i], tasks_to_add)

    def _add_complete(self, task: int, tasks_to_add: set[int]) -> None:
        if self.up[task] and task not in tasks_to_add:
            tasks_to_add.add(task)
            self._supply(task, tasks_to_add)

    def _deliver(self, task: int, tasks_to_add: set[int]) -> None:
        """Add to `tasks_to_add` the path of the task's output to a task with weight."""
        while self.down[task] and self.reader[task] >= 0:
            reader = self.reader[task]
            if reader in tasks_to_add:
                return
            tasks_to_add.add(reader)
            came_by = next(position for (a, b), position in self.links.outputs[task] if a <= reader < b)
            self._supply(reader, tasks_to_add, but=came_by)
            task = reader


def _pass_downstream(edges: tuple[TaskEdge, ...], up: Floats) -> tuple[Ints, ...]:
    """Add the costs of inputs to an operator's costs. Returns, per stream, the cheapest upstream task of each task."""
    if not edges:
        return ()
    picks = []
    for edge in edges:
        chosen = _cheapest(up[edge.up] - TIE_BREAK * edge.weights, edge.groups_up) + edge.up.start
        picks.append(chosen[edge.groups_down])
    costs = [up[pick] for pick in picks]
    up[edges[0].down] += np.sum(costs, axis=0) if edges[0].joined else np.min(costs, axis=0)
    return tuple(picks)


def _pass_upstream(
    measure: Measure,
    edges: tuple[TaskEdge, ...],
    arriving: list[Floats],
    *,
    missing: Floats,
    down: Floats,
    reader: Ints,
) -> None:
    """Lower the downstream costs of the operators that this one reads."""
    for at, edge in enumerate(edges):
        rates = measure.topology.rates[edge.down]
        cost = missing[edge.down] + down[edge.down]
        if edge.joined:
            cost = cost + np.sum([a for i, a in enumerate(arriving) if i != at], axis=0)
        local = _cheapest(cost - TIE_BREAK * rates / (rates.max() or 1.0), edge.groups_down)
        offered = cost[local][edge.groups_up]
        better = offered < down[edge.up]
        down[edge.up] = np.where(better, offered, down[edge.up])
        reader[edge.up] = np.where(better, (local + edge.down.start)[edge.groups_up], reader[edge.up])


def _cheapest(costs: Floats, groups: Ints) -> Ints:
    """Return the position of the lowest cost of each group, the first among equals."""
    if len(groups) == int(groups[-1]) + 1:
        return np.arange(len(groups), dtype=np.int64)
    order = np.lexsort((costs, groups))
    return order[np.searchsorted(groups, np.arange(int(groups[-1]) + 1))].astype(np.int64)


def _spans(groups: Ints, start: int) -> list[Span]:
    ends = np.searchsorted(groups, np.arange(int(groups[-1]) + 2)) + start
    return [(int(a), int(b)) for a, b in pairwise(ends)]
