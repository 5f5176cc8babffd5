"""Explained plans: the plan documents of one or several planners, and the smallest budget for a quality."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import HoldfastError
from holdfast.planning.ppa.adaptation import MOVE_WORTH, adapt
from holdfast.planning.ppa.explanation import next_unit, reasons
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.plan_document import PlanDocument, plan_document
from holdfast.planning.ppa.planner import Planner


def explained_plan(
    measure: Measure,
    planner: Planner,
    *,
    budget: int,
    current: tuple[str, ...] | None = None,
    move_worth: float = MOVE_WORTH,
) -> PlanDocument:
    """Return the planner's plan with its explanation. With the tasks of a `current` plan, adapt that one instead."""
    if current is None:
        adaptation, plan = None, planner.plan(measure, budget)
    else:
        adaptation = adapt(measure, current, budget=budget, planner=planner, move_worth=move_worth)
        plan = adaptation.plan
    return plan_document(
        plan,
        measure.topology,
        reasons=reasons(measure, plan),
        next_unit=next_unit(measure, plan, None if adaptation else planner),
        adaptation=adaptation,
    )


def explained_plans(
    measure: Measure, planners: Iterable[Planner], *, budget: int, current: tuple[str, ...] | None, move_worth: float
) -> tuple[list[PlanDocument], dict[str, HoldfastError]]:
    """Return the explained plans of all planners that have one, and the errors of the others by name."""
    documents: list[PlanDocument] = []
    errors: dict[str, HoldfastError] = {}
    for planner in planners:
        try:
            documents.append(explained_plan(measure, planner, budget=budget, current=current, move_worth=move_worth))
        except HoldfastError as error:
            errors[planner.name] = error
    return documents, errors


def smallest_budget(measure: Measure, planner: Planner, *, quality: float) -> int:
    """Return the smallest budget with which the planner reaches the quality, by bisection."""
    low, high = 0, len(measure.weights)
    while low < high:
        middle = (low + high) // 2
        if planner.plan(measure, middle).quality >= quality - 1e-9:
            high = middle
        else:
            low = middle + 1
    return low
