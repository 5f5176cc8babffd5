"""How well the planners' objectives foretell what correlated failures do to the output, and whose plans leave the most of it."""

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
"""Who makes plans. Of those that are as good as each other the first is the default."""
ADVISED = "advised"
"""What `holdfast advise` does with the plans from measured impacts: it lets what each leaves open fail, and takes the better."""
DRAWS = 1000
"""How often a set is drawn before it is taken that there are no others."""


@dataclass(frozen=True)
class Damage:
    """What a failure did to the output, on average over the offsets: the quality impact (DEBS'11, Eq. 8), and how much of the
    output was wrong, in outages: 1 is as much as an outage's worth of it."""

    impact: float
    wrong: float


@dataclass(frozen=True)
class Foretold:
    """One set of operators that failed together: what each objective foretold, and what was measured."""

    failed: tuple[str, ...]
    foretold: Mapping[str, float]
    measured: Damage


@dataclass(frozen=True)
class Planned:
    """A plan by one objective, and the damage when everything that it leaves open fails at once."""

    budget: int
    objective: str
    protected: tuple[str, ...]
    lost: Damage


@dataclass(frozen=True)
class Studied:
    """What was seen of one application: sets of operators that failed together, and plans."""

    sets: tuple[Foretold, ...]
    plans: tuple[Planned, ...]


def studied_from(document: Mapping[str, Any]) -> Studied:
    """What was seen of an application, from plain values: the inverse of `asdict`."""
    sets = [Foretold(tuple(each["failed"]), each["foretold"], Damage(**each["measured"])) for each in document["sets"]]
    plans = [
        Planned(each["budget"], each["objective"], tuple(each["protected"]), Damage(**each["lost"])) for each in document["plans"]
    ]
    return Studied(tuple(sets), tuple(plans))


def damage(view: CaseView) -> Damage:
    """What the trials of one case show."""
    return Damage(fmean(offset.impact for offset in view.offsets), fmean(_wrong(view, offset) for offset in view.offsets))


def _wrong(view: CaseView, offset: OffsetView) -> float:
    """The differences of all sections after a fault, over what an outage's sections score; 0 where nothing scores."""
    outage = float(abs(offset.local_golden).mean()) * view.outage_sections
    return float(abs(offset.local_faulty - offset.local_golden).sum()) / outage if outage else 0.0


def felt(graph: Graph, failed: Iterable[str]) -> tuple[str, ...]:
    """Those of a set whose failure is felt: what gets nothing anyway, because all that feeds it has failed or gets nothing, may
    fail as well."""
    names, silent, found = set(failed), set[str](), []
    for name in graph.order:
        feeds = graph.predecessors(name)
        starved = bool(feeds) and silent.issuperset(feeds)
        if name in names and not starved:
            found.append(name)
        if starved or name in names:
            silent.add(name)
    return tuple(found)


