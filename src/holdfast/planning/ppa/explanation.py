"""Explanations of plans: why each task is replicated, and what the next unit of budget would buy."""

from __future__ import annotations

import numpy as np

from holdfast.documents.document import Part
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import Formula, build_formula
from holdfast.planning.ppa.frontier import REFILL
from holdfast.planning.ppa.knapsack import Knapsack
from holdfast.planning.ppa.planner import QUALITY_TOLERANCE, Plan, Planner, sorted_by_name, task_numbers, without_useless
from holdfast.planning.ppa.tree_completion import Links

OBJECTIVES = {"of": "output fidelity", "ic": "internal completeness", "criticality": "measured quality"}


class PlannedReplica(Part):
    """A task with an active replica, the plan's quality without it, and the reason."""

    task: str
    quality_without: float | None = None
    why: str | None = None


class NextUnit(Part):
    """The smallest addition to the budget that adds quality."""

    replicas: int
    quality: float
    start: tuple[str, ...]
    stop: tuple[str, ...] = ()
    why: str


def reasons(measure: Measure, plan: Plan) -> list[PlannedReplica]:
    """Return each replica of the plan with its reason, ordered by name."""
    numbers = np.array(task_numbers(measure, plan), dtype=np.int64)
    alive = np.zeros(len(measure.weights))
    alive[numbers] = 1.0
    qualities = measure.without_each(alive, numbers)
    links, objective = Links(measure), OBJECTIVES[plan.objective]
    result = []
    for number, without in zip(numbers, qualities, strict=True):
        task = measure.topology.tasks[number]
        ways = _ways(measure, links, int(number), alive)
        if plan.quality - without <= QUALITY_TOLERANCE:
            why = f"{task} adds nothing to {objective}: no complete tree of replicas runs through it{ways}"
        else:
            why = f"without {task} {objective} would fall from {plan.quality:.3f} to {without:.3f}{ways}"
        result.append(PlannedReplica(task=task, quality_without=float(without), why=why))
    return result


def next_unit(measure: Measure, plan: Plan, planner: Planner | None) -> NextUnit | None:
    """Return the smallest addition to the budget that adds quality, or None if nothing is left to buy.

    It is either additional replicas or, if that has a higher quality, the planner's plan for the larger budget. Without a
    planner the current replicas stay.
    """
    objective = OBJECTIVES[plan.objective]
    now = set(task_numbers(measure, plan))
    if plan.quality >= 1 - QUALITY_TOLERANCE:
        return None
    formula = build_formula(measure)
    for more in range(1, len(measure.weights) - plan.budget + 1):
        then = now | _additional_tasks(measure, formula, now, count=plan.budget + more - len(now))
        quality = measure.of(then)
        if planner is not None:
            larger = planner.plan(measure, plan.budget + more)
            if larger.quality > quality + QUALITY_TOLERANCE:
                then, quality = set(task_numbers(measure, larger)), larger.quality
        if quality <= plan.quality + QUALITY_TOLERANCE:
            continue
        start = tuple(measure.topology.tasks[i] for i in sorted_by_name(measure, then - now))
        stop = tuple(measure.topology.tasks[i] for i in sorted_by_name(measure, now - then))
        gain = f"{objective} +{quality - plan.quality:.3f} (to {quality:.3f})"
        how = f"replicate {_listed(start)}" + (f" in place of {_listed(stop)}" if stop else "")
        why = f"{_units(plan, more)} {gain}: {how}"
        return NextUnit(replicas=more, quality=quality, start=start, stop=stop, why=why)
    return None


def _units(plan: Plan, more: int) -> str:
    """Return the needed addition as text: in replicas, or as a budget if the plan does not use its whole budget."""
    if len(plan.tasks) < plan.budget:
        return f"a budget of {plan.budget + more} in place of {plan.budget} buys"
    return "one more replica buys" if more == 1 else f"one more replica buys nothing by itself; {more} more buy"


def _additional_tasks(measure: Measure, formula: Formula, now: set[int], *, count: int) -> set[int]:
    """Return `count` additional tasks with a large gain. For a single task the gain is the greatest possible."""
    alive = np.zeros(len(measure.weights))
    alive[sorted(now)] = 1.0
    if count > 1:
        return without_useless(measure, now | Knapsack(formula, count, free=alive, evaluations=REFILL).tasks(count)) - now
    others = np.array([task for task in sorted_by_name(measure, range(len(alive))) if task not in now], dtype=np.int64)
    values = measure.extended(alive, list(others[:, None]))
    return {int(others[int(np.argmax(np.round(values, 12)))])}


def _ways(measure: Measure, links: Links, task: int, alive: np.ndarray) -> str:
    """Return a clause with the replicated tasks that this task reads and feeds."""
    reads = [t for a, b in links.inputs[task] for t in range(a, b) if alive[t]]
    feeds = [t for (a, b), _ in links.outputs[task] for t in range(a, b) if alive[t]]
    parts = []
    if reads:
        parts.append(f"reads {_listed([measure.topology.tasks[t] for t in reads])}")
    if feeds:
        parts.append(f"feeds {_listed([measure.topology.tasks[t] for t in feeds])}")
    return f"; it {' and '.join(parts)}" if parts else ""


def _listed(names: list[str] | tuple[str, ...], *, most: int = 4) -> str:
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"
