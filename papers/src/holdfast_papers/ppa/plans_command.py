"""holdfast reproduce ppa-plans: compares planners over random topologies (PPA, Figure 14)."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from holdfast.errors import HoldfastError
from holdfast.planning import map_in_processes
from holdfast.terminal import progress_bar, say
from holdfast_papers.finding import Finding
from holdfast_papers.ppa.figure14 import PLANNERS, draw, findings, measure_unit, panels, table, units
from holdfast_papers.records import Record, Records, require_own_folder
from holdfast_papers.results import finish, result_options, show_findings
from holdfast_papers.spark_tasks import RunTasks, spark_runner

FEW = 20  # topologies below which a mean is not meaningful


@click.command("ppa-plans")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ppa-plans"),
    show_default=True,
    help="Directory for records, tables and pictures.",
)
@click.option("--topologies", type=int, default=100, show_default=True, help="Random topologies per setting.")
@click.option("--seed", type=int, default=14, show_default=True, help="Seed of all topologies, from 0.")
@click.option("--workers", type=int, default=2, show_default=True, help="Processes to work in.")
@click.option("--master", help="A Spark master to use instead of local processes.")
@result_options
def ppa_plans(out: Path, topologies: int, seed: int, workers: int, master: str | None, as_json: bool) -> None:
    """Compare the output fidelity of greedy, Algorithm 5 as printed, structure-aware and our planner (Figure 14 a to d).

    Run the same command again to continue an interrupted study.

    \b
    Example:
      holdfast reproduce ppa-plans --out ppa-plans --topologies 100
    """
    for name, value, least in (("--topologies", topologies, 1), ("--workers", workers, 1), ("--seed", seed, 0)):
        if value < least:
            raise HoldfastError(f"{name} must be at least {least}, got {value}")
    require_own_folder(out, ["records.jsonl"])
    record_file = Records(out, {"planners": [planner.name for planner in PLANNERS]})
    work = {unit.key: unit for unit in units(seed, topologies)}
    existing = sum(key in record_file for key in work)
    if existing:
        say(f"{existing} of {len(work)} records exist already")
    with spark_runner(master, name="holdfast-ppa-plans") as on_cluster, progress_bar("planning") as progress:
        run: RunTasks = on_cluster or partial(map_in_processes, workers=workers)
        records = record_file.fill(measure_unit, work, run=run if on_cluster or workers > 1 else None, progress=progress)
    report = _written(out, records, topologies=topologies, seed=seed)
    finish(report, as_json=as_json, show=lambda: show_findings(report))
    if topologies < FEW:
        say(f"{_tiny(topologies)}; give --topologies 100 for the study")
    say(f"tables and pictures are in {out}")


def _tiny(topologies: int) -> str:
    of = "1 topology" if topologies == 1 else f"{topologies} topologies"
    return f"a sample of {of} per setting is tiny: findings may hold or fail by chance"


def _written(out: Path, records: list[Record], *, topologies: int, seed: int) -> dict[str, Any]:
    """Write tables and pictures, and return the report."""
    panel_of = panels(records)
    checks: list[Finding] = findings(panel_of)
    rows = table(panel_of)
    for panel, settings in panel_of.items():
        draw(out / f"figure14{panel}.svg", panel, settings)
    with (out / "figure14.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    lines = ["| finding | paper | ours | holds |", "|---|---|---|---|"]
    lines += [f"| {c.name} | {c.paper} | {c.ours} | {'yes' if c.holds else 'no'} |" for c in checks]
    if topologies < FEW:
        lines += ["", _tiny(topologies)]
    (out / "findings.md").write_text("\n".join(lines) + "\n")
    report = {
        "figure": "PPA, Figure 14 a to d",
        "topologies": topologies,
        "tiny": topologies < FEW,
        "seed": seed,
        "findings": [asdict(check) for check in checks],
        "table": rows,
    }
    (out / "report.json").write_text(json.dumps(report, indent=2) + "\n")
    return report
