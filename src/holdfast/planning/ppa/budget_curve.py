"""The budget curve: the quality that each budget buys, from one pass of the knapsack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import build_formula
from holdfast.planning.ppa.knapsack import Knapsack
from holdfast.planning.ppa.planner import without_useless

MOST_BUDGETS = 400
"""Up to this budget, `since` is computed; beyond it that takes longer than planning."""


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """The quality that each budget from 0 to all tasks buys at least; if `exact`, the highest possible quality.

    `since` maps a task to the smallest budget whose best plan replicates it; it is empty if that is not known.
    """

    quality: tuple[float, ...]
    exact: bool
    since: dict[str, int]


def budget_curve(measure: Measure, *, planned: int) -> BudgetCurve:
    """Return the curve of a measure. `since` is computed up to the budget `planned`.

    >>> from holdfast.documents.topology import TaskOperator, Topology
    >>> from holdfast.planning.ppa.fidelity import output_fidelity
    >>> lanes = Topology(topology="lanes", operators={
    ...     "a": TaskOperator(parallelism=2, rates=(7.0, 3.0)),
    ...     "b": TaskOperator(parallelism=2, inputs={"a": "one-to-one"})})
    >>> curve = budget_curve(output_fidelity(lanes), planned=4)
    >>> [round(quality, 3) for quality in curve.quality], curve.exact, curve.since
    ([0.0, 0.0, 0.7, 0.7, 1.0], True, {'a/0': 2, 'b/0': 2, 'a/1': 4, 'b/1': 4})
    """
    tasks = len(measure.weights)
    knapsack = Knapsack(build_formula(measure), tasks, free=np.zeros(tasks))
    since: dict[str, int] = {}
    if knapsack.exact and planned <= MOST_BUDGETS:
        for budget in range(1, planned + 1):
            for task in sorted(without_useless(measure, knapsack.tasks(budget))):
                since.setdefault(measure.topology.tasks[task], budget)
    return BudgetCurve(tuple(min(1.0, knapsack.value(budget)) for budget in range(tasks + 1)), knapsack.exact, since)
