"""holdfast reproduce ppa: repeats PPA's evaluation (sections VI-A and VI-B) and compares the findings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from holdfast.app import example_path
from holdfast.terminal import progress_bar, say
from holdfast_papers.ppa.runs_command import Step, real_runs, tree_runs
from holdfast_papers.results import finish, result_options, show_findings

PARTS = ("simulated", "accuracy", "runs", "tree")


@click.command()
@click.option(
    "--part",
    type=click.Choice([*PARTS, "all"]),
    default="all",
    show_default=True,
    help="simulated: recovery at the paper's scale (Figures 7 to 10). accuracy: tentative output on Spark while tasks have failed "
    "(Figures 12 and 13). runs: recovery and checkpoints of real processes on Spark (Figures 7 to 9, smaller). "
    "tree: a tree of parallel tasks whose node is killed, with tentative output, under three plans (Figure 10).",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of traces and failure times.")
@click.option(
    "--repetitions",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Simulated failures of each kind, and runs of each plan of the tree.",
)
@click.option("--events", type=click.IntRange(min=20_000), default=200_000, show_default=True, help="Rows of each trace on Spark.")
@click.option("--quick", is_flag=True, help="Recovery of real processes at one rate and window only.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes that simulate.")
@click.option(
    "--master", default="local[*]", show_default=True, help="Spark master for part accuracy; it must be able to read --out."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ppa"),
    show_default=True,
    help="Folder for records and report.",
)
@result_options
def ppa(
    part: str, seed: int, repetitions: int, events: int, quick: bool, workers: int, master: str, out: Path, as_json: bool
) -> None:
    """Figures 7 to 10, 12 and 13: how long recovery takes, what checkpoints cost, and how accurate tentative output is.

    Simulated: the topology of Figure 6 at the paper's rates, on 30 nodes. On Spark: top pages and traffic incidents over generated
    traces, with every task outside a plan failed; three windowed PEs whose replicas are killed one at a time and all at once; and
    PEs that are checkpointed at several intervals. Run the same command again to continue an interrupted study.

    \b
    Example:
      holdfast reproduce ppa --out ppa
      holdfast reproduce ppa --part accuracy --events 100000 --out ppa
    """
    document: dict[str, Any] = {
        "command": f"holdfast reproduce ppa --part {part} --seed {seed} --repetitions {repetitions} --events {events}"
        + (" --quick" if quick else ""),
        "seed": seed,
        "findings": [],
    }
    report_parts: list[str] = []
    steps = {
        "simulated": lambda: _simulated(seed, repetitions, out, workers=workers),
        "accuracy": lambda: _accuracy(seed, events, out, master=master),
        "runs": lambda: real_runs(out, varied=not quick),
        "tree": lambda: tree_runs(seed, 1 if quick else repetitions, out),
    }
    for name in PARTS if part == "all" else (part,):
        figures, findings_of_part, parts = steps[name]()
        document |= figures
        document["findings"] += [asdict(check) for check in findings_of_part]
        report_parts += parts
    _write(out, document, report_parts)
    finish(document, as_json=as_json, show=lambda: _show(document, out))


def _show(document: Mapping[str, Any], out: Path) -> None:
    show_findings(document, with_paper=True)
    say(f"report: {out / 'ppa.html'}")


def _simulated(seed: int, repetitions: int, out: Path, *, workers: int) -> Step:
    """Simulate section VI-A at the paper's scale."""
    from holdfast_papers.ppa.recovery_simulation import OPERATORS, cells, measure_cell, study
    from holdfast_papers.ppa.recovery_simulation_findings import findings
    from holdfast_papers.records import Records

    records = Records(out / "simulated", {"seed": seed, "repetitions": repetitions, "operators": list(OPERATORS)})
    with progress_bar("simulating") as progress:
        rows_of_cells = records.fill(
            measure_cell, {cell.key: cell for cell in cells(seed, repetitions)}, workers=workers, progress=progress
        )
    figures = study(rows_of_cells)
    return {"repetitions": repetitions, **figures}, findings(figures), _recovery_sections(figures)


