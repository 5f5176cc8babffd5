"""Plans that follow the rates (PPA section V-C): a new plan for new rates, with as few moves as are worth it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from holdfast.errors import DocumentError
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.formula import Formula, build
from holdfast.planning.ppa.frontier import REFILL
from holdfast.planning.ppa.knapsack import Knapsack
from holdfast.planning.ppa.planner import SAME, Plan, Planner, by_name, made, numbers_of, pruned

EVERY = 16  # numbers of starts that are all tried
MOVE_WORTH = 0.005  # quality that starting one replica must bring: it costs a checkpoint's transfer and a catch-up


@dataclass(frozen=True, slots=True)
class Adaptation:
    """The plan to move to, and how. `kept_quality` is what the current plan is worth under the new rates."""

    plan: Plan
    stop: tuple[str, ...]
    start: tuple[str, ...]
    kept_quality: float
    best_quality: float
    move_worth: float


def adapt(measure: Measure, current: Iterable[str], *, budget: int, planner: Planner, move_worth: float = MOVE_WORTH) -> Adaptation:
    """The plan that is worth most once every replica to be started is charged `move_worth`.

    Candidates: the current plan with so many replicas started for its greatest gain and its least useful ones stopped to make
    room, and the plan made from scratch. Every small number of starts is tried; of larger ones every doubling, and then those
    between the best and its neighbours, halving what lies between. With a worth of 0 the best plan wins; with a worth of 1
    nothing is started. Stopping costs nothing, yet of plans worth the same the one with fewest moves is taken.
    """
    topology = measure.topology
    held = tuple(current)
    unknown = sorted(set(held) - topology.number.keys())
    if unknown:
        known = f"topology '{topology.topology}' has no such task; its operators are: {', '.join(sorted(topology.operators))}"
        raise DocumentError("current plan", [f"{task}: {known}" for task in unknown])
    now = {topology.number[task] for task in held}
    best = planner.plan(measure, budget)
    target = set(numbers_of(measure, best))
    formula = build(measure)

    def merit(plan: set[int]) -> tuple[float, int]:
        return _net(measure, plan, now, move_worth), -len(plan ^ now)

    tried: dict[int, set[int]] = {}
    steps = _steps(len(target - now))
    while steps:
        tried |= {starts: _moved(measure, formula, now, starts=starts, budget=budget) for starts in steps}
        steps = _between(sorted(tried), max(tried, key=lambda starts: merit(tried[starts])))
    chosen = max([*tried.values(), target], key=merit)
    return Adaptation(
        plan=made(planner, measure, budget, chosen=chosen, bound=best.bound),
        stop=tuple(topology.tasks[i] for i in by_name(measure, now - chosen)),
        start=tuple(topology.tasks[i] for i in by_name(measure, chosen - now)),
        kept_quality=measure.of(now),
        best_quality=best.quality,
        move_worth=move_worth,
    )


def _steps(most: int) -> list[int]:
    """Every number up to `EVERY`, then each twice the one before, to `most`.

    >>> _steps(3), _steps(70)[-4:]
    ([0, 1, 2, 3], [16, 32, 64, 70])
    """
    steps = list(range(min(most, EVERY) + 1))
    while steps[-1] < most:
        steps.append(min(2 * steps[-1], most))
    return steps


def _between(tried: list[int], best: int) -> list[int]:
    """The numbers half-way from the best one to its neighbours among those tried; none where nothing lies between.

    >>> _between([0, 1, 16, 32], 16), _between([8, 9, 10], 9)
    ([8, 24], [])
    """
    at = tried.index(best)
    halves = [(best + other) // 2 for other in (*tried[max(0, at - 1) : at], *tried[at + 1 : at + 2])]
    return [half for half in halves if half not in tried]


def _net(measure: Measure, plan: set[int], now: set[int], move_worth: float) -> float:
    return round(measure.of(plan) - move_worth * len(plan - now), 12)


def _moved(measure: Measure, formula: Formula, now: set[int], *, starts: int, budget: int) -> set[int]:
    """The current plan after so many starts, and as many stops as the budget then asks for: the least useful first."""
    alive = np.zeros(len(measure.weights))
    alive[sorted(now)] = 1.0
    more = Knapsack(formula, starts, free=alive, evaluations=REFILL).tasks(starts) if starts else set()
    plan = now | more
    while len(plan) > budget:
        useful = pruned(measure, plan)
        idle = by_name(measure, plan - useful)
        if idle:
            plan = plan - set(idle[: len(plan) - budget])
            continue
        tasks = np.array(by_name(measure, plan), dtype=np.int64)
        alive = np.zeros(len(measure.weights))
        alive[tasks] = 1.0
        left = measure.without_each(alive, tasks)
        plan = plan - {int(tasks[np.flatnonzero(left >= left.max() - SAME)[-1]])}
    return plan
