"""What every planner takes and gives: a measure and a budget in, a plan out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.documents.topology import Floats
from holdfast.errors import HoldfastError
from holdfast.planning.ppa.fidelity import Measure

SAME = 1e-12  # two qualities closer than this are one; sums of a thousand rates differ by less


@dataclass(frozen=True, slots=True)
class Plan:
    """Which tasks have an active replica, and what that is worth when all others fail at once (Definition 2).

    `bound` is a quality that no plan of this budget can exceed: 1 where the planner proves nothing better.
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
        """How far at most the plan is from the best one of its budget."""
        return max(0.0, self.bound - self.quality)

    @property
    def proven(self) -> bool:
        """Whether no plan of this budget is better."""
        return self.gap <= 1e-9


class Planner(Protocol):
    """Chooses the tasks to replicate.

    A plan has at most `budget` tasks, depends on nothing but the arguments, and among tasks of equal worth takes those
    that come first by name.
    """

    @property
    def name(self) -> str:
        """How the command line and documents call the planner."""

    def plan(self, measure: Measure, budget: int) -> Plan:
        """The plan for at most `budget` replicas. Raises HoldfastError for a budget that the topology cannot have."""


def check_budget(measure: Measure, budget: int) -> None:
    """Raise HoldfastError unless the topology has tasks for the budget."""
    tasks = len(measure.weights)
    if not 0 <= budget <= tasks:
        raise HoldfastError(
            f"budget {budget} does not fit topology '{measure.topology.topology}': it has {tasks} tasks, each of which"
            f" can have one active replica; give a budget from 0 to {tasks}"
        )


def made(planner: Planner, measure: Measure, budget: int, *, chosen: Iterable[int], bound: float = 1.0) -> Plan:
    """The plan of the chosen task numbers, with its quality worked out afresh."""
    numbers = by_name(measure, chosen)
    quality = min(1.0, measure.of(numbers))
    return Plan(
        topology=measure.topology.topology,
        planner=planner.name,
        objective=measure.name,
        budget=budget,
        tasks=tuple(measure.topology.tasks[i] for i in numbers),
        quality=quality,
        bound=1.0 if bound > 1.0 - SAME else max(bound, quality),
    )


def by_name(measure: Measure, chosen: Iterable[int]) -> list[int]:
    """The chosen task numbers in the order of their names."""
    return sorted(set(chosen), key=lambda task: int(measure.topology.rank[task]))


def numbers_of(measure: Measure, plan: Plan) -> list[int]:
    """The numbers of a plan's tasks."""
    return [measure.topology.number[task] for task in plan.tasks]


def pruned(measure: Measure, chosen: Iterable[int]) -> set[int]:
    """The chosen tasks without those that no living MC-tree needs: they can all go at once and nothing is lost."""
    alive = np.zeros(len(measure.weights))
    alive[list(chosen)] = 1.0
    seen, worth = measure.slopes(alive)
    return {int(task) for task in np.flatnonzero(alive * seen * worth > 0)}


def ranked(measure: Measure, scores: Floats, *, digits: int = 12) -> list[int]:
    """All tasks, highest score first, ties (to that many digits) by name."""
    order = np.lexsort((measure.topology.rank, -np.round(scores, digits)))
    return [int(i) for i in order]
