"""A measure as a formula of sums and products over tasks, with common factors factored out.

The value of a plan is a polynomial in the variables "task i is alive". Expanded, it has one summand per MC-tree. But tasks that
read the same group share everything upstream of it, which can be factored out. If every task then occurs only once (chains,
trees, full stages, splits nested in merges), a knapsack over the formula is exact and fast: see `knapsack.py`. Otherwise
(forks, unions of shared with unshared inputs, overlapping groups) some terms are used more than once; `shared_terms.py` finds
those that the knapsack can still treat exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from holdfast.documents.topology import Floats, Ints
from holdfast.planning.ppa.fidelity import Measure, TaskEdge

ONE = 0  # the number of the term that is always 1


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the formula: a task, or the weighted sum or the product of earlier terms."""

    kind: Literal["one", "task", "sum", "product"]
    children: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    task: int = -1


@dataclass(slots=True)
class Formula:
    """Terms, each after its children. `root` is the term of the whole measure."""

    terms: list[Term] = field(default_factory=lambda: [Term("one")])
    root: int = ONE
    numbers: dict[Term, int] = field(default_factory=dict, repr=False)

    def uses(self) -> list[int]:
        """Return how often each term is used as a child by terms that the root depends on."""
        count = [0] * len(self.terms)
        count[self.root] = 1
        for at in range(self.root, ONE, -1):
            if count[at]:
                for child in self.terms[at].children:
                    count[child] += 1
        return count

    def task(self, number: int) -> int:
        return self._add_term(Term("task", task=number))

    def product(self, *factors: int) -> int:
        factors = tuple(f for f in factors if f != ONE)
        if len(factors) < 2:
            return factors[0] if factors else ONE
        return self._add_term(Term("product", factors))

    def sum(self, terms: Sequence[tuple[float, int]]) -> int:
        """Return the weighted sum. A single term of weight 1 is returned itself; terms of weight 0 are dropped unless all are 0."""
        terms = [pair for pair in terms if pair[0] > 0] or list(terms)
        if len(terms) == 1 and abs(terms[0][0] - 1.0) < 1e-12:
            return terms[0][1]
        return self._add_term(Term("sum", tuple(t[1] for t in terms), tuple(t[0] for t in terms)))

    def _add_term(self, term: Term) -> int:
        """Return the term's number. Equal terms are stored once, so that two readers of the same groups share one term."""
        if term not in self.numbers:
            self.numbers[term] = len(self.terms)
            self.terms.append(term)
        return self.numbers[term]


@dataclass(frozen=True, slots=True)
class Branch:
    """The fidelities of the tasks (or groups) `keys` of one operator: a common factor times the factors of the children.

    A branch without children is a leaf: the fidelity of its only key.
    """

    keys: frozenset[int]
    factor: int
    children: tuple[Branch, ...] = ()

    @property
    def key(self) -> int:
        (key,) = self.keys
        return key


Forest = list[Branch]


def build_formula(measure: Measure) -> Formula:
    """Return the measure's formula, with children ordered by name so that ties go to the first task by name."""
    formula = Formula()
    topology = measure.topology
    forests: list[Forest] = []
    total: list[tuple[float, int]] = []
    by_name = sorted(range(len(topology.order)), key=lambda at: topology.order[at])
    for at, edges in enumerate(measure.edges):
        span = topology.spans[at]
        tasks = range(span.stop - span.start)
        forest = _read_inputs(formula, edges, forests) if edges else [_leaf(i, ONE) for i in tasks]
        forests.append(_with_own_tasks(formula, forest, span.start))
    for at in by_name:
        span = topology.spans[at]
        weights = measure.weights[span]
        weight = float(weights.sum())
        if weight > 0:
            groups = np.zeros(len(weights), dtype=np.int64)
            (whole,) = _gather(formula, forests[at], groups, weights / weight)
            total.append((weight, whole.factor))
    formula.root = formula.sum(total)
    return formula


def _leaf(key: int, factor: int) -> Branch:
    return Branch(frozenset((key,)), factor)


def _branch(formula: Formula, factor: int, children: Iterable[Branch]) -> Branch:
    """Return a branch, or its only child multiplied by the factor."""
    children = tuple(children)
    if len(children) == 1:
        only = children[0]
        return Branch(only.keys, formula.product(factor, only.factor), only.children)
    return Branch(frozenset().union(*(child.keys for child in children)), factor, children)


def _expand(formula: Formula, tree: Branch) -> Forest:
    """Return the children, each multiplied by the common factor. The values are the same; the factor is used several times."""
    return [Branch(c.keys, formula.product(tree.factor, c.factor), c.children) for c in tree.children]


def _with_own_tasks(formula: Formula, forest: Forest, start: int) -> Forest:
    """Return the forest with each task's own survival multiplied in."""

    def own(tree: Branch) -> Branch:
        if tree.children:
            return Branch(tree.keys, tree.factor, tuple(own(child) for child in tree.children))
        return Branch(tree.keys, formula.product(formula.task(start + tree.key), tree.factor))

    return [own(tree) for tree in forest]


def _read_inputs(formula: Formula, edges: tuple[TaskEdge, ...], forests: list[Forest]) -> Forest:
    """Return the input of an operator's tasks: the groups of each input stream, multiplied (join) or averaged (union)."""
    streams = []
    for edge in edges:
        gathered = _gather(formula, forests[edge.operator], edge.groups_up, edge.weights)
        readers = [np.flatnonzero(edge.groups_down == group) for group in range(int(edge.groups_down[-1]) + 1)]
        streams.append([_distribute(formula, tree, readers) for tree in gathered])
    if len(streams) == 1:
        return streams[0]
    if edges[0].joined:
        joined = streams[0]
        for stream in streams[1:]:
            joined = _multiply(formula, joined, stream)
        return joined
    return _average(formula, streams, np.array([edge.mix for edge in edges]))


