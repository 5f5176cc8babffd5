"""holdfast reproduce internet: a day of a data center under five plans, simulated: what they cost and what they lose."""

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

STRUCK = {"rack": "a rack fails in the busiest hour", "pdu": "a power unit fails in the busiest hour"}
TOLD = ("cpu_s", "lost", "waiting_s", "recoveries", "latency_s", "seconds", "rss_mib")
HEAD = ("day", "plan", "CPU, of NR's", "lost", "waiting (s)", "recoveries", "latency (s)")


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
    """No replication, static replication, LAAR, PPA and both together on 10,000 PEs and 1,000 nodes, for a day with failures.

    On one day a rack fails in the busiest hour, on another a power unit, beside single machines, at published rates; on a third
    nothing does. Each run is kept in --out as it ends: the same command goes on where it was stopped.

    \b
    Example:
      holdfast reproduce internet --profile requests_per_minute.csv.gz --day 1998-06-30 --out internet
    """
    import numpy as np

    from holdfast_papers.internet.data_center import DAYS, Scale, generated_profile, read_profile
    from holdfast_papers.internet.day import Plan, Task, day_key, done, yearly
    from holdfast_papers.internet.findings import findings
    from holdfast_papers.internet.plans import SLOWEST, VARIANTS
    from holdfast_papers.records import Records

    scale = Scale(applications=applications, racks=racks, seed=seed)
    counts = read_profile(profile, day) if profile else generated_profile(np.random.default_rng(seed))
    source = f"{profile.name}, {day}" if profile else "generated"
    settings = {"applications": applications, "racks": racks, "seed": seed, "profile": source}
    kept = Records(out, settings)
    plans = [Plan(scale, variant, tuple(float(count) for count in counts)) for variant in VARIANTS]

    def tasks(some: Sequence[Plan]) -> dict[str, Plan | Task]:
        return {task.key: task for task in (Task(plan, kind, kept[plan.key]) for kind in DAYS for plan in some)}

    # One plan takes minutes and the others seconds: their days are simulated meanwhile.
    (slow,), quick = [p for p in plans if p.variant == SLOWEST], [p for p in plans if p.variant != SLOWEST]
    with progress_bar("plans") as progress:
        kept.fill(done, {plan.key: plan for plan in quick}, workers=workers, progress=progress)
    with progress_bar("days") as progress:
        kept.fill(done, {slow.key: slow, **tasks(quick)}, workers=workers, progress=progress)
    with progress_bar(f"days of {SLOWEST}") as progress:
        kept.fill(done, tasks([slow]), workers=workers, progress=progress)
    records = {key: kept[key] for key in (day_key(kind, variant) for kind in DAYS for variant in VARIANTS)}
    days = {f"{record['day']}/{record['variant']}": {name: record[name] for name in TOLD} for record in records.values()}
    named = f"--profile {profile.name} --day {day} " if profile else ""
    document = {
        "command": f"holdfast reproduce internet {named}--applications {applications} --racks {racks} --seed {seed}",
        "seed": seed,
        "pes": applications * scale.pes,
        "nodes": scale.machines,
        "profile": source,
        "days": days,
        "findings": [asdict(finding) for finding in findings(days)],
        "plans": {plan.variant: {name: kept[plan.key][name] for name in ("seconds", "rss_mib")} for plan in plans},
        "yearly": yearly(records, scale),
        "begins_h": records[day_key("calm", "NR")]["begins_h"],
        "faults": {kind: records[day_key(kind, "NR")]["faults"] for kind in STRUCK},
    }
    _write(out, document, records)
    finish(document, as_json=as_json, show=lambda: _show(document))
    say(f"report: {out / 'internet.html'}")


def _show(document: Mapping[str, Any]) -> None:
    for row in _rows(document):
        click.echo("  ".join(f"{cell:>14}" for cell in row))
    show_findings(document)


