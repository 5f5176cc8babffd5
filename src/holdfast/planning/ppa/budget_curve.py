"""What every budget is worth, in one pass of the knapsack: the curve behind a plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import build
from holdfast.planning.ppa.knapsack import Knapsack
from holdfast.planning.ppa.planner import pruned

MOST_BUDGETS = 400
"""Up to this budget plans are looked through for who is in which; beyond it that takes longer than planning."""


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """The quality that each budget, from 0 to that of all tasks, buys at least; where `exact`, the most that it can buy.

    `since` says for tasks from which budget on they have a replica in the best plan; empty where that is not known.
    """

    quality: tuple[float, ...]
    exact: bool
    since: dict[str, int]


def worth_of_budgets(measure: Measure, *, planned: int) -> BudgetCurve:
    """The curve of a measure; who is in its plans is worked out up to the budget that was planned.

    >>> from holdfast.documents.topology import TaskOperator, Topology
    >>> from holdfast.planning.ppa.fidelity import output_fidelity
    >>> lanes = Topology(topology="lanes", operators={
    ...     "a": TaskOperator(parallelism=2, rates=(7.0, 3.0)),
    ...     "b": TaskOperator(parallelism=2, inputs={"a": "one-to-one"})})
    >>> worth = worth_of_budgets(output_fidelity(lanes), planned=4)
    >>> [round(quality, 3) for quality in worth.quality], worth.exact, worth.since
    ([0.0, 0.0, 0.7, 0.7, 1.0], True, {'a/0': 2, 'b/0': 2, 'a/1': 4, 'b/1': 4})
    """
    tasks = len(measure.weights)
    knapsack = Knapsack(build(measure), tasks, free=np.zeros(tasks))
    since: dict[str, int] = {}
    if knapsack.exact and planned <= MOST_BUDGETS:
        for budget in range(1, planned + 1):
            for task in sorted(pruned(measure, knapsack.tasks(budget))):
                since.setdefault(measure.topology.tasks[task], budget)
    return BudgetCurve(tuple(min(1.0, knapsack.value(budget)) for budget in range(tasks + 1)), knapsack.exact, since)