def _accuracy(seed: int, events: int, out: Path, *, master: str) -> Step:
    """Run section VI-B on Spark."""
    from holdfast.engine import open_session
    from holdfast_papers.ppa.tentative_findings import findings
    from holdfast_papers.ppa.tentative_study import QUERIES, plans, prepare
    from holdfast_papers.records import Records

    records = Records(out / "accuracy", {"seed": seed, "events": events})
    if any(f"{query.name}/done" not in records for query in QUERIES):
        spark = open_session(master, name="holdfast reproduce ppa", memory="2g")
        try:
            for query in QUERIES:
                if f"{query.name}/done" in records:
                    continue
                with tempfile.TemporaryDirectory(prefix="trace-", dir=out.resolve()) as folder:
                    trace = Path(folder) / ("pages.parquet" if query.name == "Q1" else "traffic")
                    query.write_trace(trace, events=events, seed=seed)
                    say(f"{query.name}: {query.example} over {events:,} rows ...")
                    trial = prepare(spark, query, example_path(query.example), trace, scratch=Path(folder))
                    plans_to_try = list(plans(query, trial.topology))
                    accuracy_of: dict[frozenset[str], float] = {}
                    with progress_bar(f"{query.name}: plans") as progress:
                        for number, plan in enumerate(plans_to_try, 1):
                            progress(number, len(plans_to_try))
                            alive = frozenset(plan.tasks)
                            if plan.key in records:
                                accuracy_of[alive] = records[plan.key]["accuracy"]
                            elif alive not in accuracy_of:
                                accuracy_of[alive] = trial.accuracy(sorted(set(trial.topology.tasks) - alive))
                            if plan.key not in records:
                                records.add({"key": plan.key, **_plain(plan), "accuracy": accuracy_of[alive]})
                    keys = [plan.key for plan in plans_to_try]
                    records.add({"key": f"{query.name}/done", "plans": keys, "tasks": len(trial.topology.tasks)})
                    spark.catalog.clearCache()
        finally:
            spark.stop()
    rows = [records[key] for query in QUERIES for key in records[f"{query.name}/done"]["plans"]]
    return {"events": events, "accuracy": rows}, findings(rows), _accuracy_sections(rows)


def _plain(plan: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(plan).items() if name != "key"}


def _write(out: Path, document: Mapping[str, Any], report_parts: Sequence[str]) -> None:
    """Write ppa.html and ppa.json."""
    from holdfast.documents import write_whole
    from holdfast.report import heading, html_page, paragraph, verdicts

    parts = [
        paragraph(f"Made by: {document['command']}."),
        heading("Findings"),
        verdicts([(c["name"], c["holds"], f"{c['ours']}. Paper: {c['paper']}.") for c in document["findings"]]),
        *report_parts,
    ]
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "ppa.json", json.dumps(document, indent=2))
    write_whole(out / "ppa.html", html_page("Recovery and tentative output (PPA, section VI)", parts))


