"""holdfast reproduce internet: simulates a day of a data center under five plans; reports their costs and losses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.terminal import progress_bar, say
from holdfast_papers.results import finish, result_options, show_findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from holdfast_papers.records import Record

FAILURE_DAYS = {"rack": "a rack fails in the busiest hour", "pdu": "a power unit fails in the busiest hour"}
FIGURES = ("cpu_s", "lost", "waiting_s", "recoveries", "latency_s", "seconds", "rss_mib")
COLUMNS = ("day", "plan", "CPU, of NR's", "lost", "waiting (s)", "recoveries", "latency (s)")


@click.command()
@click.option("--profile", type=click.Path(path_type=Path), help="CSV of period and count per minute. [default: generated]")
@click.option("--day", default="1998-06-30", show_default=True, help="The day of the profile.")
@click.option("--applications", type=click.IntRange(min=1), default=400, show_default=True, help="Applications of 25 PEs each.")
@click.option("--racks", type=click.IntRange(min=2), default=25, show_default=True, help="Racks of 40 nodes each.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of applications and failures.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes to work in.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("internet"),
    show_default=True,
    help="Folder for records and report.",
)
@result_options
def internet(
    profile: Path | None, day: str, applications: int, racks: int, seed: int, workers: int, out: Path, as_json: bool
) -> None:
    """Simulate a day with failures of 10,000 PEs on 1,000 nodes: no replication, static replication, LAAR, PPA, and both together.

    On one day a rack fails in the busiest hour, on another a power unit; single machines also fail, at published rates. On a third
    day nothing fails. Run the same command again to continue an interrupted study.

    \b
    Example:
      holdfast reproduce internet --profile requests_per_minute.csv.gz --day 1998-06-30 --out internet
    """
    import numpy as np

    from holdfast_papers.internet.data_center import DAYS, Scale, generated_profile, read_profile
    from holdfast_papers.internet.day import Plan, Task, day_key, run_task, yearly
    from holdfast_papers.internet.findings import findings
    from holdfast_papers.internet.plans import SLOWEST, VARIANTS
    from holdfast_papers.records import Records

    scale = Scale(applications=applications, racks=racks, seed=seed)
    counts = read_profile(profile, day) if profile else generated_profile(np.random.default_rng(seed))
    source = f"{profile.name}, {day}" if profile else "generated"
    settings = {"applications": applications, "racks": racks, "seed": seed, "profile": source}
    records_folder = Records(out, settings)
    plans = [Plan(scale, variant, tuple(float(count) for count in counts)) for variant in VARIANTS]

    def tasks(some: Sequence[Plan]) -> dict[str, Plan | Task]:
        return {task.key: task for task in (Task(plan, kind, records_folder[plan.key]) for kind in DAYS for plan in some)}

    # Planning PPA takes minutes, the other plans take seconds. Their days are simulated meanwhile.
    (slow,), quick = [p for p in plans if p.variant == SLOWEST], [p for p in plans if p.variant != SLOWEST]
    with progress_bar("plans") as progress:
        records_folder.fill(run_task, {plan.key: plan for plan in quick}, workers=workers, progress=progress)
    with progress_bar("days") as progress:
        records_folder.fill(run_task, {slow.key: slow, **tasks(quick)}, workers=workers, progress=progress)
    with progress_bar(f"days of {SLOWEST}") as progress:
        records_folder.fill(run_task, tasks([slow]), workers=workers, progress=progress)
    records = {key: records_folder[key] for key in (day_key(kind, variant) for kind in DAYS for variant in VARIANTS)}
    days = {f"{record['day']}/{record['variant']}": {name: record[name] for name in FIGURES} for record in records.values()}
    profile_options = f"--profile {profile.name} --day {day} " if profile else ""
    document = {
        "command": f"holdfast reproduce internet {profile_options}--applications {applications} --racks {racks} --seed {seed}",
        "seed": seed,
        "pes": applications * scale.pes,
        "nodes": scale.machines,
        "profile": source,
        "days": days,
        "findings": [asdict(finding) for finding in findings(days)],
        "plans": {plan.variant: {name: records_folder[plan.key][name] for name in ("seconds", "rss_mib")} for plan in plans},
        "yearly": yearly(records, scale),
        "begins_h": records[day_key("calm", "NR")]["begins_h"],
        "faults": {kind: records[day_key(kind, "NR")]["faults"] for kind in FAILURE_DAYS},
    }
    _write(out, document, records)
    finish(document, as_json=as_json, show=lambda: _show(document))
    say(f"report: {out / 'internet.html'}")


def _show(document: Mapping[str, Any]) -> None:
    for row in _rows(document):
        click.echo("  ".join(f"{cell:>14}" for cell in row))
    show_findings(document)


def _rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [COLUMNS]
    for key, record in document["days"].items():
        kind, variant = key.split("/")
        share = record["cpu_s"] / document["days"][f"{kind}/NR"]["cpu_s"]
        latency = "-" if record["latency_s"] is None else f"{record['latency_s']:.0f}"
        figures = (f"{share:.2f}", f"{record['lost']:.3%}", f"{record['waiting_s']:.2f}", f"{record['recoveries']:,}", latency)
        rows.append((kind, variant, *figures))
    return rows


def _write(out: Path, document: Mapping[str, Any], records: Mapping[str, Record]) -> None:
    """Write internet.html, internet.json and the pictures."""
    from holdfast.documents import write_whole
    from holdfast.report import cards, heading, html_page, paragraph, standalone_svg, table, verdicts

    plots = {f"output-{kind}": _output_plot(records, kind) for kind in FAILURE_DAYS} | {"cost-and-loss": _price_plot(document)}
    rows = _rows(document)
    parts = [
        paragraph(
            f"{document['pes']:,} PEs on {document['nodes']:,} nodes, arrivals: {document['profile']}. "
            f"Made by: {document['command']}"
        ),
        heading("Findings"),
        verdicts([(f["name"], f["holds"], f["ours"]) for f in document["findings"]]),
        heading("Three days"),
        table(COLUMNS, rows[1:]),
        paragraph(
            "Lost: the share of tuples that PEs did not process; with checkpoints, those that still wait ten minutes after the "
            "day. Waiting: mean seconds in the queue of a PE. Latency: from the detection of a failure to the recovery.",
            note=True,
        ),
        heading("Failures"),
        table(
            ("day", "single machines", "racks", "from hour", "for hours"),
            [(kind, *_failure_cells(faults, document["begins_h"])) for kind, faults in document["faults"].items()],
        ),
        heading("A year"),
        table(
            ("plan", "CPU seconds a day", "lost without failures (days of all tuples)", "lost to racks", "lost to power units"),
            [
                (variant, f"{year['cpu_s']:,.0f}", *(f"{year[f'{kind}_days']:z.4f}" for kind in ("calm", "rack", "pdu")))
                for variant, year in document["yearly"].items()
            ],
        ),
        paragraph(
            "Without failures: the losses of 365 calm days, for lack of CPU time. To racks and power units: the losses of a day "
            "with such a failure beyond a calm day, times the failures in a year. A failure can prevent useless work and so save "
            "tuples: below 0.",
            note=True,
        ),
        heading("Time and memory of the study"),
        table(
            ("step", "seconds", "memory (MiB)"),
            [
                (step, f"{usage['seconds']:,.0f}", f"{usage['rss_mib']:,.0f}")
                for step, usage in (*((f"planning {v}", p) for v, p in document["plans"].items()), *document["days"].items())
            ],
        ),
        heading("Pictures"),
        cards(list(plots.values())),
    ]
    write_whole(out / "internet.json", json.dumps(document, indent=2))
    write_whole(out / "internet.html", html_page("A day of a data center", parts))
    for name, svg in plots.items():
        write_whole(out / f"{name}.svg", standalone_svg(svg))


def _failure_cells(faults: Sequence[Mapping[str, Any]], begins_h: float) -> tuple[str, ...]:
    """Return the failures of a day as cells: single machines, racks, the hour at which the racks failed, and for how long."""
    racks = faults[-1]
    return (
        str(len(faults) - 1),
        ", ".join(name.removeprefix("rack=") for name in racks["target"]),
        f"{(begins_h + racks['at_s'] / 3600) % 24:.1f}",
        f"{racks['back_after_s'] / 3600:.1f}",
    )


def _output_plot(records: Mapping[str, Record], kind: str) -> str:
    from holdfast.report import SERIES, draw_svg
    from holdfast_papers.internet.data_center import DAY_S

    title = FAILURE_DAYS[kind]

    def draw(axes: Axes) -> None:
        for n, record in enumerate(record for record in records.values() if record["day"] == kind):
            output = record["output"][: round(DAY_S / record["every_s"])]  # without what is made after the day
            hours = [record["begins_h"] + at * record["every_s"] / 3600 for at in range(len(output))]
            axes.plot(hours, [rate / 1000 for rate in output], color=SERIES[n], label=record["variant"], linewidth=1)
        axes.set(xlabel="hour (24: midnight)", ylabel="output (1,000 tuples a second)", title=f"Output: {title}")
        axes.legend()

    return draw_svg(draw, label=f"output over the day on which {title}")


def _price_plot(document: Mapping[str, Any]) -> str:
    from holdfast.report import SERIES, draw_svg

    def draw(axes: Axes) -> None:
        for n, kind in enumerate(FAILURE_DAYS):
            base = document["days"][f"{kind}/NR"]["cpu_s"]
            for key, record in document["days"].items():
                if key.startswith(f"{kind}/"):
                    at, variant = (record["cpu_s"] / base, 100 * record["lost"]), key.split("/")[1]
                    axes.plot(*at, "os"[n], color=SERIES[n], label=FAILURE_DAYS[kind] if variant == "NR" else None)
                    # One day's names are above its marks, the other's below, and the combined plan's to the left. Plans that lose
                    # almost nothing would overlap otherwise.
                    side = "right" if variant == "combined" else "left"
                    axes.annotate(variant, at, (0, (6, -12)[n]), textcoords="offset points", ha=side, fontsize=7, color=SERIES[n])
        axes.margins(0.12)
        axes.legend()
        axes.set(xlabel="CPU time, of NR's", ylabel="lost (%)", title="Cost and loss")

    return draw_svg(draw, label="what each plan costs and loses on either day")
