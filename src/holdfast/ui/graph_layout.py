"""Where the nodes of a directed graph go on a page: layer by layer along the flow, with few crossings.

The steps are Sugiyama's: layers by the longest path, stand-ins where an edge passes a layer, order within layers by
barycentres, then places that pull neighbours together. Coordinates are in units of layers (x) and of slots (y); whoever draws
decides how large these are, and which of them runs downwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 12
PULLS = 9
"""An odd number: the last pull is along the flow, so that what reads several stands between them."""

Node = Hashable


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A place per node, and per edge the places it passes between its ends. All y are at least 0."""

    places: Mapping[str, tuple[float, float]]
    routes: Mapping[tuple[str, str], tuple[tuple[float, float], ...]]

    @property
    def size(self) -> tuple[float, float]:
        """The largest x and y."""
        points = [*self.places.values(), *(point for route in self.routes.values() for point in route)]
        return max((x for x, _ in points), default=0.0), max((y for _, y in points), default=0.0)


def arrange(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Arrangement:
    """The places of nodes so that every edge runs from a lower layer to a higher one. The same graph gives the same places.

    >>> arrange(["a", "b", "c"], [("a", "b"), ("b", "c")]).places
    {'a': (0.0, 0.0), 'b': (1.0, 0.0), 'c': (2.0, 0.0)}
    """
    known = set(nodes)
    forward = sorted({(a, b) for a, b in edges if a in known and b in known and a != b})
    level = _levels(nodes, forward)
    layers, above, below, chains = _with_stand_ins(nodes, forward, level)
    _order(layers, above, below)
    y = _places(layers, above, below)
    places = {name: (float(level[name]), y[name]) for name in nodes}
    routes = {edge: tuple((float(layer), y[stand_in]) for layer, stand_in in chain) for edge, chain in chains.items()}
    return Arrangement(places, routes)


def _levels(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The length of the longest path to each node. An edge that closes a circle is passed over."""
    before: dict[str, list[str]] = {name: [] for name in nodes}
    for a, b in edges:
        before[b].append(a)
    level: dict[str, int] = {}
    open_: set[str] = set()
    for root in nodes:
        stack = [root]
        while stack:
            name = stack[-1]
            if name in level:
                stack.pop()
                continue
            open_.add(name)
            waiting = [each for each in before[name] if each not in level and each not in open_]
            if waiting:
                stack.extend(waiting)
                continue
            level[name] = 1 + max((level[each] for each in before[name] if each in level), default=-1)
            open_.discard(name)
            stack.pop()
    return level


def _with_stand_ins(
    nodes: Sequence[str], edges: Sequence[tuple[str, str]], level: Mapping[str, int]
) -> tuple[list[list[Node]], dict[Node, list[Node]], dict[Node, list[Node]], dict[tuple[str, str], list[tuple[int, Node]]]]:
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
            stand_in = (a, layer)  # edges of one node share their way: they part as late as they can
            if stand_in not in above:
                layers[layer].append(stand_in)
                above[stand_in], below[stand_in] = [last], []
                below[last].append(stand_in)
            chain.append((layer, stand_in))
            last = stand_in
        if level[a] < level[b]:
            below[last].append(b)
            above[b].append(last)
        chains[a, b] = chain
    return layers, above, below, chains


def _order(layers: list[list[Node]], above: Mapping[Node, list[Node]], below: Mapping[Node, list[Node]]) -> None:
    """Order each layer by the mean place of its neighbours, down and up in turn."""
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for index in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            fixed = layers[index - 1 if down else index + 1]
            rank = {name: place for place, name in enumerate(fixed)}
            own = {name: place for place, name in enumerate(layers[index])}
            layers[index].sort(key=lambda name: (_mean([rank[n] for n in near[name] if n in rank], own[name]), own[name]))


def _places(layers: list[list[Node]], above: Mapping[Node, list[Node]], below: Mapping[Node, list[Node]]) -> dict[Node, float]:
    widest = max((len(layer) for layer in layers), default=1)
    y = {name: place + (widest - len(layer)) / 2 for layer in layers for place, name in enumerate(layer)}
    for pull in range(PULLS):
        near = above if pull % 2 == 0 else below
        for layer in layers if pull % 2 == 0 else reversed(layers):
            wanted = [_mean([y[n] for n in near[name]], y[name]) for name in layer]
            y.update(zip(layer, _apart(wanted), strict=True))
    least = min(y.values(), default=0.0)
    gap = min((y[b] - y[a] for layer in layers for a, b in pairwise(layer)), default=1.0)
    return {name: round((place - least) / max(gap, 1.0), 3) for name, place in y.items()}


def _apart(wanted: Sequence[float]) -> list[float]:
    """The places nearest to those wanted, in the sense of least squares, in the same order and at least 1 apart.

    >>> _apart([0.0, 0.0, 5.0])
    [-0.5, 0.5, 5.0]
    """
    blocks: list[tuple[float, int]] = []  # (sum of wanted places less the offsets, how many)
    for index, place in enumerate(wanted):
        total, count = place - index, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    places: list[float] = []
    for total, count in blocks:
        begins = total / count + len(places)
        places.extend([begins + k for k in range(count)])
    return places


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
