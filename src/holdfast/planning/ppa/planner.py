"""The interface of all planners: a measure and a budget in, a plan out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.documents.topology import Floats
from holdfast.errors import HoldfastError
from holdfast.planning.ppa.fidelity import Measure

QUALITY_TOLERANCE = 1e-12  # qualities closer than this count as equal; rounding errors are smaller


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks with an active replica, and the quality when all other tasks fail at once (Definition 2).

    No plan of this budget exceeds the quality `bound`. It is 1 if the planner proves nothing better.
    """

    topology: str
    planner: str
    objective: str
    budget: int
    tasks: tuple[str, ...]
    quality: float
    bound: float = 1.0

    @property
    def gap(self) -> float:
        """The largest possible distance to the best plan of this budget."""
        return max(0.0, self.bound - self.quality)

    @property
    def proven(self) -> bool:
        """Whether it is proven that no plan of this budget is better."""
        return self.gap <= 1e-9


class Planner(Protocol):
    """Chooses the tasks to replicate.

    A plan has at most `budget` tasks and depends only on the arguments. Among equal tasks, those that come first by name are
    chosen.
    """

    @property
    def name(self) -> str:
        """The planner's name on the command line and in documents."""

    def plan(self, measure: Measure, budget: int) -> Plan:
        """Return the plan for at most `budget` replicas. Raises HoldfastError if the topology has fewer tasks."""


def check_budget(measure: Measure, budget: int) -> None:
    """Raise HoldfastError unless the topology has tasks for the budget."""
    tasks = len(measure.weights)
    if not 0 <= budget <= tasks:
        raise HoldfastError(
            f"budget {budget} does not fit topology '{measure.topology.topology}': it has {tasks} tasks, each of which"
            f" can have one active replica; give a budget from 0 to {tasks}"
        )


def build_plan(planner: Planner, measure: Measure, budget: int, *, chosen: Iterable[int], bound: float = 1.0) -> Plan:
    """Return the plan of the chosen task numbers, and compute its quality."""
    numbers = sorted_by_name(measure, chosen)
    quality = min(1.0, measure.of(numbers))
    return Plan(
        topology=measure.topology.topology,
        planner=planner.name,
        objective=measure.name,
        budget=budget,
        tasks=tuple(measure.topology.tasks[i] for i in numbers),
        quality=quality,
        bound=1.0 if bound > 1.0 - QUALITY_TOLERANCE else max(bound, quality),
    )


def sorted_by_name(measure: Measure, chosen: Iterable[int]) -> list[int]:
    """Return the chosen task numbers in the order of their names."""
    return sorted(set(chosen), key=lambda task: int(measure.topology.rank[task]))


def task_numbers(measure: Measure, plan: Plan) -> list[int]:
    """Return the numbers of a plan's tasks."""
    return [measure.topology.number[task] for task in plan.tasks]


def without_useless(measure: Measure, chosen: Iterable[int]) -> set[int]:
    """Return the chosen tasks without those that no live MC-tree needs. Removing all of them at once loses no quality."""
    alive = np.zeros(len(measure.weights))
    alive[list(chosen)] = 1.0
    input_fidelity, derivative = measure.slopes(alive)
    return {int(task) for task in np.flatnonzero(alive * input_fidelity * derivative > 0)}


def rank_tasks(measure: Measure, scores: Floats, *, digits: int = 12) -> list[int]:
    """Return all tasks, highest score first. Ties, to this many digits, are broken by name."""
    order = np.lexsort((measure.topology.rank, -np.round(scores, digits)))
    return [int(i) for i in order]
