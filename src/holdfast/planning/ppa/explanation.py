"""A plan in words: why each replica is there, and what the next unit of budget would buy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import Formula, build
from holdfast.planning.ppa.frontier import REFILL
from holdfast.planning.ppa.knapsack import Knapsack
from holdfast.planning.ppa.planner import SAME, Plan, Planner, by_name, numbers_of, pruned
from holdfast.planning.ppa.tree_completion import Links

OBJECTIVES = {"of": "output fidelity", "ic": "internal completeness", "criticality": "measured quality"}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one task is replicated: what the plan would be worth without it, and in words."""

    task: str
    quality_without: float
    why: str


@dataclass(frozen=True, slots=True)
class Next:
    """The least addition to the budget that buys anything, and what it buys."""

    replicas: int
    quality: float
    start: tuple[str, ...]
    stop: tuple[str, ...]
    why: str


def reasons(measure: Measure, plan: Plan) -> list[Reason]:
    """For each replica of the plan, in the order of names, why it is there."""
    numbers = np.array(numbers_of(measure, plan), dtype=np.int64)
    alive = np.zeros(len(measure.weights))
    alive[numbers] = 1.0
    left = measure.without_each(alive, numbers)
    links, objective = Links(measure), OBJECTIVES[plan.objective]
    made = []
    for number, without in zip(numbers, left, strict=True):
        task = measure.topology.tasks[number]
        ways = _ways(measure, links, int(number), alive)
        if plan.quality - without <= SAME:
            why = f"{task} adds nothing to {objective}: no complete tree of replicas runs through it{ways}"
        else:
            why = f"without {task} {objective} would fall from {plan.quality:.3f} to {without:.3f}{ways}"
        made.append(Reason(task, float(without), why))
    return made


def next_unit(measure: Measure, plan: Plan, planner: Planner | None) -> Next | None:
    """What more budget would buy: one replica more if that helps, else as few as do.

    Either replicas beside those of the plan, or the planner's own plan of the larger budget where that is worth more.
    Without a planner the plan stays as it is: what is bought is then due to the budget alone. None where nothing is left
    to buy.
    """
    objective = OBJECTIVES[plan.objective]
    now = set(numbers_of(measure, plan))
    if plan.quality >= 1 - SAME:
        return None
    formula = build(measure)
    for more in range(1, len(measure.weights) - plan.budget + 1):
        then = now | _added(measure, formula, now, count=plan.budget + more - len(now))
        quality = measure.of(then)
        if planner is not None:
            larger = planner.plan(measure, plan.budget + more)
            if larger.quality > quality + SAME:
                then, quality = set(numbers_of(measure, larger)), larger.quality
        if quality <= plan.quality + SAME:
            continue
        start = tuple(measure.topology.tasks[i] for i in by_name(measure, then - now))
        stop = tuple(measure.topology.tasks[i] for i in by_name(measure, now - then))
        gain = f"{objective} +{quality - plan.quality:.3f} (to {quality:.3f})"
        how = f"replicate {_listed(start)}" + (f" in place of {_listed(stop)}" if stop else "")
        return Next(more, quality, start, stop, f"{_units(plan, more)} {gain}: {how}")
    return None


def _units(plan: Plan, more: int) -> str:
    """How much more is needed, in replicas; or in budget, where the plan leaves some of its budget unused."""
    if len(plan.tasks) < plan.budget:
        return f"a budget of {plan.budget + more} in place of {plan.budget} buys"
    return "one more replica buys" if more == 1 else f"one more replica buys nothing by itself; {more} more buy"


def _added(measure: Measure, formula: Formula, now: set[int], *, count: int) -> set[int]:
    """So many tasks beside those there, for the greatest gain that is found: the greatest there is where it is one task."""
    alive = np.zeros(len(measure.weights))
    alive[sorted(now)] = 1.0
    if count > 1:
        return pruned(measure, now | Knapsack(formula, count, free=alive, evaluations=REFILL).tasks(count)) - now
    others = np.array([task for task in by_name(measure, range(len(alive))) if task not in now], dtype=np.int64)
    worth = measure.extended(alive, list(others[:, None]))
    return {int(others[int(np.argmax(np.round(worth, 12)))])}


def _ways(measure: Measure, links: Links, task: int, alive: np.ndarray) -> str:
    """Which replicated tasks it reads and feeds."""
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
