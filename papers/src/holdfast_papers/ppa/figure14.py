"""The paper's comparison of planners over random topologies (PPA section VI-C, Figure 14), with our planner added.

The paper gives pictures without numbers. It does not state the ranges of parallelism nor the defaults of what a panel does not
vary; ours are in SETTINGS. Its statements about the pictures are checked.

Algorithm 5 as printed returns no plan while the budget is below the number of operators, so the paper's curves cannot be its. They
are compared with `StructureAware(alone=True)`, which completes its first offers to MC-trees instead. Both are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.planning.ppa import Frontier, Greedy, StructureAware, output_fidelity
from holdfast_papers.finding import Finding
from holdfast_papers.ppa.generator import Ranges, generate
from holdfast_papers.ppa.literal_algorithm5 import LiteralAlgorithm5

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
PLANNERS = (Greedy(), LiteralAlgorithm5(), StructureAware(alone=True), Frontier())
GREEDY, LITERAL, AWARE, OURS = (planner.name for planner in PLANNERS)
NOISE = 0.01  # of a mean over the topologies

SETTINGS: Mapping[str, Mapping[str, Ranges]] = {
    "a": {"uniform": Ranges(zipf=0.0), "zipf 0.1": Ranges(zipf=0.1)},
    "b": {
        "1 to 10 tasks": Ranges(zipf=0.1, parallelism=(1, 10)),
        "1 to 20 tasks": Ranges(zipf=0.1, parallelism=(1, 20)),
        "1 to 40 tasks": Ranges(zipf=0.1, parallelism=(1, 40)),
    },
    "c": {"structured": Ranges(zipf=0.1, kind="structured"), "full": Ranges(zipf=0.1, kind="full")},
    "d": {"no joins": Ranges(zipf=0.1, joins=0.0), "50 % joins": Ranges(zipf=0.1, joins=0.5)},
}
TITLES = {"a": "skew of workloads", "b": "parallelism", "c": "kind of topology", "d": "share of joins"}


@dataclass(frozen=True, slots=True, order=True)
class Unit:
    """One topology of one setting: the smallest piece of work. Its result depends on nothing else."""

    panel: str
    setting: str
    number: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.panel}/{self.setting}/{self.seed}/{self.number}"


def units(seed: int, topologies: int) -> list[Unit]:
    """Return all work of the figure. Settings share seeds, so that a panel compares the same topologies.

    A setting that several panels have in common is listed once.
    """
    distinct = sorted({_first_use(ranges) for settings in SETTINGS.values() for ranges in settings.values()})
    return [Unit(panel, setting, number, seed) for number in range(topologies) for panel, setting in distinct]


def _first_use(ranges: Ranges) -> tuple[str, str]:
    """Return the first panel and setting with these ranges."""
    return next((p, s) for p, settings in SETTINGS.items() for s, own in settings.items() if own == ranges)


def measure_unit(unit: Unit) -> dict[str, Any]:
    """Return the output fidelity of each planner at each replication ratio, and the bound of ours."""
    ranges = SETTINGS[unit.panel][unit.setting]
    topology = generate(np.random.default_rng([unit.seed, unit.number]), ranges=ranges)
    measure = output_fidelity(topology)
    qualities: dict[str, list[float]] = {planner.name: [] for planner in PLANNERS}
    bounds = []
    for ratio in RATIOS:
        budget = round(ratio * len(topology.tasks))
        for planner in PLANNERS:
            plan = planner.plan(measure, budget)
            qualities[planner.name].append(plan.quality)
            if planner.name == OURS:
                bounds.append(plan.bound)
    return {"key": unit.key, "tasks": len(topology.tasks), "quality": qualities, "bound": bounds}


@dataclass(frozen=True, slots=True)
class Panel:
    """The records of one setting as arrays: a row per topology, a column per ratio."""

    quality: Mapping[str, np.ndarray]
    bound: np.ndarray

    def mean(self, planner: str) -> np.ndarray:
        return np.asarray(self.quality[planner].mean(axis=0))


def panels(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Panel]]:
    """Group records by panel and setting."""
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in sorted(records, key=lambda record: str(record["key"])):
        panel, setting, *_ = record["key"].split("/")
        rows.setdefault((panel, setting), []).append(record)
    return {
        panel: {
            setting: Panel(
                {name: np.array([r["quality"][name] for r in rows[_first_use(ranges)]]) for name in (GREEDY, LITERAL, AWARE, OURS)},
                np.array([r["bound"] for r in rows[_first_use(ranges)]]),
            )
            for setting, ranges in settings.items()
        }
        for panel, settings in SETTINGS.items()
    }


def findings(panel_of: Mapping[str, Mapping[str, Panel]]) -> list[Finding]:
    """Check the paper's statements about Figure 14, with our variant of structure-aware and as printed, and two of ours."""
    all_panels = [(f"{p}, {s}", panel) for p, settings in panel_of.items() for s, panel in settings.items()]
    literal = min(float((panel.mean(LITERAL) - panel.mean(GREEDY)).min()) for _, panel in all_panels)
    empty = [float(np.mean(np.concatenate([p.quality[LITERAL][:, at] for _, p in all_panels]) == 0.0)) for at in (0, 1)]
    behind = min(float((panel.mean(AWARE) - panel.mean(GREEDY)).min()) for _, panel in all_panels)
    low = [_advantage(panel, 0) for _, panel in all_panels]
    high = [_advantage(panel, -1) for _, panel in all_panels]
    times = max(_times(panel) for _, panel in all_panels)
    ahead = np.concatenate([(p.quality[OURS] - p.quality[AWARE]).ravel() for _, p in all_panels])
    gap = np.concatenate([(p.bound - p.quality[OURS]).ravel() for _, p in all_panels])
    apart = {s: float(np.mean(p.mean(AWARE) - p.mean(GREEDY))) for s, p in panel_of["c"].items()}
    return [
        Finding(
            "structure-aware is ahead of greedy in every setting and at every ratio",
            "outperforms in all combinations",
            f"smallest difference of means {behind:+.3f}",
            behind >= -NOISE,
        ),
        Finding(
            "Algorithm 5 as printed is ahead of greedy in every setting and at every ratio",
            "outperforms in all combinations",
            f"smallest difference of means {literal:+.3f}; no output from {empty[0]:.0%} of its plans at {RATIOS[0]}, "
            f"from {empty[1]:.0%} at {RATIOS[1]}",
            literal >= -NOISE,
        ),
        Finding(
            "the smaller the ratio, the more of structure-aware's fidelity greedy misses",
            "greater difference with smaller ratio",
            f"greedy misses {np.mean(low):.0%} of it at {RATIOS[0]}, {np.mean(high):.0%} at {RATIOS[-1]}",
            all(a > b for a, b in zip(low, high, strict=True)),
        ),
        Finding(
            "the advantage reaches an order of magnitude",
            "up to one order of magnitude",
            f"up to {times:.0f} times",
            times >= 10,
        ),
        _ordered(panel_of["a"], "skewed workloads give higher fidelity", "better with higher skewness"),
        _ordered(panel_of["b"], "more parallelism gives higher fidelity", "increases with the degrees"),
        _ordered(_backwards(panel_of["c"]), "structured beat full topologies", "generally higher"),
        Finding(
            "on full topologies the two are close",
            "their performances are close",
            f"mean difference {apart['full']:.3f} (full) against {apart['structured']:.3f} (structured)",
            apart["full"] < apart["structured"],
        ),
        _ordered(_backwards(panel_of["d"]), "joins lower fidelity", "decreases with more joins"),
        Finding(
            "ours is never below structure-aware",
            "(not in the paper)",
            f"smallest difference {ahead.min():+.4f}, mean {ahead.mean():+.4f}, greatest {ahead.max():+.4f}",
            float(ahead.min()) >= -1e-9,
        ),
        Finding(
            "most of our plans are proven best",
            "(not in the paper)",
            f"{np.mean(gap <= 1e-9):.0%} proven; mean gap {gap.mean():.4f}, greatest {gap.max():.4f}",
            float(np.mean(gap <= 1e-9)) > 0.5,
        ),
    ]


