"""Which subformulas the knapsack fixes one value at a time, because they are used more than once.

Such a subformula has a scope: the lowest node that every way from the root to it passes (its immediate dominator). At
that node the knapsack tries each amount that could be spent inside the subformula, with the value it then has as a
constant, and keeps the best: exact, at the price of one evaluation of the nodes in between per amount. Amounts of
subformulas with overlapping scopes multiply, so only as many are fixed as a limit on evaluations allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from holdfast.planning.ppa.formula import ONE, Formula


@dataclass(frozen=True, slots=True)
class SharedTerms:
    """The subformulas to be fixed: by the node that fixes them, and the nodes to work out after each is fixed.

    `after[None]` lists the nodes that depend on none of them. All lists ascend, so children come before parents.
    """

    fixed_at: dict[int, list[int]]
    after: dict[int | None, list[int]]
    complete: bool  # whether nothing that is used more than once was left out


def scopes(formula: Formula, *, sizes: list[int], limit: int) -> SharedTerms:
    """As many scopes as keep the evaluations within the limit, the most used subformulas first, then small ones.

    `sizes` says how many amounts are to be tried in each node.
    """
    uses = formula.uses()
    shared = [at for at in range(ONE + 1, formula.root + 1) if uses[at] > 1 and sizes[at] > 1]
    shared.sort(key=lambda at: (-uses[at], sizes[at], at))
    dominators = _dominators(formula, uses)
    low, high = 0, len(shared)
    while low < high:
        middle = (low + high + 1) // 2
        needs = _dependence(formula, uses, shared[:middle], dominators)
        fixed_at = _fixed_at(shared[:middle], dominators)
        if _evaluations(formula, needs, sizes, limit=limit, fixed_at=fixed_at) <= limit:
            low = middle
        else:
            high = middle - 1
    return _arranged(formula, uses, shared[:low], dominators, complete=low == len(shared))


def _dominators(formula: Formula, uses: list[int]) -> list[int]:
    """The immediate dominator of each node that the root needs. Parents have higher numbers, so one pass is enough."""
    above = [-1] * len(formula.nodes)
    above[formula.root] = formula.root
    for at in range(formula.root, ONE, -1):
        if not uses[at]:
            continue
        for child in formula.nodes[at].children:
            if above[child] < 0:
                above[child] = at
                continue
            a, b = above[child], at
            while a != b:
                if a < b:
                    a = above[a]
                else:
                    b = above[b]
            above[child] = a
    return above


def _dependence(formula: Formula, uses: list[int], fixed: list[int], dominators: list[int]) -> list[frozenset[int]]:
    """The fixed subformulas that each node's curve depends on, seen from inside their scopes."""
    is_fixed = set(fixed)
    bound: dict[int, set[int]] = {}
    for at in fixed:
        bound.setdefault(dominators[at], set()).add(at)
    needs: list[frozenset[int]] = [frozenset()] * len(formula.nodes)
    for at in range(ONE + 1, formula.root + 1):
        if uses[at]:
            children = formula.nodes[at].children
            found = frozenset().union(*(needs[c] for c in children if c not in is_fixed))
            own = {c for c in children if c in is_fixed}
            # what a fixed child itself depends on is needed wherever that child is worked out, which is further out
            inner = frozenset().union(*(needs[c] for c in own)) if own else frozenset()
            needs[at] = (found | own | inner) - frozenset(bound.get(at, ()))
    return needs


def _evaluations(
    formula: Formula, needs: list[frozenset[int]], sizes: list[int], *, limit: int, fixed_at: dict[int, list[int]]
) -> int:
    """How many pairs of curves must be combined; a node that fixes subformulas does so for every choice of amounts."""
    total = 0
    for at, depends in enumerate(needs):
        times = prod(sizes[other] for other in depends) * prod(sizes[other] for other in fixed_at.get(at, ()))
        total += times * len(formula.nodes[at].children)
        if total > limit:
            return total
    return total


def _arranged(formula: Formula, uses: list[int], fixed: list[int], dominators: list[int], *, complete: bool) -> SharedTerms:
    needs = _dependence(formula, uses, fixed, dominators)
    after: dict[int | None, list[int]] = {None: []}
    for at in range(ONE + 1, formula.root + 1):
        if uses[at]:
            # outer scopes are fixed first; within one, lower numbers first
            last = max(needs[at], key=lambda f: (-dominators[f], f)) if needs[at] else None
            after.setdefault(last, []).append(at)
    return SharedTerms(_fixed_at(fixed, dominators), after, complete)


def _fixed_at(fixed: list[int], dominators: list[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for at in sorted(fixed):
        found.setdefault(dominators[at], []).append(at)
    return found
