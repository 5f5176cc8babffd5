"""Compute where to draw the nodes of a directed graph: in layers along the flow, with few edge crossings.

The algorithm is Sugiyama's. It assigns layers by the longest path, inserts a dummy node wherever an edge crosses a layer, orders
each layer by barycentres, and then moves neighbours towards each other. An x is a layer and a y is a slot within it. The caller
decides how many pixels these are and which axis runs downwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

ORDER_SWEEPS = 12
ALIGN_PASSES = 9
"""An odd number: the last pass runs along the flow, which centres a node between the nodes that it reads."""

Node = Hashable
Neighbours = Mapping[Node, list[Node]]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A point per node, and per edge the points that it passes between its ends. Every y is at least 0."""

    points: Mapping[str, Point]
    routes: Mapping[tuple[str, str], tuple[Point, ...]]

    @property
    def size(self) -> Point:
        """The largest x and y."""
        points = [*self.points.values(), *(point for route in self.routes.values() for point in route)]
        return max((x for x, _ in points), default=0.0), max((y for _, y in points), default=0.0)


def arrange(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Arrangement:
    """Arrange nodes so that every edge runs from a lower layer to a higher one. The result is deterministic.

    >>> arrange(["a", "b", "c"], [("a", "b"), ("b", "c")]).points
    {'a': (0.0, 0.0), 'b': (1.0, 0.0), 'c': (2.0, 0.0)}
    """
    known = set(nodes)
    valid_edges = sorted({(a, b) for a, b in edges if a in known and b in known and a != b})
    level = _assign_levels(nodes, valid_edges)
    layers, above, below, chains = _add_dummy_nodes(nodes, valid_edges, level)
    _order_layers(layers, above, below)
    y = _assign_y(layers, above, below)
    points = {name: (float(level[name]), y[name]) for name in nodes}
    routes = {edge: tuple((float(layer), y[dummy]) for layer, dummy in chain) for edge, chain in chains.items()}
    return Arrangement(points, routes)


def _assign_levels(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the length of the longest path to each node. An edge that closes a cycle is ignored."""
    predecessors: dict[str, list[str]] = {name: [] for name in nodes}
    for a, b in edges:
        predecessors[b].append(a)
    level: dict[str, int] = {}
    on_path: set[str] = set()
    for root in nodes:
        stack = [root]
        while stack:
            name = stack[-1]
            if name in level:
                stack.pop()
                continue
            on_path.add(name)
            pending = [each for each in predecessors[name] if each not in level and each not in on_path]
            if pending:
                stack.extend(pending)
                continue
            level[name] = 1 + max((level[each] for each in predecessors[name] if each in level), default=-1)
            on_path.discard(name)
            stack.pop()
    return level


def _add_dummy_nodes(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], level: Mapping[str, int]
) -> tuple[list[list[Node]], Neighbours, Neighbours, dict[tuple[str, str], list[tuple[int, Node]]]]:
    """Return the layers, each node's neighbours in the layers above and below, and each edge's dummy nodes with their layers."""
    layers: list[list[Node]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    above: dict[Node, list[Node]] = {name: [] for name in nodes}
    below: dict[Node, list[Node]] = {name: [] for name in nodes}
    for name in nodes:
        layers[level[name]].append(name)
    chains: dict[tuple[str, str], list[tuple[int, Node]]] = {}
    for a, b in edges:
        chain: list[tuple[int, Node]] = []
        last: Node = a
        for layer in range(level[a] + 1, level[b]):
            dummy = (a, layer)  # the edges of one node share their dummy nodes, so that they diverge as late as possible
            if dummy not in above:
                layers[layer].append(dummy)
                above[dummy], below[dummy] = [last], []
                below[last].append(dummy)
            chain.append((layer, dummy))
            last = dummy
        if level[a] < level[b]:
            below[last].append(b)
            above[b].append(last)
        chains[a, b] = chain
    return layers, above, below, chains


def _order_layers(layers: list[list[Node]], above: Neighbours, below: Neighbours) -> None:
    """Sort each layer by the mean index of its neighbours, downwards and upwards in turn."""
    for sweep in range(ORDER_SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        for index in range(1, len(layers)) if downwards else range(len(layers) - 2, -1, -1):
            rank = {name: k for k, name in enumerate(layers[index - 1 if downwards else index + 1])}
            own = {name: k for k, name in enumerate(layers[index])}
            layers[index].sort(key=lambda name: (_mean([rank[n] for n in neighbours[name] if n in rank], own[name]), own[name]))


def _assign_y(layers: list[list[Node]], above: Neighbours, below: Neighbours) -> dict[Node, float]:
    """Move each node towards the mean y of its neighbours, without changing the order of a layer."""
    largest = max((len(layer) for layer in layers), default=1)
    y = {name: k + (largest - len(layer)) / 2 for layer in layers for k, name in enumerate(layer)}
    for number in range(ALIGN_PASSES):
        neighbours = above if number % 2 == 0 else below
        for layer in layers if number % 2 == 0 else reversed(layers):
            preferred = [_mean([y[n] for n in neighbours[name]], y[name]) for name in layer]
            y.update(zip(layer, _separate(preferred), strict=True))
    least = min(y.values(), default=0.0)
    gap = min((y[b] - y[a] for layer in layers for a, b in pairwise(layer)), default=1.0)
    return {name: round((value - least) / max(gap, 1.0), 3) for name, value in y.items()}


def _separate(preferred: Sequence[float]) -> list[float]:
    """Return the values nearest to `preferred`, by least squares, in the same order and at least 1 apart.

    >>> _separate([0.0, 0.0, 5.0])
    [-0.5, 0.5, 5.0]
    """
    blocks: list[tuple[float, int]] = []  # per block of adjacent values: the sum of (preferred - index), and their number
    for index, value in enumerate(preferred):
        total, count = value - index, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            previous = blocks.pop()
            total, count = total + previous[0], count + previous[1]
        blocks.append((total, count))
    values: list[float] = []
    for total, count in blocks:
        start = total / count + len(values)
        values.extend([start + k for k in range(count)])
    return values


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