def _recovery_sections(document: Mapping[str, Any]) -> list[str]:
    from holdfast.report import cards, heading, line_plot, paragraph, table

    def rows_of_cells(figure: str, window_s: float) -> list[tuple[str, list[float], list[float]]]:
        rows = [row for row in document["recovery"] if row["window_s"] == window_s]
        names = list(dict.fromkeys(row["technique"] for row in rows))
        return [
            (name, [r["rate"] for r in rows if r["technique"] == name], [r[figure] for r in rows if r["technique"] == name])
            for name in names
        ]

    rate, latency = "tuples per second and source task", "recovery latency (s)"
    plots = [
        line_plot(rows_of_cells(figure, window_s), x=rate, y=latency, title=f"{title}, window {window_s:g} s", level=None)
        for title, figure in (("Figure 7: one node", "single_s"), ("Figure 8: all nodes", "correlated_s"))
        for window_s in (10.0, 30.0)
    ]
    costs = document["checkpoint_cost"]
    shares = [
        (
            f"{rate:g} tuples/s",
            [row["checkpoint_s"] for row in costs if row["rate"] == rate],
            [row["share"] for row in costs if row["rate"] == rate],
        )
        for rate in dict.fromkeys(row["rate"] for row in costs)
    ]
    plots.append(line_plot(shares, x="checkpoint interval (s)", y="CPU time, share of processing", title="Figure 9", level=None))
    names = list(dict.fromkeys(row["plan"] for row in document["partial"]))
    figure_10 = [
        (
            name,
            [row["rate"] for row in document["partial"] if row["plan"] == name],
            [row["latency_s"] for row in document["partial"] if row["plan"] == name],
        )
        for name in names
    ]
    plots.append(line_plot(figure_10, x=rate, y=latency, title="Figure 10: all nodes, window 30 s", level=None))
    return [
        heading("Figures 7 and 8: recovery latency, simulated"),
        paragraph(
            "A PE per task, each on a node of its own that is half busy at 2,000 tuples a second; writing or loading a tuple "
            "of state takes a tenth of processing it. The paper states neither, so only the order of techniques is compared."
        ),
        table(
            ("technique", "rate", "window (s)", "one node (s)", "all nodes (s)"),
            [
                (r["technique"], f"{r['rate']:g}", f"{r['window_s']:g}", f"{r['single_s']:.2f}", f"{r['correlated_s']:.2f}")
                for r in document["recovery"]
            ],
        ),
        heading("Figure 9: CPU time of checkpoints, of that of processing, window 30 s, simulated"),
        table(
            ("rate", "checkpoint interval (s)", "share"),
            [(f"{row['rate']:g}", f"{row['checkpoint_s']:g}", f"{row['share']:.3f}") for row in costs],
        ),
        heading("Figure 10: a correlated failure under partially active plans, window 30 s, simulated"),
        table(
            ("plan", "rate", "latency (s)"),
            [(row["plan"], f"{row['rate']:g}", f"{row['latency_s']:.2f}") for row in document["partial"]],
        ),
        cards(plots),
    ]


def _accuracy_sections(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    from holdfast.report import cards, heading, line_plot, table

    def line(name: str, figure: str, **plans_to_try: str) -> tuple[str, list[float], list[float]]:
        figures = [row for row in rows if all(row[key] == value for key, value in plans_to_try.items())]
        return name, [row["ratio"] for row in figures], [row[figure] for row in figures]

    plots = []
    for query in dict.fromkeys(row["query"] for row in rows):
        sa = {"query": query, "planner": "structure-aware"}
        twelve = [
            line("OF", "fidelity", objective="OF", **sa),
            line("accuracy of OF's plans", "accuracy", objective="OF", **sa),
            line("IC", "completeness", objective="IC", **sa),
            line("accuracy of IC's plans", "accuracy", objective="IC", **sa),
        ]
        planners = list(dict.fromkeys(row["planner"] for row in rows))
        thirteen = [line(planner, "accuracy", query=query, planner=planner, objective="OF") for planner in planners]
        plots.append(line_plot(twelve, x="share of tasks replicated", y="share", title=f"Figure 12: {query}", level=None))
        plots.append(line_plot(thirteen, x="share of tasks replicated", y="accuracy", title=f"Figure 13: {query}", level=None))
    return [
        heading("Figures 12 and 13: accuracy of tentative output, on Spark"),
        table(
            ("query", "objective", "planner", "ratio", "OF", "IC", "accuracy"),
            [
                (
                    r["query"],
                    r["objective"],
                    r["planner"],
                    f"{r['ratio']:g}",
                    *(f"{r[f]:.3f}" for f in ("fidelity", "completeness", "accuracy")),
                )
                for r in rows
            ],
        ),
        cards(plots),
    ]