def _gather(formula: Formula, forest: Forest, groups: Ints, weights: Floats) -> Forest:
    """Return the forest over groups of tasks: a group's fidelity is the weighted sum over its tasks (Eq. 1).

    A branch whose tasks all belong to one group becomes a leaf. A branch that shares a group with another tree of its level,
    and has other groups too, is expanded.
    """
    terms: dict[int, list[tuple[float, int]]] = {}
    separate: Forest = []
    queue: list[tuple[float, Branch]] = []
    for tree in forest:
        if tree.children:
            inner = _gather(formula, list(tree.children), groups, weights)
            queue.append((1.0, _branch(formula, tree.factor, inner)))
        else:
            queue.append((float(weights[tree.key]), Branch(frozenset((int(groups[tree.key]),)), tree.factor)))
    count: dict[int, int] = {}
    for _, tree in queue:
        for key in tree.keys:
            count[key] = count.get(key, 0) + 1
    while queue:
        weight, tree = queue.pop(0)
        if not tree.children:
            terms.setdefault(tree.key, []).append((weight, tree.factor))
        elif any(count[key] > 1 for key in tree.keys):
            queue = [(weight, part) for part in _expand(formula, tree)] + queue
        else:
            separate.append(tree)
    return separate + [_leaf(group, formula.sum(parts)) for group, parts in terms.items()]


def _distribute(formula: Formula, tree: Branch, readers: Sequence[Ints]) -> Branch:
    """Return the tree over the tasks that read its groups. Readers of one group share it as a factor."""
    if tree.children:
        return _branch(formula, tree.factor, [_distribute(formula, child, readers) for child in tree.children])
    return _branch(formula, tree.factor, [_leaf(int(i), ONE) for i in readers[tree.key]])


def _multiply(formula: Formula, left: Forest, right: Forest) -> Forest:
    """Return the product of two forests over the same tasks (Eq. 2). Factors stay factored out where one tree covers others."""
    result: Forest = []
    for parts in _overlaps([left, right]):
        ours, theirs = parts
        if len(ours) > 1 and len(theirs) > 1:
            largest = max(range(len(ours)), key=lambda i: len(ours[i].keys))
            split = [t for i, t in enumerate(ours) if i != largest] + _expand(formula, ours[largest])
            result += _multiply(formula, split, theirs)
        elif len(ours) == 1 and len(theirs) == 1:
            factor = formula.product(ours[0].factor, theirs[0].factor)
            inner = _multiply(formula, list(ours[0].children), list(theirs[0].children)) if ours[0].children else []
            result.append(_branch(formula, factor, inner) if inner else Branch(ours[0].keys, factor))
        else:
            cover, rest = (ours[0], theirs) if len(ours) == 1 else (theirs[0], ours)
            result.append(_branch(formula, cover.factor, _multiply(formula, list(cover.children), rest)))
    return result


def _average(formula: Formula, streams: list[Forest], mix: Floats) -> Forest:
    """Return the mean of forests over the same tasks (Eq. 3). It stays factored out only if all inputs are shared alike."""
    result: Forest = []
    for parts in _overlaps(streams):
        keys = sorted(frozenset().union(*(tree.keys for tree in parts[0])))
        alike = all(len(trees) == 1 and all(c.factor == ONE and not c.children for c in trees[0].children) for trees in parts)
        if alike and np.allclose(mix[:, keys], mix[:, keys[:1]], rtol=1e-12):
            factor = formula.sum([(float(mix[j, keys[0]]), trees[0].factor) for j, trees in enumerate(parts)])
            result.append(_branch(formula, factor, [_leaf(key, ONE) for key in keys]))
            continue
        factors = [{leaf.key: leaf.factor for tree in trees for leaf in _leaves(formula, tree)} for trees in parts]
        leaves = [_leaf(k, formula.sum([(float(mix[j, k]), own[k]) for j, own in enumerate(factors)])) for k in keys]
        result += _group_leaves(leaves, [keys for trees in parts for tree in trees for keys in _key_sets(tree)])
    return result


def _group_leaves(leaves: Forest, sets: Iterable[frozenset[int]]) -> Forest:
    """Group the leaves in branches without a factor, by those sets that nest.

    This changes no value. But uses of a shared term are then close together in the formula, and the knapsack can fix the term there
    instead of at the root.
    """
    nested: list[frozenset[int]] = []
    for keys in sorted(set(sets), key=lambda keys: (-len(keys), min(keys))):
        if 1 < len(keys) < len(leaves) and all(keys <= other or not keys & other for other in nested):
            nested.append(keys)
    forest = leaves
    for keys in reversed(nested):
        inside = tuple(tree for tree in forest if tree.keys <= keys)
        forest = [tree for tree in forest if not tree.keys <= keys] + [Branch(keys, ONE, inside)]
    return forest


def _key_sets(tree: Branch) -> list[frozenset[int]]:
    return [tree.keys, *(keys for child in tree.children for keys in _key_sets(child))]


def _leaves(formula: Formula, tree: Branch) -> Forest:
    if not tree.children:
        return [tree]
    return [leaf for child in _expand(formula, tree) for leaf in _leaves(formula, child)]


def _overlaps(forests: Sequence[Forest]) -> list[list[Forest]]:
    """Divide the forests into the smallest parts that share no task."""
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
    parts: dict[int, list[Forest]] = {}
    for at, forest in enumerate(forests):
        for tree in sorted(forest, key=lambda t: min(t.keys)):
            parts.setdefault(root(min(tree.keys)), [[] for _ in forests])[at].append(tree)
    return [parts[key] for key in sorted(parts)]
