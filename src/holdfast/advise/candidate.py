"""Plans to choose from: by what was measured, by output fidelity and by internal completeness, all of the same budget.

A unit of budget is a replica of a whole operator or source, all its tasks: an assessment tells operators apart, not their tasks.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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


def candidates(topology: Topology, impact: Mapping[str, float], budget: int) -> list[Candidate]:
    """The plans of a budget, one per objective.

    `impact`: what each costs when it fails alone. `measured` protects the costliest, `criticality` what keeps most of that
    flowing when everything else fails at once, `of` and `ic` do so for fidelity and completeness, which know nothing of impacts.
    """
    check_budget(topology, budget)
    costliest = sorted(topology.operators, key=lambda name: (-impact[name], name))[:budget]
    found = [Candidate("measured", tuple(sorted(costliest)))]
    measures: list[Measure] = [output_fidelity(topology), internal_completeness(topology)]
    if sum(impact.values()) > 0:
        measures.insert(0, measured_criticality(topology, impact))
    for measure in measures:
        plan = Frontier().plan(measure, budget)
        found.append(Candidate(measure.name, tuple(sorted(task.rpartition("/")[0] for task in plan.tasks))))
    return found


def check_budget(topology: Topology, budget: int) -> None:
    """Raise HoldfastError for a budget of nothing, or of more than there is to protect."""
    most = len(topology.operators)
    if not 1 <= budget <= most:
        raise HoldfastError(
            f"--budget: wanted 1 to {most} replicas (the application has {most} operators and sources), got {budget}"
            + ("; with a budget of nothing there is nothing to advise" if budget == 0 else "")
        )


def least_budget(topology: Topology, completeness: float) -> int:
    """The smallest budget at which what has a replica keeps internal completeness when everything else fails.

    Raises HoldfastError with the best that can be promised where none does.
    """
    measure = internal_completeness(topology)
    qualities = [Frontier().plan(measure, budget).quality for budget in range(1, len(topology.operators) + 1)]
    for budget, quality in enumerate(qualities, 1):
        if quality >= completeness - 1e-9:
            return budget
    raise HoldfastError(
        f"--ic: a completeness of {completeness:g} cannot be promised; the best, with a replica of all, is {qualities[-1]:.4g}"
    )
