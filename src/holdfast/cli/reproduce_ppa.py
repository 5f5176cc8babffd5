"""holdfast reproduce ppa: PPA's study of recovery (section VI-A) on a simulated cluster, its findings beside ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from holdfast.cli.shared import json_option, print_json, say


@click.command()
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of the moments at which nodes fail.")
@click.option("--repetitions", type=click.IntRange(min=1), default=5, show_default=True, help="Failures of each kind.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("ppa"),
    show_default=True,
    help="Folder for the report.",
)
@json_option
def ppa(seed: int, repetitions: int, out: Path, as_json: bool) -> None:
    """Figures 7 to 10: how long recovery takes by technique, rate and window, what checkpoints cost, and partially active plans.

    The topology of Figure 6 at the paper's rates, on 30 simulated nodes.

    \b
    Example:
      holdfast reproduce ppa --out ppa
    """
    from holdfast.simulate.ppa_study import findings, study

    say(f"about {60 + 480 * repetitions} simulations of three minutes each ...")
    found = study(seed, repetitions)
    checks = findings(found)
    document = {
        "command": f"holdfast reproduce ppa --seed {seed} --repetitions {repetitions}",
        "seed": seed,
        "repetitions": repetitions,
        **found,
        "findings": [asdict(check) for check in checks],
    }
    _write(out, document)
    if as_json:
        print_json(document)
        return
    for check in checks:
        click.echo(f"{'holds' if check.holds else 'FAILS'}  {check.name}: {check.ours} (paper: {check.paper})")
    say(f"report: {out / 'ppa.html'}")


def _write(out: Path, document: Mapping[str, Any]) -> None:
    """Write ppa.html and ppa.json."""
    from holdfast.assess.files import write_whole
    from holdfast.report.page import cards, heading, page, paragraph, table, verdicts
    from holdfast.report.plot import line_plot

    def lines(figure: str, window_s: float) -> list[tuple[str, list[float], list[float]]]:
        rows = [row for row in document["recovery"] if row["window_s"] == window_s]
        names = list(dict.fromkeys(row["technique"] for row in rows))
        return [
            (name, [r["rate"] for r in rows if r["technique"] == name], [r[figure] for r in rows if r["technique"] == name])
            for name in names
        ]

    rate, latency = "tuples per second and source task", "recovery latency (s)"
    plots = [
        line_plot(lines(figure, window_s), x=rate, y=latency, title=f"{title}, window {window_s:g} s", level=None)
        for title, figure in (("Figure 7: one node", "single_s"), ("Figure 8: all nodes", "correlated_s"))
        for window_s in (10.0, 30.0)
    ]
    costs = document["checkpoint_cost"]
    shares = [("share", [row["checkpoint_s"] for row in costs], [row["share"] for row in costs])]
    plots.append(line_plot(shares, x="checkpoint interval (s)", y="CPU time, share of processing", title="Figure 9"))
    parts = [
        paragraph(
            f"Made by: {document['command']}. A PE per task, each on a node of its own that is half busy at 2,000 tuples a second; "
            "writing or loading a tuple of state takes a tenth of processing it. The paper says neither, so who stands above "
            "whom is compared."
        ),
        heading("Findings"),
        verdicts([(c["name"], c["holds"], f"{c['ours']}. Paper: {c['paper']}.") for c in document["findings"]]),
        heading("Figures 7 and 8: recovery latency"),
        table(
            ("technique", "rate", "window (s)", "one node (s)", "all nodes (s)"),
            [
                (r["technique"], f"{r['rate']:g}", f"{r['window_s']:g}", f"{r['single_s']:.2f}", f"{r['correlated_s']:.2f}")
                for r in document["recovery"]
            ],
        ),
        heading("Figure 10: a correlated failure under partially active plans, window 30 s"),
        table(
            ("plan", "rate", "latency (s)"),
            [(row["plan"], f"{row['rate']:g}", f"{row['latency_s']:.2f}") for row in document["partial"]],
        ),
        heading("Pictures"),
        cards(plots),
    ]
    out.mkdir(parents=True, exist_ok=True)
    write_whole(out / "ppa.json", json.dumps(document, indent=2))
    write_whole(out / "ppa.html", page("Recovery, active and passive (PPA, section VI-A)", parts))
