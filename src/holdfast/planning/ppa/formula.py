"""A measure written as a formula of sums and products over tasks, with common factors drawn out.

The value of a plan is a polynomial in "task i lives". Multiplied out it has one term per MC-tree; but tasks that read
the same group share all that lies upstream of it, and that can be drawn out as a factor. Where this leaves every task
in one place only (chains, trees, full stages, splits nested in merges), a knapsack over the formula is exact and fast:
curve.py. Where not (forks, unions of shared with unshared inputs, groups that cross), a subformula is used more than
once, and scope.py says which of these the knapsack can still treat exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from holdfast.documents.topology import Floats, Ints
from holdfast.planning.ppa.fidelity import Measure, TaskEdge

ONE = 0  # the node that is always 1


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the formula: a task, or the weighted sum or the product of earlier nodes."""

    kind: Literal["one", "task", "sum", "product"]
    children: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    task: int = -1


@dataclass(slots=True)
class Formula:
    """Nodes, each after its children. The last one made by `build` is the root."""

    nodes: list[Node] = field(default_factory=lambda: [Node("one")])
    root: int = ONE
    known: dict[Node, int] = field(default_factory=dict, repr=False)

    def uses(self) -> list[int]:
        """How often each node stands in the formula as a child of nodes that the root needs."""
        count = [0] * len(self.nodes)
        count[self.root] = 1
        for at in range(self.root, ONE, -1):
            if count[at]:
                for child in self.nodes[at].children:
                    count[child] += 1
        return count

    def is_read_once(self) -> bool:
        """Whether every task stands in the formula once, so that a knapsack over it is exact."""
        return all(count <= 1 for count in self.uses()[1:])

    def task(self, number: int) -> int:
        return self._made(Node("task", task=number))

    def product(self, *factors: int) -> int:
        factors = tuple(f for f in factors if f != ONE)
        if len(factors) < 2:
            return factors[0] if factors else ONE
        return self._made(Node("product", factors))

    def sum(self, terms: Sequence[tuple[float, int]]) -> int:
        """The weighted sum; a lone term of weight 1 is itself, and terms without weight vanish unless all do."""
        terms = [term for term in terms if term[0] > 0] or list(terms)
        if len(terms) == 1 and abs(terms[0][0] - 1.0) < 1e-12:
            return terms[0][1]
        return self._made(Node("sum", tuple(t[1] for t in terms), tuple(t[0] for t in terms)))

    def _made(self, node: Node) -> int:
        """The node's number. Equal nodes are one: two readers of the same groups then share one scalar."""
        if node not in self.known:
            self.known[node] = len(self.nodes)
            self.nodes.append(node)
        return self.known[node]


@dataclass(frozen=True, slots=True)
class Branch:
    """Fidelities of the tasks (or groups) `keys` of one operator: a common factor, times each child's own.

    A branch without children is a leaf: the fidelity of its one key.
    """

    keys: frozenset[int]
    factor: int
    children: tuple[Branch, ...] = ()

    @property
    def key(self) -> int:
        (key,) = self.keys
        return key


Forest = list[Branch]


def build(measure: Measure) -> Formula:
    """The measure's formula, its children by name so that ties go to the task named first."""
    formula = Formula()
    topology = measure.topology
    forests: list[Forest] = []
    total: list[tuple[float, int]] = []
    by_name = sorted(range(len(topology.order)), key=lambda at: topology.order[at])
    for at, edges in enumerate(measure.edges):
        span = topology.spans[at]
        tasks = range(span.stop - span.start)
        forest = _read(formula, edges, forests) if edges else [_leaf(i, ONE) for i in tasks]
        forests.append(_with_own_tasks(formula, forest, span.start))
    for at in by_name:
        span = topology.spans[at]
        weights = measure.weights[span]
        weight = float(weights.sum())
        if weight > 0:
            groups = np.zeros(len(weights), dtype=np.int64)
            (collected,) = _gather(formula, forests[at], groups, weights / weight)
            total.append((weight, collected.factor))
    formula.root = formula.sum(total)
    return formula


