"""Shared terms of a formula: terms that are used more than once, which the knapsack fixes one value at a time.

A shared term has a scope: the lowest term on all paths from the root to it (its immediate dominator). There the knapsack tries
each amount that could be spent inside the shared term, with its value as a constant, and keeps the best. This is exact, but
costs one evaluation of the terms in between for each amount. The amounts of overlapping scopes multiply, so a limit on
evaluations decides how many terms are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from holdfast.planning.ppa.formula import ONE, Formula


@dataclass(frozen=True, slots=True)
class SharedTerms:
    """The shared terms to fix, by the term that fixes them, and the terms to compute after each is fixed.

    `after[None]` lists the terms that depend on none of them. All lists ascend, so children come before parents.
    """

    fixed_at: dict[int, list[int]]
    after: dict[int | None, list[int]]
    complete: bool  # whether all shared terms are fixed


def find_shared_terms(formula: Formula, *, sizes: list[int], limit: int) -> SharedTerms:
    """Return as many shared terms as the limit on evaluations allows, the most used first, then the small ones.

    `sizes` is the number of amounts to try in each term.
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
    return _arrange(formula, uses, shared[:low], dominators, complete=low == len(shared))


def _dominators(formula: Formula, uses: list[int]) -> list[int]:
    """Return the immediate dominator of each term that the root depends on. Parents have higher numbers, so one pass suffices."""
    above = [-1] * len(formula.terms)
    above[formula.root] = formula.root
    for at in range(formula.root, ONE, -1):
        if not uses[at]:
            continue
        for child in formula.terms[at].children:
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
    """Return the fixed terms that each term's curve depends on within their scopes."""
    is_fixed = set(fixed)
    bound: dict[int, set[int]] = {}
    for at in fixed:
        bound.setdefault(dominators[at], set()).add(at)
    needs: list[frozenset[int]] = [frozenset()] * len(formula.terms)
    for at in range(ONE + 1, formula.root + 1):
        if uses[at]:
            children = formula.terms[at].children
            inherited = frozenset().union(*(needs[c] for c in children if c not in is_fixed))
            own = {c for c in children if c in is_fixed}
            # What a fixed child depends on is needed where that child is computed, which is further out.
            inner = frozenset().union(*(needs[c] for c in own)) if own else frozenset()
            needs[at] = (inherited | own | inner) - frozenset(bound.get(at, ()))
    return needs


def _evaluations(
    formula: Formula, needs: list[frozenset[int]], sizes: list[int], *, limit: int, fixed_at: dict[int, list[int]]
) -> int:
    """Return how many pairs of curves must be combined. A term that fixes shared terms does so for every choice of amounts."""
    total = 0
    for at, depends in enumerate(needs):
        times = prod(sizes[other] for other in depends) * prod(sizes[other] for other in fixed_at.get(at, ()))
        total += times * len(formula.terms[at].children)
        if total > limit:
            return total
    return total


def _arrange(formula: Formula, uses: list[int], fixed: list[int], dominators: list[int], *, complete: bool) -> SharedTerms:
    needs = _dependence(formula, uses, fixed, dominators)
    after: dict[int | None, list[int]] = {None: []}
    for at in range(ONE + 1, formula.root + 1):
        if uses[at]:
            # Outer scopes are fixed first, and within a scope lower numbers first.
            last = max(needs[at], key=lambda f: (-dominators[f], f)) if needs[at] else None
            after.setdefault(last, []).append(at)
    return SharedTerms(_fixed_at(fixed, dominators), after, complete)


def _fixed_at(fixed: list[int], dominators: list[int]) -> dict[int, list[int]]:
    by_scope: dict[int, list[int]] = {}
    for at in sorted(fixed):
        by_scope.setdefault(dominators[at], []).append(at)
    return by_scope
