"""Plans to choose from: by what was measured, by output fidelity and by internal completeness, all of the same budget.

Protected is a whole source or PE, with a replica of each of its tasks: an assessment tells these apart, not their tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.advise.budget import Budget, Prices, ranked, worthiest
from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import Frontier, Measure, internal_completeness, measured_criticality, output_fidelity

NAMES = {
    "measured": "what was measured",
    "criticality": "what was measured, weighed along the graph",
    "of": "output fidelity (PPA)",
    "ic": "internal completeness (LAAR)",
}
"""What each objective goes by, in words."""


@dataclass(frozen=True)
class Candidate:
    """A plan by one objective: the sources and PEs that it protects, the one whose failure costs most first."""

    objective: str
    protected: tuple[str, ...]

    @property
    def said(self) -> str:
        """Who is protected, or why nobody is.

        >>> Candidate("of", ("a", "b")).said, Candidate("of", ()).said
        ('a, b', 'nothing: of its best plans none that fits keeps an output alive')
        """
        return ", ".join(self.protected) or "nothing: of its best plans none that fits keeps an output alive"


def candidate_plans(topology: Topology, impact: Mapping[str, float], budget: Budget, prices: Prices) -> list[Candidate]:
    """The plans of a budget, one per objective, for a topology of whole units.

    `impact`: what each costs when it fails alone. `measured` protects what saves most of the impacts, `criticality` what keeps
    most of them flowing when everything else fails at once, `of` and `ic` do so for fidelity and completeness, which know nothing
    of impacts: where the budget keeps none of either alive, their plan is empty. Raises HoldfastError for a budget that cannot be.
    """
    budget.check(prices)
    found = [Candidate("measured", worthiest(impact, budget, prices))]
    measures: list[Measure] = [output_fidelity(topology), internal_completeness(topology)]
    if sum(impact.values()) > 0:
        measures.insert(0, measured_criticality(topology, impact))
    return found + [Candidate(measure.name, ranked(_planned(measure, budget, prices), impact)) for measure in measures]


def _planned(measure: Measure, budget: Budget, prices: Prices) -> tuple[str, ...]:
    """The plan by a measure: of as many units as the budget affords."""
    most = min(len(prices.tasks), budget.replicas or len(prices.tasks))
    for units in range(most, 0, -1):
        held = _units(Frontier().plan(measure, units).tasks)
        if budget.affords(held, prices):
            return held
    return ()


def _units(tasks: Iterable[str]) -> tuple[str, ...]:
    return tuple(task.rpartition("/")[0] for task in tasks)


def completeness(topology: Topology, protected: Iterable[str]) -> float:
    """The internal completeness when exactly these live, of a topology of whole units."""
    held = set(protected)
    return internal_completeness(topology).of(n for n, name in enumerate(_units(topology.tasks)) if name in held)


def least_budget(topology: Topology, wanted: float, tasks: Mapping[str, int]) -> int:
    """The replicas with which what is protected keeps internal completeness when everything else fails.

    Of the best plans of one unit, of two and so on, that which takes the fewest replicas. Raises HoldfastError with the best that
    can be promised where none does.
    """
    measure = internal_completeness(topology)
    plans = [Frontier().plan(measure, units) for units in range(1, len(tasks) + 1)]
    keeping = [sum(tasks[name] for name in _units(plan.tasks)) for plan in plans if plan.quality >= wanted - 1e-9]
    if not keeping:
        raise HoldfastError(
            f"--ic: a completeness of {wanted:g} cannot be promised; the best, with a replica of all, is {plans[-1].quality:.4g}"
        )
    return max(min(keeping), min(tasks.values()))
