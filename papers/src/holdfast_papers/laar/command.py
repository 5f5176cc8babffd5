"""holdfast reproduce laar: repeats LAAR's evaluation (section 5) on simulated clusters and compares the figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import FiniteRange
from holdfast.terminal import progress_bar, say
from holdfast_papers.results import finish, result_options, show_findings
from holdfast_papers.spark_tasks import RunTasks, spark_runner

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast_papers.records import Record, Records

TITLES = {
    "9 CPU time": "Figure 9, top: CPU time, best case",
    "9 tuples dropped": "Figure 9, bottom: tuples dropped, best case",
    "10 output rate at the peak": "Figure 10: output rate during High",
    "11 processed, pessimistic": "Figure 11, top: tuples processed, pessimistic failures",
    "11 processed, host crash": "Figure 11, bottom: tuples processed, one node down for 16 s of High",
}


PAPER = {
    "9 CPU time": "SR 1.61 to 1.90",
    "9 tuples dropped": "SR up to 33.6",
    "10 output rate at the peak": "SR 0.67 on average, at least 0.37; GRD 0.62 to 0.98; LAAR at least 0.91",
    "11 processed, pessimistic": "NR 0; GRD 0.35 to 0.95; L.5, L.6, L.7 at least 0.477, 0.572, 0.667",
    "11 processed, host crash": "L.5 like NR",
}
"""The values that section 5.3 states in its text. The means in the labels of its figures are not in the text."""


@click.command()
@click.option("--applications", type=click.IntRange(min=1), default=100, show_default=True, help="Applications to compare.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of applications, traces and crashes.")
@click.option("--seconds", type=FiniteRange(min=0.1), default=10.0, show_default=True, help="Time limit of each solver run.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes to work in.")
@click.option("--master", help="A Spark master to use instead of local processes.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("laar"),
    show_default=True,
    help="Folder for records and report.",
)
@result_options
def laar(applications: int, seed: int, seconds: float, workers: int, master: str | None, out: Path, as_json: bool) -> None:
    """Simulate six replication variants of generated applications in three failure scenarios: Figures 9 to 12 and the findings.

    Applications of 24 PEs on four nodes, a trace of five minutes, a third of it at the High rate. Where no strategy for
    an IC of 0.7 is found, another application is generated. Run the same command again to continue an interrupted study.

    \b
    Example:
      holdfast reproduce laar --applications 10 --out laar
    """
    from holdfast_papers.laar.variants_study import Task, play
    from holdfast_papers.records import Records

    settings = {"seed": seed, "seconds": seconds}
    strategies, records_folder = Records(out, settings, name="strategies"), Records(out, settings)
    with spark_runner(master, name="holdfast-laar") as run:
        planned = _planned(strategies, applications, seed=seed, seconds=seconds, workers=workers, run=run)
        tasks = {plans["key"]: (Task(seed, plans["application"], seconds), plans) for plans in planned}
        with progress_bar("simulating") as progress:
            records = records_folder.fill(play, tasks, workers=workers, run=run, progress=progress)
    document = _written(records, out, seed=seed, seconds=seconds)
    finish(document, as_json=as_json, show=lambda: _show(document, out))


def _show(document: Mapping[str, Any], out: Path) -> None:
    for row in document["means"]:
        click.echo("  ".join(f"{cell:>8}" if n else f"{cell:34}" for n, cell in enumerate(row)))
    show_findings(document, with_paper=True)
    say(f"report: {out / 'laar.html'}")


def _planned(
    records_folder: Records, applications: int, *, seed: int, seconds: float, workers: int, run: RunTasks | None
) -> list[Record]:
    """Return the strategies of the first applications for which all variants have one. Compute the missing ones."""
    from holdfast_papers.laar.variants_study import Task, plan

    drawn = applications
    with progress_bar("planning") as progress:
        while True:
            tasks = {str(n): Task(seed, n, seconds) for n in range(drawn)}
            documents = records_folder.fill(plan, tasks, workers=workers, run=run, progress=progress)
            complete = [plans for plans in documents if plans["strategies"]]
            if len(complete) >= applications:
                return complete[:applications]
            drawn += applications - len(complete)


def _written(records: Sequence[Record], out: Path, *, seed: int, seconds: float) -> dict[str, Any]:
    """Write laar.html and laar.json, and return the report in plain values."""
    import numpy as np

    from holdfast.documents import write_whole
    from holdfast.report import cards, heading, html_page, paragraph, table, verdicts
    from holdfast_papers.laar.variants_findings import figures, findings, summary
    from holdfast_papers.laar.variants_study import VARIANTS

    figure_of, checks, twelve = figures(records), findings(records), summary(records)
    means = [["mean, as a multiple of NR's", *VARIANTS, "the paper"]]
    means += [
        [name, *(f"{np.mean(figure_of[name][v]):.3f}" if figure_of[name][v] else "-" for v in VARIANTS), PAPER[name]]
        for name in TITLES
    ]
    medians = [
        [name, *(f"{np.median(figure_of[name][v]):.3f}" if figure_of[name][v] else "-" for v in VARIANTS)] for name in TITLES
    ]
    share = [[name, *(f"{twelve[v][name]:.3f}" for v in VARIANTS)] for name in ("dropped", "ic", "cost")]
    command = f"holdfast reproduce laar --seed {seed} --applications {len(records)} --seconds {seconds:g}"
    drawn = max(record["application"] for record in records) + 1
    optimal = sum(len(record["optimal"]) for record in records) / (3 * len(records))
    about = (
        f"{len(records)} applications of 24 PEs on 4 nodes, seed {seed}, drawn from {drawn}: for the others no strategy "
        f"with an IC of 0.7 was found in the time given. {optimal:.0%} of LAAR's strategies are proved to be the cheapest. "
        "Drops are those of primaries. Where NR drops less than a tuple an application has no ratio of drops; "
        f"{len(figure_of['9 tuples dropped']['NR'])} have one. Made by: {command}"
    )
    plots = {name: _boxes(figure_of[name], title) for name, title in TITLES.items() if figure_of[name]["NR"]} | {
        "12 summary": _bars(twelve)
    }
    parts = [
        paragraph(about),
        heading("Findings"),
        verdicts([(f.name, f.holds, f"{f.ours}. Paper: {f.paper}.") for f in checks]),
        heading("Figures 9 to 11: means"),
        table(means[0], means[1:], words=["the paper"]),
        heading("Figures 9 to 11: medians"),
        table(["median, as a multiple of NR's", *VARIANTS], medians),
        heading("Figure 12: means as shares of SR's"),
        table(["", *VARIANTS], share),
        heading("Pictures"),
        cards(list(plots.values())),
    ]
    document = {
        "command": command,
        "seed": seed,
        "applications": len(records),
        "drawn": drawn,
        "optimal": optimal,
        "means": means,
        "medians": medians,
        "figure_12": twelve,
        "findings": [asdict(f) for f in checks],
    }
    write_whole(out / "laar.json", json.dumps(document, indent=2))
    write_whole(out / "laar.html", html_page("Adaptive replication on simulated clusters (LAAR, section 5)", parts))
    return document


def _boxes(population: Mapping[str, Sequence[float]], title: str) -> str:
    """Draw a box plot per variant, labelled with the mean."""
    from holdfast.report import INK, SERIES, draw_svg

    def draw(axes: Axes) -> None:
        names = [f"{name}\n{sum(values) / len(values):.2f}" for name, values in population.items()]
        colour = {"color": INK}
        axes.boxplot(
            [list(values) for values in population.values()],
            tick_labels=names,
            showmeans=True,
            boxprops=colour,
            whiskerprops=colour,
            capprops=colour,
            flierprops={"markeredgecolor": INK, "markersize": 3},
            medianprops={"color": SERIES[1]},
            meanprops={"markerfacecolor": SERIES[0], "markeredgecolor": SERIES[0]},
        )
        axes.set(title=title, ylabel="multiple of NR's")

    return draw_svg(draw, label=title)


def _bars(summary: Mapping[str, Mapping[str, float]]) -> str:
    from holdfast.report import SERIES, draw_svg

    title = "Figure 12: means as shares of SR's"

    def draw(axes: Axes) -> None:
        for n, figure in enumerate(("dropped", "ic", "cost")):
            at = [x + 0.27 * (n - 1) for x in range(len(summary))]
            axes.bar(at, [row[figure] for row in summary.values()], width=0.25, color=SERIES[n], label=figure)
        axes.set_xticks(range(len(summary)), list(summary))
        axes.set(title=title)
        axes.legend()

    return draw_svg(draw, label=title)
