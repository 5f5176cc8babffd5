"""Adaptation of a plan to new rates (PPA section V-C), with as few moves as are worth it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from holdfast.errors import DocumentError
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import Formula, build_formula
from holdfast.planning.ppa.frontier import REFILL
from holdfast.planning.ppa.knapsack import Knapsack
from holdfast.planning.ppa.planner import (
    QUALITY_TOLERANCE,
    Plan,
    Planner,
    build_plan,
    sorted_by_name,
    task_numbers,
    without_useless,
)

EVERY = 16  # every number of starts up to this one is tried
MOVE_WORTH = 0.005  # the quality that one more replica must add: its start costs a checkpoint transfer and a catch-up


@dataclass(frozen=True, slots=True)
class Adaptation:
    """The new plan, and the replicas to stop and start. `kept_quality` is the quality of the current plan under the new rates."""

    plan: Plan
    stop: tuple[str, ...]
    start: tuple[str, ...]
    kept_quality: float
    best_quality: float
    move_worth: float


def adapt(measure: Measure, current: Iterable[str], *, budget: int, planner: Planner, move_worth: float = MOVE_WORTH) -> Adaptation:
    """Return the plan of the highest quality minus `move_worth` for every replica to start.

    The candidates are the plan made from scratch, and the current plan with n replicas started for the greatest gain and the
    least useful ones stopped to make room. Every small n is tried; larger ones are doubled, and then the intervals next to the
    best one are halved. With a worth of 0 the best plan wins; with a worth of 1 nothing is started. Stopping costs nothing, but
    among equal plans the one with the fewest moves is chosen.
    """
    topology = measure.topology
    current_tasks = tuple(current)
    unknown = sorted(set(current_tasks) - topology.number.keys())
    if unknown:
        known = f"topology '{topology.topology}' has no such task; its operators are: {', '.join(sorted(topology.operators))}"
        raise DocumentError("current plan", [f"{task}: {known}" for task in unknown])
    now = {topology.number[task] for task in current_tasks}
    best = planner.plan(measure, budget)
    target = set(task_numbers(measure, best))
    formula = build_formula(measure)

    def merit(plan: set[int]) -> tuple[float, int]:
        return _net(measure, plan, now, move_worth), -len(plan ^ now)

    tried: dict[int, set[int]] = {}
    steps = _steps(len(target - now))
    while steps:
        tried |= {starts: _move(measure, formula, now, starts=starts, budget=budget) for starts in steps}
        steps = _between(sorted(tried), max(tried, key=lambda starts: merit(tried[starts])))
    chosen = max([*tried.values(), target], key=merit)
    return Adaptation(
        plan=build_plan(planner, measure, budget, chosen=chosen, bound=best.bound),
        stop=tuple(topology.tasks[i] for i in sorted_by_name(measure, now - chosen)),
        start=tuple(topology.tasks[i] for i in sorted_by_name(measure, chosen - now)),
        kept_quality=measure.of(now),
        best_quality=best.quality,
        move_worth=move_worth,
    )


def _steps(most: int) -> list[int]:
    """Return every number up to `EVERY`, then doublings up to `most`.

    >>> _steps(3), _steps(70)[-4:]
    ([0, 1, 2, 3], [16, 32, 64, 70])
    """
    steps = list(range(min(most, EVERY) + 1))
    while steps[-1] < most:
        steps.append(min(2 * steps[-1], most))
    return steps


def _between(tried: list[int], best: int) -> list[int]:
    """Return the numbers halfway between the best one and its neighbours among those tried, without those tried already.

    >>> _between([0, 1, 16, 32], 16), _between([8, 9, 10], 9)
    ([8, 24], [])
    """
    at = tried.index(best)
    halves = [(best + other) // 2 for other in (*tried[max(0, at - 1) : at], *tried[at + 1 : at + 2])]
    return [half for half in halves if half not in tried]


def _net(measure: Measure, plan: set[int], now: set[int], move_worth: float) -> float:
    return round(measure.of(plan) - move_worth * len(plan - now), 12)


def _move(measure: Measure, formula: Formula, now: set[int], *, starts: int, budget: int) -> set[int]:
    """Return the current plan after this many starts and the stops that the budget requires, the least useful first."""
    alive = np.zeros(len(measure.weights))
    alive[sorted(now)] = 1.0
    more = Knapsack(formula, starts, free=alive, evaluations=REFILL).tasks(starts) if starts else set()
    plan = now | more
    while len(plan) > budget:
        useful = without_useless(measure, plan)
        idle = sorted_by_name(measure, plan - useful)
        if idle:
            plan = plan - set(idle[: len(plan) - budget])
            continue
        tasks = np.array(sorted_by_name(measure, plan), dtype=np.int64)
        alive = np.zeros(len(measure.weights))
        alive[tasks] = 1.0
        quality = measure.without_each(alive, tasks)
        plan = plan - {int(tasks[np.flatnonzero(quality >= quality.max() - QUALITY_TOLERANCE)[-1]])}
    return plan
