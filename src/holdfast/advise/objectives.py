"""How well the planners' objectives foretell what correlated failures do to the output."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from scipy.stats import spearmanr

from holdfast.advise.advice import SAME
from holdfast.advise.loss import Loss
from holdfast.model.topology import Topology
from holdfast.plan.ppa import Measure, internal_completeness, measured_criticality, output_fidelity

OBJECTIVES = ("criticality", "ic", "of", "alone")


@dataclass(frozen=True)
class Foretold:
    """One set of operators that failed together: what each objective foretold, and what was measured."""

    failed: tuple[str, ...]
    foretold: Mapping[str, float]
    measured: float


@dataclass(frozen=True)
class Planned:
    """A plan by one objective, and the quality impact when everything that it leaves open fails at once."""

    budget: int
    objective: str
    protected: tuple[str, ...]
    lost: float


@dataclass(frozen=True)
class Studied:
    """What was seen of one application: sets of operators that failed together, and plans."""

    sets: tuple[Foretold, ...]
    plans: tuple[Planned, ...]


def worse(plans: Sequence[Planned]) -> list[str]:
    """Where neither plan from measured impacts is as good as the plans by fidelity and completeness of its budget, in words."""
    found = []
    for budget in sorted({plan.budget for plan in plans}):
        lost = {plan.objective: plan.lost for plan in plans if plan.budget == budget}
        ours = min(lost[name] for name in ("measured", "criticality") if name in lost)
        theirs = min(lost["of"], lost["ic"])
        if ours > theirs * (1 + SAME):
            found.append(f"with {budget} replicas the plans from measured impacts lose {ours:.4g}, the others {theirs:.4g}")
    return found


def failure_sets(everything: Sequence[str], *, count: int, seed: int) -> list[tuple[str, ...]]:
    """Different sets of at least two operators, of all sizes, drawn from a seed; in the order of `everything`."""
    rng = Random(seed)
    found: list[tuple[str, ...]] = []
    most = 2 ** len(everything) - len(everything) - 1
    while len(found) < min(count, most):
        size = rng.randint(2, len(everything))
        drawn = set(rng.sample(list(everything), size))
        chosen = tuple(name for name in everything if name in drawn)
        if chosen not in found:
            found.append(chosen)
    return found


def foretell(topology: Topology, single: Mapping[str, Loss], failed: Sequence[str], *, measured: float) -> Foretold:
    """What the objectives say of a failure, as a loss: 1 less the quality that they give to what survives.

    `alone` is the plainest guess: the greatest of the losses that the failed operators cause alone.
    """
    measures: list[Measure] = [output_fidelity(topology), internal_completeness(topology)]
    measures.append(measured_criticality(topology, {name: loss.mean for name, loss in single.items()}))
    alive = [topology.number[f"{name}/0"] for name in topology.order if name not in failed]
    said = {measure.name: 1.0 - measure.of(alive) for measure in measures}
    return Foretold(tuple(failed), {**said, "alone": max(single[name].mean for name in failed)}, measured)


def agreement(seen: Sequence[Foretold]) -> dict[str, float]:
    """Spearman's rank correlation of each objective with what was measured; 0 where an objective says the same of all."""
    found = {}
    for name in OBJECTIVES:
        said, measured = [each.foretold[name] for each in seen], [each.measured for each in seen]
        constant = len(set(said)) < 2 or len(set(measured)) < 2
        found[name] = 0.0 if constant else float(spearmanr(said, measured).statistic)
    return found