def table(panel_of: Mapping[str, Mapping[str, Panel]]) -> list[dict[str, Any]]:
    """Return means over the topologies: a row per panel, setting, planner and ratio."""
    return [
        {"panel": p, "setting": s, "planner": planner, "ratio": ratio, "of": round(float(value), 4)}
        for p, settings in panel_of.items()
        for s, panel in settings.items()
        for planner in (GREEDY, LITERAL, AWARE, OURS)
        for ratio, value in zip(RATIOS, panel.mean(planner), strict=True)
    ]


def draw(path: Path, panel: str, settings: Mapping[str, Panel]) -> None:
    """Draw one panel of the figure: fidelity against ratio, a line per planner and setting."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for (setting, one), line in zip(settings.items(), ("-", "--", ":"), strict=False):
        for planner, colour in zip((GREEDY, LITERAL, AWARE, OURS), ("C7", "C1", "C0", "C3"), strict=True):
            axes.plot(RATIOS, one.mean(planner), line, color=colour, label=f"{planner}, {setting}")
    axes.set_xlabel("replicas per task")
    axes.set_ylabel("output fidelity")
    axes.set_title(f"Figure 14({panel}): {TITLES[panel]}")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})


def _advantage(panel: Panel, at: int) -> float:
    """Return the share of structure-aware's fidelity that greedy misses."""
    aware, greedy = float(panel.mean(AWARE)[at]), float(panel.mean(GREEDY)[at])
    return (aware - greedy) / aware if aware else 0.0


def _times(panel: Panel) -> float:
    """Return structure-aware's largest multiple of greedy's fidelity, where greedy reaches at least 0.001."""
    aware, greedy = panel.mean(AWARE), panel.mean(GREEDY)
    return float(np.max(aware[greedy >= 0.001] / greedy[greedy >= 0.001], initial=1.0))


def _backwards(settings: Mapping[str, Panel]) -> dict[str, Panel]:
    return dict(reversed(list(settings.items())))


def _ordered(settings: Mapping[str, Panel], name: str, paper: str) -> Finding:
    """Check that structure-aware's mean fidelity rises from the first setting to the last."""
    means: Sequence[float] = [float(panel.mean(AWARE).mean()) for panel in settings.values()]
    ours = ", ".join(f"{setting} {mean:.3f}" for setting, mean in zip(settings, means, strict=True))
    return Finding(name, paper, ours, all(b >= a - NOISE / 2 for a, b in pairwise(means)) and means[-1] > means[0])
