"""The decomposition of a topology into sub-topologies, units and segments (PPA section IV-C), for the structure-aware planner.

A sub-topology is full (all its edges are full) or structured (none is). Only full edges connect sub-topologies, so any choice
in one combines with any choice in the next. A structured sub-topology is divided further into units: before an operator that
merges and then splits, and before a join of a merged stream. A segment is an MC-tree within a unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from holdfast.documents.topology import TaskStream, Topology
from holdfast.planning.ppa.fidelity import Measure

Segment = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SubTopology:
    """Operators (positions in the topology's order) that one algorithm plans."""

    operators: tuple[int, ...]
    full: bool


def decompose(topology: Topology) -> list[SubTopology]:
    """Divide a topology into as few sub-topologies as possible, with only full edges between them.

    An operator with an edge that is not full belongs to the structured sub-topology of that edge.

    >>> from holdfast.documents.topology import TaskOperator
    >>> t = Topology(topology="figure 4", operators={
    ...     "o1": TaskOperator(parallelism=4, rate=1.0), "o2": TaskOperator(parallelism=2, inputs={"o1": "merge"}),
    ...     "o3": TaskOperator(parallelism=2, inputs={"o2": "full"}), "o4": TaskOperator(inputs={"o3": "full"})})
    >>> [(s.operators, s.full) for s in decompose(t)]
    [((0, 1), False), ((2, 3), True)]
    """
    edges = _edges(topology)
    structured = {end for edge in edges if edge.partitioning != "full" for end in (edge.up, edge.down)}
    whole = [e for e in edges if e.partitioning == "full" and not {e.up, e.down} & structured]
    rest = set(range(len(topology.order))) - structured
    result = [
        SubTopology(part, full=False)
        for part in _parts(structured, (e for e in edges if e not in whole and e.partitioning != "full"))
    ]
    result += [SubTopology(part, full=True) for part in _parts(rest, whole)]
    return sorted(result, key=lambda sub: sub.operators)


def segments(measure: Measure, operators: Iterable[int]) -> list[Segment]:
    """Return the segments of every unit among these operators, each as ascending task numbers.

    A unit with many more segments than tasks is also divided at all its merges.
    """
    topology, inside = measure.topology, set(operators)
    edges = [e for e in _edges(topology) if {e.up, e.down} <= inside and e.partitioning != "full"]
    inner_edges = [edge for edge in edges if not _is_boundary(measure, edge)]
    result: dict[Segment, None] = {}
    for unit in _parts(inside, inner_edges):
        within = [edge for edge in inner_edges if edge.down in unit]
        tasks = sum(topology.operators[topology.order[at]].parallelism for at in unit)
        most = 4 * tasks + 16
        listed = list(islice(_unit_segments(measure, unit, within), most + 1))
        if len(listed) > most:
            unmerged = [edge for edge in within if edge.partitioning != "merge"]
            parts = _parts(set(unit), unmerged)
            listed = [s for part in parts for s in islice(_unit_segments(measure, part, unmerged), most)]
        result.update(dict.fromkeys(listed))
    return list(result)


def _edges(topology: Topology) -> list[TaskStream]:
    return [stream for streams in topology.streams for stream in streams]


def _is_boundary(measure: Measure, edge: TaskStream) -> bool:
    """Return whether a unit ends before this edge: the edge merges, and its reader then splits or joins (Figure 3)."""
    if edge.partitioning != "merge":
        return False
    splits = any(out.partitioning == "split" for out in measure.topology.readers[edge.down])
    inputs = measure.edges[edge.down]
    return splits or (len(inputs) > 1 and inputs[0].joined)


def _parts(operators: set[int], edges: Iterable[TaskStream]) -> list[tuple[int, ...]]:
    """Return the connected components of these operators."""
    part = {at: at for at in operators}

    def root(at: int) -> int:
        while part[at] != at:
            at = part[at]
        return at

    for edge in edges:
        if edge.up in part and edge.down in part:
            a, b = sorted((root(edge.up), root(edge.down)))
            part[b] = a
    by_root: dict[int, list[int]] = {}
    for at in sorted(operators):
        by_root.setdefault(root(at), []).append(at)
    return [tuple(members) for members in by_root.values()]


def _unit_segments(measure: Measure, unit: tuple[int, ...], within: list[TaskStream]) -> Iterator[Segment]:
    """Yield the MC-trees of a unit. They end where output leaves the unit, or at a task with weight."""
    topology = measure.topology
    inner = {edge.up for edge in within}
    for at in unit:
        leaves_unit = len(topology.readers[at]) > sum(edge.up == at for edge in within)
        if at in inner and not leaves_unit and not measure.weights[topology.spans[at]].any():
            continue
        for task in range(topology.spans[at].start, topology.spans[at].stop):
            yield from (tuple(sorted(tree)) for tree in _trees(measure, task, within))


def _trees(measure: Measure, task: int, within: list[TaskStream]) -> Iterator[frozenset[int]]:
    topology = measure.topology
    at = int(topology.operator_of[task])
    inputs = [edge for edge in within if edge.down == at]
    own = frozenset((task,))
    if not inputs:
        yield own
        return
    local = task - topology.spans[at].start
    groups = [topology.spans[edge.up].start + np.flatnonzero(edge.groups_up == edge.groups_down[local]) for edge in inputs]
    if not measure.edges[at][0].joined:
        if len(inputs) < len(topology.streams[at]):
            yield own  # any one input is enough, and one comes from another unit
        for group in groups:
            for one in group:
                yield from (own | tree for tree in _trees(measure, int(one), within))
        return
    for ends in product(*groups):
        for parts in product(*(list(_trees(measure, int(end), within)) for end in ends)):
            yield own.union(*parts)
