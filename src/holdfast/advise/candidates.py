"""Candidate plans for one budget, one per objective: measured loss, criticality, output fidelity and internal completeness.

A plan protects whole sources and PEs, with a replica of each task, because an assessment measures these and not their tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.advise.budget import Budget, Prices, most_valuable_set, ranked
from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import Frontier, Measure, internal_completeness, measured_criticality, output_fidelity

OBJECTIVE_NAMES = {
    "measured": "measured losses",
    "criticality": "measured losses, weighed along the graph",
    "of": "output fidelity (PPA)",
    "ic": "internal completeness (LAAR)",
}
"""The name of each objective for messages and reports."""


@dataclass(frozen=True)
class Candidate:
    """A plan by one objective: the sources and PEs that it protects, in descending cost of their failure."""

    objective: str
    protected: tuple[str, ...]

    @property
    def description(self) -> str:
        """The protected units, or why there are none.

        >>> Candidate("of", ("a", "b")).description, Candidate("of", ()).description
        ('a, b', 'nothing: none of its best plans within the budget keeps an output alive')
        """
        return ", ".join(self.protected) or "nothing: none of its best plans within the budget keeps an output alive"


def candidate_plans(topology: Topology, impact: Mapping[str, float], budget: Budget, prices: Prices) -> list[Candidate]:
    """Return the plans for a budget, one per objective, for a topology of whole units; HoldfastError if the budget is invalid.

    `impact` is the output that each unit's failure costs. Objective `measured` protects the units with the largest total loss.
    `criticality` keeps the most of it flowing when everything else fails at once. `of` and `ic` maximise output fidelity and
    internal completeness, which ignore losses; their plan is empty if the budget keeps no output alive.
    """
    budget.check(prices)
    plans = [Candidate("measured", most_valuable_set(impact, budget, prices))]
    measures: list[Measure] = [output_fidelity(topology), internal_completeness(topology)]
    if sum(impact.values()) > 0:
        measures.insert(0, measured_criticality(topology, impact))
    return plans + [Candidate(measure.name, ranked(_planned(measure, budget, prices), impact)) for measure in measures]


def _planned(measure: Measure, budget: Budget, prices: Prices) -> tuple[str, ...]:
    """Return the best plan by a measure that the budget affords, with as many units as possible."""
    most = min(len(prices.tasks), budget.replicas or len(prices.tasks))
    for units in range(most, 0, -1):
        protected = tuple(name for name in _units(Frontier().plan(measure, units).tasks) if name not in prices.unreplicable)
        if budget.affords(protected, prices):
            return protected
    return ()


def _units(tasks: Iterable[str]) -> tuple[str, ...]:
    return tuple(task.rpartition("/")[0] for task in tasks)


def completeness(topology: Topology, protected: Iterable[str]) -> float:
    """Return the internal completeness of a topology of whole units when all but the protected units have failed."""
    alive = set(protected)
    return internal_completeness(topology).of(n for n, name in enumerate(_units(topology.tasks)) if name in alive)


def least_budget(topology: Topology, least: float, tasks: Mapping[str, int]) -> int:
    """Return the fewest replicas that keep an internal completeness of `least` when everything else fails.

    It considers the best plan of each number of units. Raises HoldfastError if no plan keeps it.
    """
    measure = internal_completeness(topology)
    plans = [Frontier().plan(measure, units) for units in range(1, len(tasks) + 1)]
    replicas = [sum(tasks[name] for name in _units(plan.tasks)) for plan in plans if plan.quality >= least - 1e-9]
    if not replicas:
        raise HoldfastError(
            f"--ic: a completeness of {least:g} cannot be promised; the best, with a replica of all, is {plans[-1].quality:.4g}"
        )
    return max(min(replicas), min(tasks.values()))