def _rows(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [HEAD]
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
    from holdfast.report import cards, heading, html_page, on_its_own, paragraph, table, verdicts

    plots = {f"output-{kind}": _output_plot(records, kind) for kind in STRUCK} | {"cost-and-loss": _price_plot(document)}
    rows = _rows(document)
    parts = [
        paragraph(
            f"{document['pes']:,} PEs on {document['nodes']:,} nodes, arrivals: {document['profile']}. "
            f"Made by: {document['command']}"
        ),
        heading("Findings"),
        verdicts([(f["name"], f["holds"], f["ours"]) for f in document["findings"]]),
        heading("Three days"),
        table(HEAD, rows[1:]),
        paragraph(
            "Lost: tuples that PEs did not process, of those they would have; with checkpoints these are the ones that still wait "
            "ten minutes after the day. Waiting: seconds in the queue of a PE, on average. Latency: from noticing a failure to "
            "making it good.",
            note=True,
        ),
        heading("What failed"),
        table(
            ("day", "single machines", "racks", "from hour", "for hours"),
            [(kind, *_struck(faults, document["begins_h"])) for kind, faults in document["faults"].items()],
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
            "Without failures: what 365 calm days lose for want of CPU time. To racks and power units: what the day of one loses "
            "beyond a calm one, times how many fail in a year. A failure that lets nodes do less of what is in vain may save "
            "tuples: below 0.",
            note=True,
        ),
        heading("What it took"),
        table(
            ("step", "seconds", "memory (MiB)"),
            [
                (step, f"{spent['seconds']:,.0f}", f"{spent['rss_mib']:,.0f}")
                for step, spent in (*((f"planning {v}", p) for v, p in document["plans"].items()), *document["days"].items())
            ],
        ),
        heading("Pictures"),
        cards(list(plots.values())),
    ]
    write_whole(out / "internet.json", json.dumps(document, indent=2))
    write_whole(out / "internet.html", html_page("A day of a data center", parts))
    for name, svg in plots.items():
        write_whole(out / f"{name}.svg", on_its_own(svg))


def _struck(faults: Sequence[Mapping[str, Any]], begins_h: float) -> tuple[str, ...]:
    """A day's failures: single machines, the racks that went at once, and when by the clock and for how long these did."""
    racks = faults[-1]
    return (
        str(len(faults) - 1),
        ", ".join(name.removeprefix("rack=") for name in racks["target"]),
        f"{(begins_h + racks['at_s'] / 3600) % 24:.1f}",
        f"{racks['back_after_s'] / 3600:.1f}",
    )


def _output_plot(records: Mapping[str, Record], kind: str) -> str:
    from holdfast.report import SERIES, drawn
    from holdfast_papers.internet.data_center import DAY_S

    title = STRUCK[kind]

    def draw(axes: Axes) -> None:
        for n, record in enumerate(record for record in records.values() if record["day"] == kind):
            output = record["output"][: round(DAY_S / record["every_s"])]  # without what is made after the day
            hours = [record["begins_h"] + at * record["every_s"] / 3600 for at in range(len(output))]
            axes.plot(hours, [rate / 1000 for rate in output], color=SERIES[n], label=record["variant"], linewidth=1)
        axes.set(xlabel="hour (24: midnight)", ylabel="output (1,000 tuples a second)", title=f"Output: {title}")
        axes.legend()

    return drawn(draw, label=f"output over the day on which {title}")


def _price_plot(document: Mapping[str, Any]) -> str:
    from holdfast.report import SERIES, drawn

    def draw(axes: Axes) -> None:
        for n, kind in enumerate(STRUCK):
            base = document["days"][f"{kind}/NR"]["cpu_s"]
            for key, record in document["days"].items():
                if key.startswith(f"{kind}/"):
                    at, variant = (record["cpu_s"] / base, 100 * record["lost"]), key.split("/")[1]
                    axes.plot(*at, "os"[n], color=SERIES[n], label=STRUCK[kind] if variant == "NR" else None)
                    # One day's names above its marks, the other's below, and the combined plan's to the left: who lose next to
                    # nothing lie side by side.
                    side = "right" if variant == "combined" else "left"
                    axes.annotate(variant, at, (0, (6, -12)[n]), textcoords="offset points", ha=side, fontsize=7, color=SERIES[n])
        axes.margins(0.12)
        axes.legend()
        axes.set(xlabel="CPU time, of NR's", ylabel="lost (%)", title="Cost and loss")

    return drawn(draw, label="what each plan costs and loses on either day")