def _leaf(key: int, factor: int) -> Branch:
    return Branch(frozenset((key,)), factor)


def _branch(formula: Formula, factor: int, children: Iterable[Branch]) -> Branch:
    """A branch, or its only child with the factor on it."""
    children = tuple(children)
    if len(children) == 1:
        only = children[0]
        return Branch(only.keys, formula.product(factor, only.factor), only.children)
    return Branch(frozenset().union(*(child.keys for child in children)), factor, children)


def _dissolved(formula: Formula, tree: Branch) -> Forest:
    """The children with the common factor put on each: the same values, with the factor used several times."""
    return [Branch(c.keys, formula.product(tree.factor, c.factor), c.children) for c in tree.children]


def _with_own_tasks(formula: Formula, forest: Forest, start: int) -> Forest:
    """The forest after each task's own survival is multiplied in."""

    def own(tree: Branch) -> Branch:
        if tree.children:
            return Branch(tree.keys, tree.factor, tuple(own(child) for child in tree.children))
        return Branch(tree.keys, formula.product(formula.task(start + tree.key), tree.factor))

    return [own(tree) for tree in forest]


def _read(formula: Formula, edges: tuple[TaskEdge, ...], forests: list[Forest]) -> Forest:
    """What the tasks of an operator read: each input stream gathered into its groups, then joined or united."""
    streams = []
    for edge in edges:
        gathered = _gather(formula, forests[edge.operator], edge.groups_up, edge.weights)
        readers = [np.flatnonzero(edge.groups_down == group) for group in range(int(edge.groups_down[-1]) + 1)]
        streams.append([_handed_out(formula, tree, readers) for tree in gathered])
    if len(streams) == 1:
        return streams[0]
    if edges[0].joined:
        joined = streams[0]
        for stream in streams[1:]:
            joined = _multiplied(formula, joined, stream)
        return joined
    return _added(formula, streams, np.array([edge.mix for edge in edges]))


def _gather(formula: Formula, forest: Forest, groups: Ints, weights: Floats) -> Forest:
    """The forest over groups of tasks: each group's fidelity is the weighted sum of its tasks' (Eq. 1).

    A branch whose tasks all belong to one group becomes a leaf. A branch that shares a group with another tree of its
    level, and has other groups besides, must be dissolved.
    """
    terms: dict[int, list[tuple[float, int]]] = {}
    kept: Forest = []
    queue: list[tuple[float, Branch]] = []
    for tree in forest:
        if tree.children:
            inner = _gather(formula, list(tree.children), groups, weights)
            queue.append((1.0, _branch(formula, tree.factor, inner)))
        else:
            queue.append((float(weights[tree.key]), Branch(frozenset((int(groups[tree.key]),)), tree.factor)))
    seen: dict[int, int] = {}
    for _, tree in queue:
        for key in tree.keys:
            seen[key] = seen.get(key, 0) + 1
    while queue:
        weight, tree = queue.pop(0)
        if not tree.children:
            terms.setdefault(tree.key, []).append((weight, tree.factor))
        elif any(seen[key] > 1 for key in tree.keys):
            queue = [(weight, part) for part in _dissolved(formula, tree)] + queue
        else:
            kept.append(tree)
    return kept + [_leaf(group, formula.sum(parts)) for group, parts in terms.items()]


def _handed_out(formula: Formula, tree: Branch, readers: Sequence[Ints]) -> Branch:
    """The tree over the tasks that read its groups: readers of one group share it as a factor."""
    if tree.children:
        return _branch(formula, tree.factor, [_handed_out(formula, child, readers) for child in tree.children])
    return _branch(formula, tree.factor, [_leaf(int(i), ONE) for i in readers[tree.key]])


