"""Minimal complete trees (PPA Definition 1): the smallest sets of tasks that still produce output.

A task of a source is complete alone; a task with independent inputs needs one complete task from any of them; a task
with correlated inputs needs one from each. A tree ends at a task that the measure gives weight: for output fidelity, a
task of an output operator. Where two branches of a fork meet again in a join, trees are told apart by the choices made,
and two choices may come to the same set of tasks.
"""

from collections.abc import Iterator
from itertools import product

import numpy as np

from holdfast.plan.ppa.fidelity import Measure


def count_trees(measure: Measure) -> int:
    """The number of MC-trees, found without listing them: in a topology of full edges it is a product.

    Figure 1: three operators of four tasks, the first two read one-to-one by the third, which two tasks read in full.

    >>> from holdfast.model.topology import TaskOperator, Topology
    >>> from holdfast.plan.ppa.fidelity import output_fidelity
    >>> def figure1(correlated):
    ...     return Topology(topology="figure 1", operators={
    ...         "o1": TaskOperator(parallelism=4, rate=1.0), "o2": TaskOperator(parallelism=4, rate=1.0),
    ...         "o3": TaskOperator(parallelism=4, correlated=correlated,
    ...                            inputs={"o1": "one-to-one", "o2": "one-to-one"}),
    ...         "o4": TaskOperator(parallelism=2, inputs={"o3": "full"})})
    >>> [count_trees(output_fidelity(figure1(c))) for c in (False, True)]
    [16, 8]
    """
    topology = measure.topology
    ways: list[int] = [1] * len(topology.tasks)  # Python's integers: the count may have hundreds of digits
    for edges in measure.edges:
        if not edges:
            continue
        for at in range(edges[0].down.start, edges[0].down.stop):
            ways[at] = 1 if edges[0].joined else 0
        for edge in edges:
            by_group = [0] * (int(edge.groups_up[-1]) + 1)
            for i, group in enumerate(edge.groups_up):
                by_group[group] += ways[edge.up.start + i]
            for i, group in enumerate(edge.groups_down):
                at = edge.down.start + i
                ways[at] = ways[at] * by_group[group] if edge.joined else ways[at] + by_group[group]
    return sum(ways[i] for i in roots(measure))


def trees(measure: Measure) -> Iterator[frozenset[int]]:
    """Every MC-tree as the numbers of its tasks, one at a time, in a fixed order; nothing is listed ahead of need."""
    for root in roots(measure):
        yield from trees_ending_at(measure, root)


def trees_ending_at(measure: Measure, task: int) -> Iterator[frozenset[int]]:
    """The MC-trees whose last task is this one."""
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
                yield from (own | tree for tree in trees_ending_at(measure, int(one)))
        return
    for ends in product(*(map(int, tasks) for tasks in members)):
        yield from (own | tree for tree in _joined(measure, ends))


def roots(measure: Measure) -> list[int]:
    """The tasks that a tree may end at, by name."""
    heavy = np.flatnonzero(measure.weights > 0)
    return sorted(map(int, heavy), key=lambda task: int(measure.topology.rank[task]))


def _joined(measure: Measure, ends: tuple[int, ...]) -> Iterator[frozenset[int]]:
    """Every union of one tree per end, without holding all trees of an end at once."""
    if not ends:
        yield frozenset()
        return
    for tree in trees_ending_at(measure, ends[0]):
        yield from (tree | rest for rest in _joined(measure, ends[1:]))
