"""Knapsack over a formula: the most that every budget can buy, from the tasks up.

The curve of a node holds, at c, the highest value that c replicas within it give. The curve of a sum or product is
the best split of c among its children, found pair by pair; curves are no longer than a node has tasks, so the whole
takes time in proportion to tasks times budget. Subformulas used more than once are fixed as scope.py says.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.compiled import compiled
from holdfast.documents.topology import Floats, Ints
from holdfast.planning.ppa.formula import ONE, Formula
from holdfast.planning.ppa.shared_terms import scopes

Paying = Literal["every", "first", "last"]
TIE = 1e-13
EVALUATIONS = 20_000
STEPS = 16  # amounts tried in a subformula where trying all would be too many


class Knapsack:
    """The best use of every budget up to the given one, where tasks with `free` above 0 are alive already.

    It is the optimum where it is `exact`: every task stands in the formula once, or in subformulas that could be
    fixed. Else `paying` decides. "every": each use of a subformula pays for itself, so the tasks cost no more and are
    worth no less than the curve says. "first", "last": one use pays and the others have it for nothing, so that no plan
    is worth more than the curve says.
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
        uses, sizes, limit = formula.uses(), self._sizes(), 2 * len(formula.nodes) + evaluations
        self.scopes = scopes(formula, sizes=sizes, limit=limit)
        self.exact = self.scopes.complete
        if not self.exact and evaluations:
            self.scopes = scopes(formula, sizes=[min(size, STEPS) for size in sizes], limit=limit)
        fixed = {at for found in self.scopes.fixed_at.values() for at in found}
        self.paid = {} if paying == "every" else _paid(formula, uses, fixed=fixed, last=paying == "last")
        self.curves: list[Floats] = [np.ones(1)] * len(formula.nodes)
        self.constants: dict[int, Floats] = {}
        self.splits: dict[int, list[Ints]] = {}
        self.choices: dict[int, list[tuple[int, float]]] = {}
        self.chosen: dict[int, tuple[Ints, Ints]] = {}
        self._work_out(None)
        self.curve = self.curves[formula.root]

    def value(self, budget: int) -> float:
        """The highest value of the formula for a budget."""
        return float(self.curve[min(budget, len(self.curve) - 1)])

    def tasks(self, budget: int) -> set[int]:
        """The tasks bought with a budget; where a subformula is used several times, what all uses buy."""
        chosen: set[int] = set()
        self._buy(self.formula.root, budget, chosen)
        return chosen

    def _sizes(self) -> list[int]:
        """One more than the most replicas that each node can use."""
        below: list[int] = [0] * len(self.formula.nodes)
        for at, node in enumerate(self.formula.nodes):
            own = int(not self.free[node.task] > 0) if node.kind == "task" else 0
            below[at] = min(self.budget, own + sum(below[child] for child in node.children))
        return [most + 1 for most in below]

    def _work_out(self, fixed: int | None) -> None:
        """The curves of the nodes that can be known once this subformula is fixed."""
        for at in self.scopes.after.get(fixed, ()):
            inner = self.scopes.fixed_at.get(at)
            self.curves[at] = self._fix(at, inner) if inner else self._combine(at)

    def _fix(self, at: int, inner: list[int]) -> Floats:
        """The node's curve as the best over all amounts spent in the subformulas that it fixes."""
        if not inner:
            return self._combine(at)
        first, rest = inner[0], inner[1:]
        choices = self.choices[first] = self._choices(self.curves[first])
        best, chosen = np.full(0, -1.0), np.zeros(0, dtype=np.int64)
        for number, (amount, value) in enumerate(choices):
            self.constants[first] = np.array([value])
            self._work_out(first)
            found = self._fix(at, rest)[: self.budget + 1 - amount]
            size = max(len(best), amount + len(found))
            best, chosen = _longer(best, size), _longer(chosen, size)
            window = slice(amount, amount + len(found))
            better = found > best[window] + TIE
            chosen[window] = np.where(better, number, chosen[window])
            best[window] = np.maximum(best[window], found)
        del self.constants[first]
        # an amount between two that were tried buys what the lower of them does
        kept = np.maximum.accumulate(best)
        came_from = np.maximum.accumulate(np.where(best >= kept, np.arange(len(best)), 0))
        self.chosen[first] = (chosen[came_from], came_from)
        return kept

    def _choices(self, curve: Floats) -> list[tuple[int, float]]:
        """The amounts to try in a subformula and its value at each.

        All that differ where the knapsack is exact; else at most a number of them, evenly spaced. A bound from above then
        takes the cost of each step's lower and the value of its upper end.
        """
        if self.exact or len(curve) <= STEPS:
            return [(c, float(v)) for c, v in enumerate(curve) if not c or v > curve[c - 1]]
        ends = sorted({round(i * (len(curve) - 1) / (STEPS - 1)) for i in range(STEPS)})
        starts = [0, *(end + 1 for end in ends[:-1])] if self.above else ends
        return [(start, float(curve[end])) for start, end in zip(starts, ends, strict=True)]

    def _read(self, at: int, position: int) -> Floats:
        child = self.formula.nodes[at].children[position]
        if child in self.constants:
            return self.constants[child]
        curve = self.curves[child]
        return curve if self.paid.get((at, position), True) else curve[-1:]

    def _combine(self, at: int) -> Floats:
        node = self.formula.nodes[at]
        if node.kind == "task":
            if self.free[node.task] > 0:
                return np.ones(1)
            return np.array([0.0, 1.0]) if self.budget else np.zeros(1)
        curves = [self._read(at, position) for position in range(len(node.children))]
        if node.kind == "sum":
            curves = [curve * weight for curve, weight in zip(curves, node.weights, strict=True)]
        made, splits = curves[0], []
        for curve in curves[1:]:
            made, split = _convolved(made, curve, self.budget, add=node.kind == "sum")
            splits.append(split)
        self.splits[at] = splits
        return made

    def _buy(self, at: int, amount: int, chosen: set[int]) -> None:
        """Add to `chosen` what the amount buys in a node whose curve holds for what is fixed now."""
        if at in self.constants or amount <= 0:
            return
        node = self.formula.nodes[at]
        if node.kind == "task":
            if len(self.curves[at]) > 1:
                chosen.add(node.task)
            return
        inner = self.scopes.fixed_at.get(at, [])
        shares = self._settle(at, inner, amount)
        left = shares.pop()[1] if shares else amount
        for child, spent in shares:
            self._buy_fixed(child, spent, chosen)
        self._buy_parts(at, left, chosen)
        for child, _ in shares:
            del self.constants[child]

    def _settle(self, at: int, inner: list[int], amount: int) -> list[tuple[int, int]]:
        """Fix each subformula at the amount that is best, work the nodes out again, and say what is left at last."""
        if not inner:
            return []
        shares: list[tuple[int, int]] = []
        for position, first in enumerate(inner):
            if position or self.constants:  # else the amounts found at first still hold
                self._fix(at, inner[position:])
            chosen, came_from = self.chosen[first]
            amount = int(came_from[min(amount, len(came_from) - 1)])
            spent, value = self.choices[first][int(chosen[amount])]
            self.constants[first] = np.array([value])
            self._work_out(first)
            shares.append((first, spent))
            amount -= spent
        self._combine(at)
        return [*shares, (at, amount)]

    def _buy_fixed(self, at: int, amount: int, chosen: set[int]) -> None:
        kept = self.constants.pop(at)
        self._buy(at, amount, chosen)
        self.constants[at] = kept

    def _buy_parts(self, at: int, amount: int, chosen: set[int]) -> None:
        children = self.formula.nodes[at].children
        splits = self.splits[at]
        amount = min(amount, sum(len(self._read(at, position)) - 1 for position in range(len(children))), self.budget)
        parts = []
        for position in range(len(children) - 1, 0, -1):
            to_right = int(splits[position - 1][amount])
            parts.append((position, to_right))
            amount -= to_right
        for position, part in [*parts, (0, amount)]:
            if self.paid.get((at, position), True):
                self._buy(children[position], part, chosen)


