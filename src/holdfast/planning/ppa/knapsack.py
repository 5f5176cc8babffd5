"""A knapsack over a formula: the highest value for every budget, computed bottom-up from the tasks.

The curve of a term holds at index c the highest value that c replicas within the term give. The curve of a sum or product is
the best split of c among its children, computed pair by pair. A curve is not longer than its term has tasks, so the time is
proportional to tasks times budget. Terms that are used more than once are fixed as `shared_terms.py` describes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.compiled import compiled
from holdfast.documents.topology import Floats, Ints
from holdfast.planning.ppa.formula import ONE, Formula
from holdfast.planning.ppa.shared_terms import find_shared_terms

Paying = Literal["every", "first", "last"]
TIE = 1e-13
EVALUATIONS = 20_000
STEPS = 16  # amounts tried in a shared term if all would be too many


class Knapsack:
    """The best use of every budget up to the given one. Tasks with `free` above 0 are alive already.

    The result is optimal if it is `exact`: every task occurs once in the formula, or in shared terms that were fixed. Otherwise
    it depends on `paying`. With "every", each use of a shared term pays for it: the curve is a lower bound, and its tasks cost
    no more than it assumes. With "first" or "last", one use pays and the others are free: the curve is an upper bound for all
    plans.
    """

    def __init__(
        self,
        formula: Formula,
        budget: int,
        *,
        free: Floats,
        paying: Paying = "every",
        evaluations: int = EVALUATIONS,
    ) -> None:
        self.formula, self.budget = formula, budget
        self.free = free
        self.above = paying != "every"
        uses, sizes, limit = formula.uses(), self._sizes(), 2 * len(formula.terms) + evaluations
        self.shared = find_shared_terms(formula, sizes=sizes, limit=limit)
        self.exact = self.shared.complete
        if not self.exact and evaluations:
            self.shared = find_shared_terms(formula, sizes=[min(size, STEPS) for size in sizes], limit=limit)
        fixed = {at for terms in self.shared.fixed_at.values() for at in terms}
        self.paid = {} if paying == "every" else _paying_uses(formula, uses, fixed=fixed, last=paying == "last")
        self.curves: list[Floats] = [np.ones(1)] * len(formula.terms)
        self.constants: dict[int, Floats] = {}
        self.splits: dict[int, list[Ints]] = {}
        self.choices: dict[int, list[tuple[int, float]]] = {}
        self.chosen: dict[int, tuple[Ints, Ints]] = {}
        self._update_curves(None)
        self.curve = self.curves[formula.root]

    def value(self, budget: int) -> float:
        """Return the highest value of the formula for a budget."""
        return float(self.curve[min(budget, len(self.curve) - 1)])

    def tasks(self, budget: int) -> set[int]:
        """Return the tasks bought with a budget. For a shared term that is the union over its uses."""
        chosen: set[int] = set()
        self._buy(self.formula.root, budget, chosen)
        return chosen

    def _sizes(self) -> list[int]:
        """Return the length of each term's curve: one more than the replicas that it can use."""
        below: list[int] = [0] * len(self.formula.terms)
        for at, term in enumerate(self.formula.terms):
            own = int(not self.free[term.task] > 0) if term.kind == "task" else 0
            below[at] = min(self.budget, own + sum(below[child] for child in term.children))
        return [most + 1 for most in below]

    def _update_curves(self, fixed: int | None) -> None:
        """Compute the curves of the terms that depend on this fixed term last (None: on no fixed term)."""
        for at in self.shared.after.get(fixed, ()):
            inner = self.shared.fixed_at.get(at)
            self.curves[at] = self._fix(at, inner) if inner else self._combine(at)

    def _fix(self, at: int, inner: list[int]) -> Floats:
        """Return the term's curve: the best over all amounts spent in the shared terms that it fixes."""
        if not inner:
            return self._combine(at)
        first, rest = inner[0], inner[1:]
        choices = self.choices[first] = self._choices(self.curves[first])
        best, chosen = np.full(0, -1.0), np.zeros(0, dtype=np.int64)
        for number, (amount, value) in enumerate(choices):
            self.constants[first] = np.array([value])
            self._update_curves(first)
            curve = self._fix(at, rest)[: self.budget + 1 - amount]
            size = max(len(best), amount + len(curve))
            best, chosen = _extend(best, size), _extend(chosen, size)
            window = slice(amount, amount + len(curve))
            better = curve > best[window] + TIE
            chosen[window] = np.where(better, number, chosen[window])
            best[window] = np.maximum(best[window], curve)
        del self.constants[first]
        # An amount between two tried ones buys what the lower one buys.
        monotone = np.maximum.accumulate(best)
        came_from = np.maximum.accumulate(np.where(best >= monotone, np.arange(len(best)), 0))
        self.chosen[first] = (chosen[came_from], came_from)
        return monotone

    def _choices(self, curve: Floats) -> list[tuple[int, float]]:
        """Return the amounts to try in a shared term, and its value at each.

        These are all amounts that differ if the knapsack is exact, and otherwise at most STEPS, evenly spaced. An upper bound
        then takes the cost of each interval's lower end and the value of its upper end.
        """
        if self.exact or len(curve) <= STEPS:
            return [(c, float(v)) for c, v in enumerate(curve) if not c or v > curve[c - 1]]
        ends = sorted({round(i * (len(curve) - 1) / (STEPS - 1)) for i in range(STEPS)})
        starts = [0, *(end + 1 for end in ends[:-1])] if self.above else ends
        return [(start, float(curve[end])) for start, end in zip(starts, ends, strict=True)]

    def _child_curve(self, at: int, position: int) -> Floats:
        child = self.formula.terms[at].children[position]
        if child in self.constants:
            return self.constants[child]
        curve = self.curves[child]
        return curve if self.paid.get((at, position), True) else curve[-1:]

    def _combine(self, at: int) -> Floats:
        term = self.formula.terms[at]
        if term.kind == "task":
            if self.free[term.task] > 0:
                return np.ones(1)
            return np.array([0.0, 1.0]) if self.budget else np.zeros(1)
        curves = [self._child_curve(at, position) for position in range(len(term.children))]
        if term.kind == "sum":
            curves = [curve * weight for curve, weight in zip(curves, term.weights, strict=True)]
        combined, splits = curves[0], []
        for curve in curves[1:]:
            combined, split = _combine_curves(combined, curve, self.budget, add=term.kind == "sum")
            splits.append(split)
        self.splits[at] = splits
        return combined

    def _buy(self, at: int, amount: int, chosen: set[int]) -> None:
        """Add to `chosen` the tasks that the amount buys in a term, with the terms that are fixed now."""
        if at in self.constants or amount <= 0:
            return
        term = self.formula.terms[at]
        if term.kind == "task":
            if len(self.curves[at]) > 1:
                chosen.add(term.task)
            return
        inner = self.shared.fixed_at.get(at, [])
        shares = self._fix_best_amounts(at, inner, amount)
        rest = shares.pop()[1] if shares else amount
        for child, spent in shares:
            self._buy_fixed(child, spent, chosen)
        self._buy_parts(at, rest, chosen)
        for child, _ in shares:
            del self.constants[child]

    def _fix_best_amounts(self, at: int, inner: list[int], amount: int) -> list[tuple[int, int]]:
        """Fix each shared term at its best amount, update the curves, and return the amounts; the last entry is the rest."""
        if not inner:
            return []
        shares: list[tuple[int, int]] = []
        for position, first in enumerate(inner):
            if position or self.constants:  # otherwise the amounts of the first pass still hold
                self._fix(at, inner[position:])
            chosen, came_from = self.chosen[first]
            amount = int(came_from[min(amount, len(came_from) - 1)])
            spent, value = self.choices[first][int(chosen[amount])]
            self.constants[first] = np.array([value])
            self._update_curves(first)
            shares.append((first, spent))
            amount -= spent
        self._combine(at)
        return [*shares, (at, amount)]

    def _buy_fixed(self, at: int, amount: int, chosen: set[int]) -> None:
        value = self.constants.pop(at)
        self._buy(at, amount, chosen)
        self.constants[at] = value

    def _buy_parts(self, at: int, amount: int, chosen: set[int]) -> None:
        children = self.formula.terms[at].children
        splits = self.splits[at]
        amount = min(amount, sum(len(self._child_curve(at, position)) - 1 for position in range(len(children))), self.budget)
        parts = []
        for position in range(len(children) - 1, 0, -1):
            to_right = int(splits[position - 1][amount])
            parts.append((position, to_right))
            amount -= to_right
        for position, part in [*parts, (0, amount)]:
            if self.paid.get((at, position), True):
                self._buy(children[position], part, chosen)