def _multiplied(formula: Formula, left: Forest, right: Forest) -> Forest:
    """The product of two forests over the same tasks (Eq. 2); factors stay drawn out where one tree covers others."""
    made: Forest = []
    for parts in _overlaps([left, right]):
        mine, yours = parts
        if len(mine) > 1 and len(yours) > 1:
            largest = max(range(len(mine)), key=lambda i: len(mine[i].keys))
            split = [t for i, t in enumerate(mine) if i != largest] + _dissolved(formula, mine[largest])
            made += _multiplied(formula, split, yours)
        elif len(mine) == 1 and len(yours) == 1:
            factor = formula.product(mine[0].factor, yours[0].factor)
            inner = _multiplied(formula, list(mine[0].children), list(yours[0].children)) if mine[0].children else []
            made.append(_branch(formula, factor, inner) if inner else Branch(mine[0].keys, factor))
        else:
            cover, rest = (mine[0], yours) if len(mine) == 1 else (yours[0], mine)
            made.append(_branch(formula, cover.factor, _multiplied(formula, list(cover.children), rest)))
    return made


def _added(formula: Formula, streams: list[Forest], mix: Floats) -> Forest:
    """The mean of forests over the same tasks (Eq. 3). It stays drawn out only where all inputs are shared alike."""
    made: Forest = []
    for parts in _overlaps(streams):
        keys = sorted(frozenset().union(*(tree.keys for tree in parts[0])))
        alike = all(len(trees) == 1 and all(c.factor == ONE and not c.children for c in trees[0].children) for trees in parts)
        if alike and np.allclose(mix[:, keys], mix[:, keys[:1]], rtol=1e-12):
            factor = formula.sum([(float(mix[j, keys[0]]), trees[0].factor) for j, trees in enumerate(parts)])
            made.append(_branch(formula, factor, [_leaf(key, ONE) for key in keys]))
            continue
        factors = [{leaf.key: leaf.factor for tree in trees for leaf in _leaves(formula, tree)} for trees in parts]
        leaves = [_leaf(k, formula.sum([(float(mix[j, k]), own[k]) for j, own in enumerate(factors)])) for k in keys]
        made += _grouped(leaves, [keys for trees in parts for tree in trees for keys in _key_sets(tree)])
    return made


def _grouped(leaves: Forest, sets: Iterable[frozenset[int]]) -> Forest:
    """The leaves in branches without a factor, by those of the sets that nest.

    It changes no value. But what the tasks of a set share then has its uses close together in the formula, and can be
    fixed there instead of at the root.
    """
    kept: list[frozenset[int]] = []
    for keys in sorted(set(sets), key=lambda keys: (-len(keys), min(keys))):
        if 1 < len(keys) < len(leaves) and all(keys <= other or not keys & other for other in kept):
            kept.append(keys)
    forest = leaves
    for keys in reversed(kept):
        inside = tuple(tree for tree in forest if tree.keys <= keys)
        forest = [tree for tree in forest if not tree.keys <= keys] + [Branch(keys, ONE, inside)]
    return forest


def _key_sets(tree: Branch) -> list[frozenset[int]]:
    return [tree.keys, *(keys for child in tree.children for keys in _key_sets(child))]


def _leaves(formula: Formula, tree: Branch) -> Forest:
    if not tree.children:
        return [tree]
    return [leaf for child in _dissolved(formula, tree) for leaf in _leaves(formula, child)]


def _overlaps(forests: Sequence[Forest]) -> list[list[Forest]]:
    """The forests cut into the smallest parts that share no task with each other."""
    part: dict[int, int] = {}

    def root(key: int) -> int:
        while part[key] != key:
            part[key] = part[part[key]]
            key = part[key]
        return key

    for forest in forests:
        for tree in forest:
            first = min(tree.keys)
            part.setdefault(first, first)
            for key in tree.keys:
                part.setdefault(key, key)
                a, b = sorted((root(first), root(key)))
                part[b] = a
    found: dict[int, list[Forest]] = {}
    for at, forest in enumerate(forests):
        for tree in sorted(forest, key=lambda t: min(t.keys)):
            found.setdefault(root(min(tree.keys)), [[] for _ in forests])[at].append(tree)
    return [found[key] for key in sorted(found)]
