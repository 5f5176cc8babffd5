"""A plot of quality against budget for several planners."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.planning.ppa.explanation import OBJECTIVES
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.planner import Plan, Planner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_BUDGETS = 25
FORMATS = (".svg", ".png", ".pdf")


def budgets(tasks: int, *, most: int = MOST_BUDGETS) -> list[int]:
    """Return at most `most` evenly spaced budgets from 0 to all tasks.

    >>> budgets(6, most=4)
    [0, 2, 4, 6]
    """
    steps = min(most - 1, tasks)
    return sorted({round(tasks * i / steps) for i in range(steps + 1)}) if steps else [0]


def curves(measure: Measure, planners: Sequence[Planner]) -> dict[str, list[Plan]]:
    """Return the plans of each planner over the budgets. A planner's line ends at the first budget that it refuses."""
    lines: dict[str, list[Plan]] = {}
    for planner in planners:
        plans = lines.setdefault(planner.name, [])
        for budget in budgets(len(measure.weights)):
            try:
                plans.append(planner.plan(measure, budget))
            except HoldfastError:  # too large for this planner
                break
    return lines


def draw(path: Path, measure: Measure, plans: Mapping[str, Sequence[Plan]]) -> None:
    """Draw quality against budget, one line per planner, and shade what no plan can reach."""
    check_path(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for n, ((name, line), marker) in enumerate(zip(plans.items(), "osv^Dx*+" * len(plans), strict=False)):
        if line:
            width = max(1.0, 4.0 - n)  # equal lines overlap, so later ones are thinner
            axes.plot(
                [p.budget for p in line],
                [p.quality for p in line],
                marker=marker,
                markersize=3 + width,
                linewidth=width,
                label=name,
            )
    bounded = [p for line in plans.values() for p in line if p.bound < 1.0 and p.planner == "frontier"]
    if bounded:
        bounded.sort(key=lambda p: p.budget)
        axes.fill_between(
            [p.budget for p in bounded], [p.bound for p in bounded], 1, alpha=0.12, color="grey", label="out of reach"
        )
    axes.set_xlabel("replicas")
    axes.set_ylabel(OBJECTIVES[measure.name])
    axes.set_title(measure.topology.topology, parse_math=False)  # a $ in a name is not maths
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write the picture. Characters that the font lacks become boxes, without a warning."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def check_path(path: Path) -> None:
    """Raise HoldfastError unless the path's suffix names a supported picture format."""
    if path.suffix not in FORMATS:
        raise HoldfastError(f"picture '{path}' wants a suffix of {', '.join(FORMATS)}; got '{path.suffix}'")
