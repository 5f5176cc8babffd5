"""The report of a simulation: an HTML page, its figures as JSON, and the values of every interval as CSV."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from holdfast.documents import write_whole
from holdfast.report import FAINT, SERIES, cards, draw_svg, heading, html_page, paragraph, table, verdicts
from holdfast_papers.simulate import SimulationOutcome
from holdfast_papers.simulate.state import Floats

SHOWN = 40
"""Rows of a table on the page; the files contain all rows."""


def write_simulation(out: Path, outcome: SimulationOutcome, document: dict[str, Any]) -> None:
    """Write simulation.html, simulation.json, and the values of every interval in intervals.csv (PEs) and nodes.csv."""
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "simulation.json", json.dumps(document, indent=2))
    write_whole(out / "simulation.html", _page(outcome, document))
    ledger = outcome.ledger
    dropped = np.diff(ledger.dropped, axis=0, prepend=0.0)  # the ledger holds sums since the start
    columns = (ledger.arrived, ledger.processed, ledger.output, ledger.missed, dropped, ledger.queued)
    _write_table(
        out / "intervals.csv", ("pe", "in", "processed", "out", "missed", "dropped", "queued"), outcome, outcome.pes, columns
    )
    _write_table(out / "nodes.csv", ("node", "cpu_s"), outcome, tuple(outcome.deployment.descriptor.nodes), (ledger.cpu,))


def _write_table(
    path: Path, head: Sequence[str], outcome: SimulationOutcome, names: Sequence[str], columns: Sequence[Floats]
) -> None:
    """Write a line for every interval and name, with the time at which the interval begins."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("time_s", *head))
        for n in range(len(columns[0])):
            for i, name in enumerate(names):
                writer.writerow((f"{n * outcome.interval_s:.12g}", name, *(f"{column[n, i]:.6g}" for column in columns)))


def _page(outcome: SimulationOutcome, document: dict[str, Any]) -> str:
    columns = ("PE", "in", "processed", "out", "missed", "dropped by replicas", "queued at the end")
    keys = ("in", "processed", "out", "missed", "dropped", "queued")
    parts = [
        paragraph(
            f"{document['seconds']:g} simulated seconds under strategy {document['strategy']}, seed {document['seed']}: internal "
            f"completeness {document['internal_completeness']:.4f}, {document['cpu_s']:,.1f} CPU seconds. Made by: "
            f"{document['command']}"
        ),
        heading("Verdicts"),
        verdicts([(v["name"], v["holds"], v["reason"]) for v in document["verdicts"]]),
        heading("Over time"),
        cards([_output_plot(outcome), _cpu_plot(outcome)]),
        heading("PEs"),
        table(columns, [(row["pe"], *(f"{row[key]:,.0f}" for key in keys)) for row in document["pes"][:SHOWN]]),
        heading("Nodes"),
        table(
            ("node", "CPU seconds", "busy"),
            [(row["node"], f"{row['cpu_s']:,.1f}", f"{row['busy']:.0%}") for row in document["nodes"][:SHOWN]],
        ),
        *(
            [
                heading("Recoveries"),
                table(
                    ("PE", "by", "failed at (s)", "noticed at (s)", "latency (s)"),
                    [
                        (r["pe"], r["by"], f"{r['failed_s']:g}", f"{r['detected_s']:g}", f"{r['latency_s']:.2f}")
                        for r in document["recoveries"][:SHOWN]
                    ],
                ),
            ]
            if document["recoveries"]
            else []
        ),
    ]
    return html_page(f"{document['application']}, simulated", parts)


def _output_plot(outcome: SimulationOutcome) -> str:
    def draw(axes: Axes) -> None:
        every_s = outcome.interval_s
        at = np.arange(len(outcome.ledger.output)) * every_s
        for event in outcome.history():
            if event.kind == "fault":
                axes.axvline(event.at_s, color=FAINT, linewidth=1)
        for n, sink in enumerate(outcome.deployment.descriptor.sinks):
            axes.plot(at, outcome.output(sink) / every_s, color=SERIES[n % len(SERIES)], label=sink)
        axes.set(xlabel="time (s)", ylabel="tuples per second", title="Output, faults marked")
        axes.legend()

    return draw_svg(draw, label="output rate of each sink over time")


def _cpu_plot(outcome: SimulationOutcome) -> str:
    def draw(axes: Axes) -> None:
        used = outcome.ledger.cpu / (outcome.cluster.capacity / outcome.settings.step_s * outcome.interval_s)
        at = np.arange(len(used)) * outcome.interval_s
        axes.plot(at, used.max(axis=1), color=SERIES[0], label="fullest node")
        axes.plot(at, used.mean(axis=1), color=SERIES[1], label="mean of nodes")
        axes.set(xlabel="time (s)", ylabel="share of the CPU time", title="Load", ylim=(0, 1.05))
        axes.legend()

    return draw_svg(draw, label="load of the nodes over time")
