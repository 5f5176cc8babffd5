"""Plans to choose from: by what was measured, by output fidelity and by internal completeness, all of the same budget.

A replica is one of a whole operator or source, all its tasks: an assessment tells operators apart, not their tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.advise.budget import Budget, worthiest
from holdfast.errors import HoldfastError
from holdfast.model.topology import TaskOperator, Topology
from holdfast.plan.ppa import Frontier, Measure, internal_completeness, measured_criticality, output_fidelity


@dataclass(frozen=True)
class Candidate:
    """A plan by one objective: the operators and sources with a replica, in the order of their names."""

    objective: str
    protected: tuple[str, ...]


def whole_operators(topology: Topology) -> Topology:
    """The topology with every operator as one task: its rates stay, its partitionings no longer matter."""
    tasks = topology.rates
    merged = {
        name: TaskOperator(
            inputs=dict.fromkeys(topology.operators[name].inputs, "one-to-one"),
            correlated=topology.operators[name].correlated,
            rate=float(tasks[span].sum()),
        )
        for name, span in zip(topology.order, topology.spans, strict=True)
    }
    return Topology(topology=topology.topology, operators=merged)


def candidates(topology: Topology, impact: Mapping[str, float], budget: Budget, cpu: Mapping[str, float]) -> list[Candidate]:
    """The plans of a budget, one per objective.

    `impact`: what each costs when it fails alone; `cpu`: the CPU that a replica of it takes. `measured` protects what saves most of
    the impacts, `criticality` what keeps most of them flowing when everything else fails at once, `of` and `ic` do so for fidelity
    and completeness, which know nothing of impacts. Raises HoldfastError for a budget that cannot be.
    """
    budget.check(cpu)
    found = [Candidate("measured", worthiest(impact, budget, cpu))]
    measures: list[Measure] = [output_fidelity(topology), internal_completeness(topology)]
    if sum(impact.values()) > 0:
        measures.insert(0, measured_criticality(topology, impact))
    return found + [Candidate(measure.name, _planned(measure, budget, cpu)) for measure in measures]


def _planned(measure: Measure, budget: Budget, cpu: Mapping[str, float]) -> tuple[str, ...]:
    """The plan by a measure: of as many replicas as the budget affords."""
    most = len(cpu) if budget.replicas is None else budget.replicas
    for replicas in range(most, 0, -1):
        held = tuple(sorted(task.rpartition("/")[0] for task in Frontier().plan(measure, replicas).tasks))
        if budget.affords(held, cpu):
            return held
    return ()


def completeness(topology: Topology, protected: Iterable[str]) -> float:
    """The internal completeness when exactly these live, of a topology of whole operators."""
    held = set(protected)
    return internal_completeness(topology).of(n for n, task in enumerate(topology.tasks) if task.rpartition("/")[0] in held)


def least_budget(topology: Topology, wanted: float) -> int:
    """The smallest budget at which what has a replica keeps internal completeness when everything else fails.

    Raises HoldfastError with the best that can be promised where none does.
    """
    measure = internal_completeness(topology)
    qualities = [Frontier().plan(measure, budget).quality for budget in range(1, len(topology.operators) + 1)]
    for budget, quality in enumerate(qualities, 1):
        if quality >= wanted - 1e-9:
            return budget
    raise HoldfastError(
        f"--ic: a completeness of {wanted:g} cannot be promised; the best, with a replica of all, is {qualities[-1]:.4g}"
    )
