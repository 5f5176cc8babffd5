"""A plot of internal completeness against cost: the cheapest strategy of each SLA as a line, the baselines as points."""

from __future__ import annotations

from pathlib import Path

from holdfast.documents.descriptor import Descriptor
from holdfast.planning.laar.baselines import BASELINES, baseline
from holdfast.planning.laar.completeness import violations
from holdfast.planning.laar.instance import Instance
from holdfast.planning.laar.strategy import Strategy
from holdfast.planning.ppa.budget_plot import save


def draw_costs(path: Path, descriptor: Descriptor, points: list[tuple[float, float]], *, seconds: float) -> None:
    """Draw the cheapest strategies (cost, IC) and the baselines. A baseline that runs a solver gets a tenth of `seconds`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    instance = Instance.of(descriptor)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label="best")
    for name, marker in zip(BASELINES, "sv^Dx" * len(BASELINES), strict=False):
        active = baseline(name, instance, seconds=seconds / 10)
        strategy = Strategy.of(instance, active, solver=name)
        label = f"{name}, overloads nodes" if any(violations(instance, active, sla=False)) else name
        axes.plot([strategy.cost], [strategy.internal_completeness], marker=marker, linestyle="", label=label)
    axes.set_xlabel("CPU seconds per billing period")
    axes.set_ylabel("internal completeness")
    axes.set_title(descriptor.application, parse_math=False)
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)