def _paying_uses(formula: Formula, uses: list[int], *, fixed: set[int], last: bool) -> dict[tuple[int, int], bool]:
    """Return, for every use (parent, position) of a term that is used several times, whether this use pays for it."""
    positions: dict[int, list[tuple[int, int]]] = {}
    for at in range(ONE + 1, formula.root + 1):
        if uses[at]:
            for position, child in enumerate(formula.terms[at].children):
                if uses[child] > 1 and child != ONE and child not in fixed:
                    positions.setdefault(child, []).append((at, position))
    return {place: place == (of[-1] if last else of[0]) for of in positions.values() for place in of}


def _extend(values: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([values, np.full(size - len(values), -1, dtype=values.dtype)])


@compiled  # the planner spends most of its time here, on curves too short for array operations
def _convolve(left: Floats, right: Floats, size: int, add: bool) -> tuple[Floats, Ints]:
    """Return the best left[c - i] + right[i] (or product) for each c, and its i; among equals the smallest i."""
    best, split = np.full(size, -1.0), np.zeros(size, dtype=np.int64)
    for i in range(min(len(right), size)):
        for j in range(min(len(left), size - i)):
            value = left[j] + right[i] if add else left[j] * right[i]
            if value > best[i + j] + TIE:
                split[i + j] = i
            if value > best[i + j]:
                best[i + j] = value
    return best, split


def _combine_curves(left: Floats, right: Floats, budget: int, *, add: bool) -> tuple[Floats, Ints]:
    size = min(len(left) + len(right) - 1, budget + 1)
    if len(right) == 1:
        return (left + right[0] if add else left * right[0]), np.zeros(size, dtype=np.int64)
    return _convolve(left, right, size, add)