def failure_sets(graph: Graph, everything: Sequence[str], *, count: int, seed: int) -> list[tuple[str, ...]]:
    """What is felt of sets of at least two operators, drawn from a seed: as many different ones as there are, up to `count`."""
    rng = Random(seed)
    found: dict[tuple[str, ...], None] = {}
    for _ in range(DRAWS):
        if len(found) == count or len(everything) < 2:
            break
        found[felt(graph, rng.sample(list(everything), rng.randint(2, max(2, len(everything) // 2))))] = None
    return list(found)


def foretell(topology: Topology, single: Mapping[str, Loss], failed: Sequence[str], *, measured: Damage) -> Foretold:
    """What the objectives say of a failure, as a loss: 1 less the quality that they give to what survives.

    `alone` is the plainest guess: the greatest of the losses that the failed operators cause alone.
    """
    measures: list[Measure] = [output_fidelity(topology), internal_completeness(topology)]
    measures.append(measured_criticality(topology, {name: loss.mean for name, loss in single.items()}))
    alive = [topology.number[f"{name}/0"] for name in topology.order if name not in failed]
    said = {measure.name: 1.0 - measure.of(alive) for measure in measures}
    return Foretold(tuple(failed), {**said, "alone": max(single[name].mean for name in failed)}, measured)


def agreement(seen: Sequence[Foretold], by: str = "impact") -> dict[str, float]:
    """Spearman's rank correlation of each objective with what was measured, by its impact or by how much was wrong; 0 where an
    objective says the same of all."""
    measured = _ranked([getattr(each.measured, by) for each in seen])
    found = {}
    for name in OBJECTIVES:
        said = _ranked([each.foretold[name] for each in seen])
        constant = len(set(said)) < 2 or len(set(measured)) < 2
        found[name] = 0.0 if constant else float(spearmanr(said, measured).statistic)
    return found


def _ranked(values: Sequence[float]) -> list[int]:
    """The place of each value among them; those that only rounding tells apart share one."""
    levels: list[float] = []
    for value in sorted(values):
        if not levels or not isclose(value, levels[-1], rel_tol=1e-9, abs_tol=1e-12):
            levels.append(value)
    return [next(n for n, level in enumerate(levels) if isclose(value, level, rel_tol=1e-9, abs_tol=1e-12)) for value in values]


def worse(plans: Sequence[Planned], objective: str, by: str = "impact") -> list[str]:
    """Where the plan by an objective loses more than those by fidelity and completeness of the same budget, in words."""
    found = []
    for budget, lost in _budgets(plans, by).items():
        ours, theirs = lost[objective], min(lost["of"], lost["ic"])
        if is_larger_loss(ours, theirs):
            found.append(f"with {budget} protected the plan by {objective} loses {ours:.4g}, the better of the others {theirs:.4g}")
    return found


def shortfall(studied: Iterable[Studied], by: str = "impact") -> dict[str, float]:
    """For each objective how much more its plans lose than the best of the same budget, on average, as a share of what lies
    between the best and the worst; 0 where all lose the same."""
    short: dict[str, list[float]] = {name: [] for name in (ADVISED, *PLANNERS)}
    for study in studied:
        for lost in _budgets(study.plans, by).values():
            least, most = min(lost.values()), max(lost.values())
            for name, value in lost.items():
                short[name].append((value - least) / (most - least) if is_larger_loss(most, least) else 0.0)
    return {name: fmean(shares) if shares else 0.0 for name, shares in short.items()}


def chosen(studied: Sequence[Studied]) -> str:
    """The objective whose plans fall least short of the best, where a plan cannot be tried before it is taken."""
    short = shortfall(studied)
    return min(PLANNERS, key=lambda name: (round(short[name], 9), PLANNERS.index(name)))


def findings(studied: Mapping[str, Studied]) -> list[Finding]:
    """What is wanted of plans from measured criticality, held against what was seen."""
    behind = [f"{name}: {text}" for name, study in studied.items() for text in worse(study.plans, ADVISED)]
    budgets = sum(len(_budgets(study.plans, "impact")) for study in studied.values())
    short = shortfall(studied.values())
    said = ", ".join(f"{name} {value:.2f}" for name, value in short.items())
    return [
        Finding(
            "the plan from measured criticality loses no more than those by fidelity and completeness",
            "(not in a paper)",
            "; ".join(behind) or f"it loses more at none of {budgets} budgets of {len(studied)} applications",
            not behind,
        ),
        Finding(
            "of all objectives those from measurement fall least short of the best plan",
            "(not in a paper)",
            f"short by {said} of the way from the best plan to the worst",
            min(short["criticality"], short["measured"]) <= min(short["of"], short["ic"]),
        ),
    ]


def _budgets(plans: Sequence[Planned], by: str) -> dict[int, dict[str, float]]:
    """What every objective's plan loses, budget by budget; and the better of the plans from measured impacts."""
    found: dict[int, dict[str, float]] = {}
    for plan in plans:
        found.setdefault(plan.budget, {})[plan.objective] = getattr(plan.lost, by)
    return {budget: {ADVISED: min(lost["measured"], lost["criticality"]), **lost} for budget, lost in found.items()}
