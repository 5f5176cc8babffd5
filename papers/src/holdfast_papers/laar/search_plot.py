"""Draws Figures 4, 5 and 6 of the LAAR paper from our runs."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from holdfast.planning.laar import Outcome
from holdfast_papers.laar.ftsearch_kernel import PRUNINGS
from holdfast_papers.laar.search_study import PAPER, Run, first_solutions, outcomes, prunings


def draw(runs: Sequence[Run], directory: Path) -> list[Path]:
    """Draw all three figures as PNG and SVG, and return the paths."""
    figures = {"figure4": _figure_4(runs), "figure5": _figure_5(runs), "figure6": _figure_6(runs)}
    paths = []
    for name, figure in figures.items():
        FigureCanvasAgg(figure)
        for suffix, metadata in ((".png", None), (".svg", {"Date": None})):
            path = directory / f"{name}{suffix}"
            figure.savefig(path, metadata=metadata)
            paths.append(path)
    return paths


def _figure_4(runs: Sequence[Run]) -> Figure:
    shares = outcomes(runs)
    solvers = sorted({solver for solver, _ in shares})
    figure = Figure(figsize=(4 * len(solvers), 3.5), layout="constrained")
    for n, solver in enumerate(solvers):
        axes = figure.add_subplot(1, len(solvers), n + 1)
        slas = [sla for name, sla in shares if name == solver]
        below = [0.0] * len(slas)
        for outcome in Outcome:
            heights = [shares[solver, sla][outcome.value] for sla in slas]
            axes.bar([f"{sla:g}" for sla in slas], heights, bottom=below, label=outcome.value)
            below = [low + high for low, high in zip(below, heights, strict=True)]
        axes.set_title(solver)
        axes.set_xlabel("IC constraint")
        axes.set_ylim(0, 1)
    figure.axes[0].set_ylabel("share of applications")
    figure.axes[-1].legend(loc="lower left")
    return figure


def _figure_5(runs: Sequence[Run]) -> Figure:
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    solvers = sorted({run.solver for run in runs if run.first})
    panels = (("cost", "first solution's cost / optimum", PAPER["first_cost"]), ("time", "time ratio", PAPER["first_time"]))
    for n, (name, label, paper) in enumerate(panels):
        axes = figure.add_subplot(1, 2, n + 1)
        for solver in solvers:
            ratios = getattr(first_solutions([run for run in runs if run.solver == solver]), name)
            if ratios:
                axes.hist(ratios, bins=30, histtype="step", label=solver)
        axes.axvline(paper, color="black", linestyle=":", label="the paper's mean")
        axes.set_xlabel(label)
        axes.legend()
    return figure


def _figure_6(runs: Sequence[Run]) -> Figure:
    figure = Figure(figsize=(8, 3.5), layout="constrained")
    solvers = sorted({run.solver for run in runs if run.prunings})
    for n, label in enumerate(("share of values pruned", "mean height of branches pruned")):
        axes = figure.add_subplot(1, 2, n + 1)
        for m, solver in enumerate(solvers):
            cuts = prunings([run for run in runs if run.solver == solver])
            positions = [at + 0.4 * m for at in range(len(PRUNINGS))]
            axes.bar(positions, [cuts[rule][n] for rule in PRUNINGS], width=0.4, label=solver)
        axes.set_xticks([at + 0.2 for at in range(len(PRUNINGS))], PRUNINGS)
        axes.set_ylabel(label)
        if solvers:
            axes.legend()
    return figure
