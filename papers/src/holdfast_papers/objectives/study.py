"""How well the planners' objectives predict the damage of correlated failures, and whose plans lose the least."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from random import Random
from statistics import fmean
from typing import Any

from scipy.stats import spearmanr

from holdfast.advise import Loss, is_larger_loss
from holdfast.app import Graph
from holdfast.assess import CaseView, OffsetView
from holdfast.documents import Topology
from holdfast.planning.ppa import Measure, internal_completeness, measured_criticality, output_fidelity
from holdfast_papers.finding import Finding

OBJECTIVES = ("criticality", "ic", "of", "alone")
PLANNERS = ("criticality", "measured", "of", "ic")
"""The objectives that make plans. Of equally good ones, the first is the default."""
ADVISED = "advised"
"""The better of the two plans from measured impacts, as `holdfast advise` finds it by trying both."""
DRAWS = 1000
"""Random draws after which no further sets are expected."""


@dataclass(frozen=True)
class Damage:
    """The damage of a failure, on average over the offsets: the quality impact (DEBS'11, Eq. 8), and the wrong output in outages.

    1 is as much wrong output as one outage has output.
    """

    impact: float
    wrong: float


@dataclass(frozen=True)
class FailureSet:
    """A set of operators that failed together: the loss that each objective predicted, and the measured damage."""

    failed: tuple[str, ...]
    foretold: Mapping[str, float]
    measured: Damage


@dataclass(frozen=True)
class PlanOutcome:
    """A plan by one objective, and the damage when everything without a replica fails at once."""

    budget: int
    objective: str
    protected: tuple[str, ...]
    lost: Damage


@dataclass(frozen=True)
class ApplicationStudy:
    """The results for one application: sets of operators that failed together, and plans."""

    sets: tuple[FailureSet, ...]
    plans: tuple[PlanOutcome, ...]


def read_study(document: Mapping[str, Any]) -> ApplicationStudy:
    """Return a study from plain values: the inverse of `asdict`."""
    sets = [FailureSet(tuple(each["failed"]), each["foretold"], Damage(**each["measured"])) for each in document["sets"]]
    plans = [
        PlanOutcome(each["budget"], each["objective"], tuple(each["protected"]), Damage(**each["lost"]))
        for each in document["plans"]
    ]
    return ApplicationStudy(tuple(sets), tuple(plans))


def damage(view: CaseView) -> Damage:
    """Return the damage that the trials of a case measured."""
    return Damage(fmean(offset.impact for offset in view.offsets), fmean(_wrong(view, offset) for offset in view.offsets))


def _wrong(view: CaseView, offset: OffsetView) -> float:
    """Return the differences of all sections after a fault, divided by the score of an outage's sections; 0 if that is 0."""
    outage = float(abs(offset.local_golden).mean()) * view.outage_sections
    return float(abs(offset.local_faulty - offset.local_golden).sum()) / outage if outage else 0.0


def effective_failures(graph: Graph, failed: Iterable[str]) -> tuple[str, ...]:
    """Return the operators of a set whose failure matters. One whose inputs have all failed or starve receives nothing anyway."""
    names, silent, effective = set(failed), set[str](), []
    for name in graph.order:
        feeds = graph.predecessors(name)
        starved = bool(feeds) and silent.issuperset(feeds)
        if name in names and not starved:
            effective.append(name)
        if starved or name in names:
            silent.add(name)
    return tuple(effective)


def failure_sets(graph: Graph, everything: Sequence[str], *, count: int, seed: int) -> list[tuple[str, ...]]:
    """Return up to `count` different random sets of at least two operators, reduced to the failures that matter."""
    rng = Random(seed)
    sets: dict[tuple[str, ...], None] = {}
    for _ in range(DRAWS):
        if len(sets) == count or len(everything) < 2:
            break
        sets[effective_failures(graph, rng.sample(list(everything), rng.randint(2, max(2, len(everything) // 2))))] = None
    return list(sets)


def predict_loss(topology: Topology, single: Mapping[str, Loss], failed: Sequence[str], *, measured: Damage) -> FailureSet:
    """Return the loss that each objective predicts for a failure: 1 minus the quality of the survivors.

    `alone` is the simplest prediction: the largest loss that one of the failed operators causes alone.
    """
    measures: list[Measure] = [output_fidelity(topology), internal_completeness(topology)]
    measures.append(measured_criticality(topology, {name: loss.mean for name, loss in single.items()}))
    alive = [topology.number[f"{name}/0"] for name in topology.order if name not in failed]
    predicted = {measure.name: 1.0 - measure.of(alive) for measure in measures}
    return FailureSet(tuple(failed), {**predicted, "alone": max(single[name].mean for name in failed)}, measured)


def agreement(sets: Sequence[FailureSet], by: str = "impact") -> dict[str, float]:
    """Return Spearman's rank correlation of each objective with the measured impact or wrong output; 0 for a constant one."""
    measured = _ranked([getattr(each.measured, by) for each in sets])
    correlations = {}
    for name in OBJECTIVES:
        predicted = _ranked([each.foretold[name] for each in sets])
        constant = len(set(predicted)) < 2 or len(set(measured)) < 2
        correlations[name] = 0.0 if constant else float(spearmanr(predicted, measured).statistic)
    return correlations


def _ranked(values: Sequence[float]) -> list[int]:
    """Return the rank of each value. Values that differ only by rounding share a rank."""
    levels: list[float] = []
    for value in sorted(values):
        if not levels or not isclose(value, levels[-1], rel_tol=1e-9, abs_tol=1e-12):
            levels.append(value)
    return [next(n for n, level in enumerate(levels) if isclose(value, level, rel_tol=1e-9, abs_tol=1e-12)) for value in values]


def worse(plans: Sequence[PlanOutcome], objective: str, by: str = "impact") -> list[str]:
    """Describe each budget at which the plan by an objective loses more than those by fidelity and completeness."""
    comparisons = []
    for budget, lost in _budgets(plans, by).items():
        ours, theirs = lost[objective], min(lost["of"], lost["ic"])
        if is_larger_loss(ours, theirs):
            comparisons.append(
                f"with {budget} protected the plan by {objective} loses {ours:.4g}, the better of the others {theirs:.4g}"
            )
    return comparisons


def shortfall(studies: Iterable[ApplicationStudy], by: str = "impact") -> dict[str, float]:
    """Return for each objective the mean loss of its plans beyond the best of the same budget.

    It is a share of the difference between the best and the worst plan; 0 if all lose the same.
    """
    short: dict[str, list[float]] = {name: [] for name in (ADVISED, *PLANNERS)}
    for study in studies:
        for lost in _budgets(study.plans, by).values():
            least, most = min(lost.values()), max(lost.values())
            for name, value in lost.items():
                short[name].append((value - least) / (most - least) if is_larger_loss(most, least) else 0.0)
    return {name: fmean(shares) if shares else 0.0 for name, shares in short.items()}


def chosen(studies: Sequence[ApplicationStudy]) -> str:
    """Return the objective whose plans are closest to the best. It is the default if plans cannot be tried."""
    short = shortfall(studies)
    return min(PLANNERS, key=lambda name: (round(short[name], 9), PLANNERS.index(name)))


def findings(studies: Mapping[str, ApplicationStudy]) -> list[Finding]:
    """Check what we expect of plans from measured criticality."""
    behind = [f"{name}: {text}" for name, study in studies.items() for text in worse(study.plans, ADVISED)]
    budgets = sum(len(_budgets(study.plans, "impact")) for study in studies.values())
    short = shortfall(studies.values())
    predicted = ", ".join(f"{name} {value:.2f}" for name, value in short.items())
    return [
        Finding(
            "the plan from measured criticality loses no more than plans by fidelity and completeness",
            "(not in a paper)",
            "; ".join(behind) or f"it loses more at none of {budgets} budgets of {len(studies)} applications",
            not behind,
        ),
        Finding(
            "plans from measured impacts are closest to the best plan",
            "(not in a paper)",
            f"short by {predicted} of the way from the best plan to the worst",
            min(short["criticality"], short["measured"]) <= min(short["of"], short["ic"]),
        ),
    ]


def _budgets(plans: Sequence[PlanOutcome], by: str) -> dict[int, dict[str, float]]:
    """Return the losses of every objective's plan by budget, and those of the better plan from measured impacts."""
    by_budget: dict[int, dict[str, float]] = {}
    for plan in plans:
        by_budget.setdefault(plan.budget, {})[plan.objective] = getattr(plan.lost, by)
    return {budget: {ADVISED: min(lost["measured"], lost["criticality"]), **lost} for budget, lost in by_budget.items()}