def _paid(formula: Formula, uses: list[int], *, fixed: set[int], last: bool) -> dict[tuple[int, int], bool]:
    """For every use (parent, position) of a node that is used several times: whether this use pays for it."""
    places: dict[int, list[tuple[int, int]]] = {}
    for at in range(ONE + 1, formula.root + 1):
        if uses[at]:
            for position, child in enumerate(formula.nodes[at].children):
                if uses[child] > 1 and child != ONE and child not in fixed:
                    places.setdefault(child, []).append((at, position))
    return {place: place == (of[-1] if last else of[0]) for of in places.values() for place in of}


def _longer(values: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([values, np.full(size - len(values), -1, dtype=values.dtype)])


@compiled  # the whole planner spends its time here, on curves too short for array operations to pay
def _convolve(left: Floats, right: Floats, size: int, add: bool) -> tuple[Floats, Ints]:
    """The best of left[c - i] + right[i] (or times), and that i; of equals the smallest, so that the left comes first."""
    best, split = np.full(size, -1.0), np.zeros(size, dtype=np.int64)
    for i in range(min(len(right), size)):
        for j in range(min(len(left), size - i)):
            value = left[j] + right[i] if add else left[j] * right[i]
            if value > best[i + j] + TIE:
                split[i + j] = i
            if value > best[i + j]:
                best[i + j] = value
    return best, split


def _convolved(left: Floats, right: Floats, budget: int, *, add: bool) -> tuple[Floats, Ints]:
    size = min(len(left) + len(right) - 1, budget + 1)
    if len(right) == 1:
        return (left + right[0] if add else left * right[0]), np.zeros(size, dtype=np.int64)
    return _convolve(left, right, size, add)
