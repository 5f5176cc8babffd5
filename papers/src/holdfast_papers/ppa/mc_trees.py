"""Minimal complete trees (MC-trees, PPA Definition 1): the smallest sets of tasks that still produce output.

A task of a source is complete by itself. A task with independent inputs needs a complete task from any of them; a task with
correlated inputs needs one from each. A tree ends at a task with weight in the measure; for output fidelity, a task of an
output operator. It is minimal: without any of its tasks, its last task is not complete.

A *way* is one choice of inputs for each task. Ways and trees are the same unless a fork rejoins. Then two ways may yield the
same set of tasks, and a way may contain tasks that are not needed.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from holdfast.planning.ppa import Links, Measure, Span

MOST_LISTED = 20_000  # sets examined to count trees if forks rejoin; takes a second or two

Need = tuple[Span, ...]  # ranges of tasks, one of which must be in the set


@dataclass(frozen=True, slots=True)
class TreeCount:
    """The number of MC-trees, or an upper bound if it is not `exact`."""

    number: int
    exact: bool


def count_trees(measure: Measure) -> TreeCount:
    """Return the number of MC-trees. If no fork rejoins, it is the number of ways and needs no enumeration.

    If a fork rejoins, the trees are enumerated up to a limit; beyond it, the number of ways is an upper bound.

    Figure 1: the third of three operators with four tasks reads the first two one-to-one, and two tasks read it in full.

    >>> from holdfast.documents import TaskOperator, Topology
    >>> from holdfast.planning.ppa import output_fidelity
    >>> def figure1(correlated):
    ...     return Topology(topology="figure 1", operators={
    ...         "o1": TaskOperator(parallelism=4, rate=1.0), "o2": TaskOperator(parallelism=4, rate=1.0),
    ...         "o3": TaskOperator(parallelism=4, correlated=correlated,
    ...                            inputs={"o1": "one-to-one", "o2": "one-to-one"}),
    ...         "o4": TaskOperator(parallelism=2, inputs={"o3": "full"})})
    >>> [count_trees(output_fidelity(figure1(c))).number for c in (False, True)]
    [16, 8]
    """
    ways, links = _ways_to(measure), Links(measure)
    single_path = [_has_no_rejoining_fork(measure, at) for at in range(len(measure.topology.order))]
    number, remaining, exact = 0, MOST_LISTED, True
    for root in roots(measure):
        if single_path[measure.topology.operator_of[root]]:
            number += ways[root]
            continue
        distinct: set[frozenset[int]] = set()
        for tasks in _completions(links, root):
            remaining -= 1
            if remaining < 0:
                break
            if tasks not in distinct and _is_minimal(links, tasks):
                distinct.add(tasks)
        number += len(distinct) if remaining >= 0 else ways[root]
        exact = exact and remaining >= 0
    return TreeCount(number, exact)


def trees(measure: Measure) -> Iterator[frozenset[int]]:
    """Yield every MC-tree once, as the numbers of its tasks, lazily and in a fixed order."""
    links = Links(measure)
    for root in roots(measure):
        if _has_no_rejoining_fork(measure, int(measure.topology.operator_of[root])):
            yield from _completions(links, root)
            continue
        distinct: set[frozenset[int]] = set()
        for tasks in _completions(links, root):
            if tasks not in distinct and _is_minimal(links, tasks):
                distinct.add(tasks)
                yield tasks


def count_ways(measure: Measure) -> int:
    """Return the number of ways without enumerating them. In a topology of full edges it is a product."""
    ways = _ways_to(measure)
    return sum(ways[i] for i in roots(measure))


def ways(measure: Measure) -> Iterator[frozenset[int]]:
    """Yield the tasks of every way, in a fixed order. Every plan without useless tasks is a union of ways."""
    for root in roots(measure):
        yield from _ways_ending_at(measure, root)


def roots(measure: Measure) -> list[int]:
    """Return the tasks that a tree may end at, by name."""
    heavy = np.flatnonzero(measure.weights > 0)
    return sorted(map(int, heavy), key=lambda task: int(measure.topology.rank[task]))


def _ways_to(measure: Measure) -> list[int]:
    """Return the number of ways that end at each task."""
    counts: list[int] = [1] * len(measure.topology.tasks)  # Python integers: a count may have hundreds of digits
    for edges in measure.edges:
        if not edges:
            continue
        for at in range(edges[0].down.start, edges[0].down.stop):
            counts[at] = 1 if edges[0].joined else 0
        for edge in edges:
            by_group = [0] * (int(edge.groups_up[-1]) + 1)
            for i, group in enumerate(edge.groups_up):
                by_group[group] += counts[edge.up.start + i]
            for i, group in enumerate(edge.groups_down):
                at = edge.down.start + i
                counts[at] = counts[at] * by_group[group] if edge.joined else counts[at] + by_group[group]
    return counts


def _ways_ending_at(measure: Measure, task: int) -> Iterator[frozenset[int]]:
    own = frozenset((task,))
    edges = measure.edges[int(measure.topology.operator_of[task])]
    if not edges:
        yield own
        return
    local = task - edges[0].down.start
    members = [edge.up.start + np.flatnonzero(edge.groups_up == edge.groups_down[local]) for edge in edges]
    if not edges[0].joined:
        for tasks in members:
            for one in tasks:
                yield from (own | way for way in _ways_ending_at(measure, int(one)))
        return
    for ends in product(*(map(int, tasks) for tasks in members)):
        yield from (own | way for way in _joined(measure, ends))


def _joined(measure: Measure, ends: tuple[int, ...]) -> Iterator[frozenset[int]]:
    """Yield every union of one way per end, without holding all ways of an end in memory."""
    if not ends:
        yield frozenset()
        return
    for way in _ways_ending_at(measure, ends[0]):
        yield from (way | rest for rest in _joined(measure, ends[1:]))


def _has_no_rejoining_fork(measure: Measure, at: int) -> bool:
    """Return whether no fork rejoins before this operator: each operator upstream has a single path to it."""
    paths = Counter({at: 1})
    for down in range(at, -1, -1):
        for stream in measure.topology.streams[down] if paths[down] else ():
            paths[stream.up] += paths[down]
    return max(paths.values()) == 1


def _completions(links: Links, root: int) -> Iterator[frozenset[int]]:
    """Yield sets of tasks in which the root is complete: every minimal set, perhaps several times, and some that are not minimal.

    A task for a need is chosen only if no task chosen before meets it. So every minimal set is found.
    """
    stack = [iter([(frozenset((root,)), _needs(links, root))])]
    while stack:
        state = next(stack[-1], None)
        if state is None:
            stack.pop()
            continue
        chosen, needs = state
        unmet = next((i for i, need in enumerate(needs) if not _is_met(need, chosen)), None)
        if unmet is None:
            yield chosen
        else:
            stack.append(_choices(links, chosen, needs[unmet], needs[unmet + 1 :]))


def _choices(
    links: Links, chosen: frozenset[int], need: Need, rest: tuple[Need, ...]
) -> Iterator[tuple[frozenset[int], tuple[Need, ...]]]:
    """Yield each choice that meets a need, and the needs that remain."""
    for first, end in need:
        for task in range(first, end):
            yield chosen | {task}, (*rest, *_needs(links, task))


def _needs(links: Links, task: int) -> tuple[Need, ...]:
    spans = links.inputs[task]
    if not spans:
        return ()
    return tuple((span,) for span in spans) if links.joined[task] else (tuple(spans),)


def _is_met(need: Need, chosen: frozenset[int]) -> bool:
    return any(first <= task < end for first, end in need for task in chosen)


def _is_minimal(links: Links, tasks: frozenset[int]) -> bool:
    """Return whether the last task becomes incomplete when any of the others is removed."""
    order = sorted(tasks)  # numbers follow the streams
    needs = {task: [[t for t in order for a, b in need if a <= t < b] for need in _needs(links, task)] for task in order}
    for removed in order[:-1]:
        complete: set[int] = set()
        for task in order:
            if task != removed and all(any(t in complete for t in need) for need in needs[task]):
                complete.add(task)
        if order[-1] in complete:
            return False
    return True
