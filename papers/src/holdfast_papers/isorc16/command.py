"""holdfast reproduce isorc16: compares prediction algorithms, and runs late PEs with and without prediction."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from holdfast.errors import HoldfastError
from holdfast.terminal import progress_bar, say
from holdfast_papers.results import finish, result_options, show_findings


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("isorc16"), show_default=True, help="Folder for the results.")
@click.option(
    "--part",
    type=click.Choice(["algorithms", "runs", "all"]),
    default="all",
    show_default=True,
    help="Algorithms alone (Table 2, Figures 2 and 3; no Spark), real runs (Table 4, Figures 6 to 9), or both.",
)
@click.option("--epochs", type=int, default=400, show_default=True, help="Length of each recording; the first 50 only train.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the generated data, from 0.")
@click.option("--ahead", type=int, default=1, show_default=True, help="Epochs between the last known output and the predicted one.")
@click.option("--weather", type=click.Path(path_type=Path), multiple=True, help="CSV file of recorded weather; may be repeated.")
@click.option("--servers", type=click.Path(path_type=Path), help="Folder of CSV files of recorded server metrics.")
@click.option("--full", is_flag=True, help="Every cell of Table 4; about eleven hours with five seeds.")
@click.option(
    "--cells", help="Cells to run, separated by commas, such as 5/small/medium.  [default: 5/small/medium,5/large/medium]"
)
@click.option("--settings", help="Settings to run, separated by commas.  [default: all four]")
@click.option("--epoch", "epoch_s", default=1.0, show_default=True, help="Length of an epoch in the real runs, in seconds.")
@click.option("--seconds", default=150.0, show_default=True, help="Length of each real run in seconds, as in the paper.")
@click.option(
    "--seeds", type=click.IntRange(1), default=5, show_default=True, help="Real runs of each kind: with --seed and the next."
)
@result_options
def isorc16(out: Path, part: str, seed: int, as_json: bool, **options: Any) -> None:
    """Table 2, Figures 2 and 3: accuracy and time of algorithms. Table 4, Figures 6 to 9: late PEs in real runs on Spark.

    Algorithms predict generated weather, servers and racks of the datacenter monitor, and recorded data that you name. In the
    real runs PEs of the datacenter monitor stall: without protection, with upstream backup (after 30 s as in the paper, and at the
    deadline), and with prediction. Reported are medians over the seeds, and the least and greatest seed. Run the same command
    again to continue with the runs that are missing.

    \b
    Example:
      holdfast reproduce isorc16 --out isorc16
      holdfast reproduce isorc16 --part algorithms --weather nyc_airports_2013.csv --servers realAWSCloudwatch
      holdfast reproduce isorc16 --part runs --cells 5/large/medium --seeds 1 --seconds 60
    """
    from holdfast_papers.finding import Finding

    if seed < 0:
        raise HoldfastError(f"--seed must be at least 0, got {seed}")
    document: dict[str, Any] = {"seed": seed}
    checks: list[Finding] = []
    sections: list[str] = []
    if part != "algorithms":
        _check_runs(options)  # before the first part takes minutes
    if part != "runs":
        values, checks_of_part, parts = _algorithms(
            seed=seed, **{name: options[name] for name in ("epochs", "ahead", "weather", "servers")}
        )
        document |= values
        checks += checks_of_part
        sections += parts
    if part != "algorithms":
        names = ("full", "cells", "settings", "epoch_s", "seconds", "seeds")
        values, checks_of_part, parts = _runs(out, seed=seed, **{name: options[name] for name in names})
        document |= values
        checks += checks_of_part
        sections += parts
    document["findings"] = [asdict(check) for check in checks]
    out.mkdir(parents=True, exist_ok=True)
    (out / "isorc16.json").write_text(json.dumps(_json_safe(document), indent=2) + "\n")
    (out / "isorc16.html").write_text(_page(document["findings"], sections))
    finish(_json_safe(document), as_json=as_json, show=lambda: show_findings(document))
    say(f"report: {out / 'isorc16.html'}")


def _algorithms(
    *, seed: int, epochs: int, ahead: int, weather: tuple[Path, ...], servers: Path | None
) -> tuple[dict[str, Any], list[Any], list[str]]:
    """Run section IV-A; return its document, findings and report parts."""
    from holdfast.prediction import default_predictors
    from holdfast_papers.isorc16.algorithm_findings import figure_3, figure_3_by_k, findings
    from holdfast_papers.isorc16.algorithm_study import WARM, study
    from holdfast_papers.isorc16.recordings import generated_servers, generated_weather, read_servers, read_weather

    for name, value, least in (("--epochs", epochs, WARM + 50), ("--ahead", ahead, 1)):
        if value < least:
            raise HoldfastError(f"{name} must be at least {least}, got {value}")
    recorded = [read_weather(path, epochs=epochs) for path in weather]
    recorded += read_servers(servers, epochs=epochs) if servers is not None else []
    raw, racks = generated_servers(seed, epochs=epochs)
    recordings = [generated_weather(seed, epochs=epochs), raw, racks, *recorded]
    predictors = default_predictors()
    studies = []
    for recording in recordings:
        say(f"predicting {recording.name} ...")
        with progress_bar("epochs") as progress:
            studies.append(study(recording, predictors, ahead=ahead, progress=progress))
    timings, by_k = figure_3(predictors), figure_3_by_k()
    document = {
        "epochs": epochs,
        "ahead": ahead,
        "studies": [asdict(one) for one in studies],
        "figure_3": [asdict(timing) for timing in timings],
        "figure_3_by_k": [asdict(timing) for timing in by_k],
    }
    checks = findings(studies[0], [studies[1], *studies[3:]], studies[2], timings, by_k)
    return document, checks, _sections(document, studies, timings, by_k)


def _check_runs(options: dict[str, Any]) -> None:
    from holdfast_papers.isorc16.runs_command import check_lengths, chosen_cells, chosen_settings

    chosen_cells(options["cells"], full=options["full"])
    chosen_settings(options["settings"])
    check_lengths(options["epoch_s"], options["seconds"])


def _runs(
    out: Path, *, seed: int, full: bool, cells: str | None, settings: str | None, epoch_s: float, seconds: float, seeds: int
) -> tuple[dict[str, Any], list[Any], list[str]]:
    """Run section VI; return its document, findings and report parts."""
    from holdfast_papers.isorc16.late_run_findings import late_findings
    from holdfast_papers.isorc16.late_run_report import late_parts, scaled
    from holdfast_papers.isorc16.runs_command import chosen_cells, chosen_settings, late_runs

    cells_to_run, settings_to_run = chosen_cells(cells, full=full), chosen_settings(settings)
    runs = late_runs(out, cells_to_run, settings_to_run, epoch_s=epoch_s, seconds=seconds, seeds=range(seed, seed + seeds))
    about = scaled(runs)
    return {"scaled": about, "runs": [run.document() for run in runs]}, late_findings(runs), late_parts(runs, about=about)


def _page(findings: Sequence[dict[str, Any]], sections: Sequence[str]) -> str:
    from holdfast.report import heading, html_page, verdicts

    values = verdicts([(f["name"], f["holds"], f"{f['ours']} {_paper_note(f['paper'])}") for f in findings])
    return html_page("Prediction for late PEs (ISORC'16)", [heading("Findings"), values, *sections])


def _paper_note(paper: str) -> str:
    return paper if paper.startswith("(") else f"(paper: {paper})"


def _sections(document: dict[str, Any], studies: Sequence[Any], timings: Sequence[Any], by_k: Sequence[Any]) -> list[str]:
    from holdfast.report import cards, heading, paragraph, table
    from holdfast_papers.isorc16.algorithm_findings import FIGURE_3_S

    parts = [
        heading("Algorithms"),
        paragraph(
            f"Every algorithm predicts each of {document['epochs'] - 50:,} epochs, {document['ahead']} ahead, from the last 50 "
            "outputs of each key; accurate is what lies within 5 % of the truth. The paper does not say what it counts as "
            "accurate, and this command does not read its servers (Google's cluster data, version 2): compare the order of the "
            "algorithms. What an algorithm alone does not predict counts as inaccurate."
        ),
        heading("Table 2: weather"),
        table(*_table_2(studies[0])),
        heading("Figure 2: accuracy on servers and on recorded data"),
        cards([_bars(one) for one in studies]),
    ]
    for one in studies[1:]:
        attributes = list(next(iter(one.accuracy.values())))
        rows = [(name, *(f"{shares[a]:.1%}" for a in attributes)) for name, shares in one.accuracy.items()]
        parts += [heading(one.recording), table(("algorithm", *attributes), rows)]
    times = [(t.name, f"{1e3 * t.train_s:.2f}", f"{1e3 * t.execute_s:.2f}") for t in (*timings, *by_k)]
    parts += [
        heading("Figure 3: time"),
        paragraph(
            f"The paper: {FIGURE_3_S[0]:g} to {FIGURE_3_S[1]:g} s by algorithm for 1,000 rows, and 0.2 to 1.1 s for nearest "
            "neighbours with k from 10 to 10,000. Here: 1,000 series of 50 values; by k, nearest neighbours for 50 series of "
            "1,000 values."
        ),
        cards([_times(timings, "by algorithm"), _times(by_k, "nearest neighbours by k")]),
        table(("algorithm", "training (ms)", "execution (ms)"), times),
    ]
    return parts


def _table_2(study: Any) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    from holdfast_papers.isorc16.algorithm_findings import TABLE_2

    attributes = list(next(iter(study.accuracy.values())))
    columns = ("algorithm", *(part for name in attributes for part in (f"{name} paper", f"{name} here")))
    rows = []
    for name, shares in study.accuracy.items():
        paper = TABLE_2.get(name, {})
        cells = [(f"{paper[a]:g} %" if a in paper else "-", f"{shares[a]:.1%}") for a in attributes]
        rows.append((name, *(part for pair in cells for part in pair)))
    return columns, rows


def _bars(study: Any) -> str:
    from holdfast.report import SERIES, draw_svg

    names = list(study.accuracy)
    attributes = list(study.accuracy[names[0]])

    def draw(axes: Any) -> None:
        width = 0.8 / len(attributes)
        for place, attribute in enumerate(attributes):
            at = [row + place * width for row in range(len(names))]
            shares = [study.accuracy[name][attribute] for name in names]
            axes.barh(at, shares, width, color=SERIES[place % len(SERIES)], label=attribute)
        axes.set_yticks([row + 0.4 for row in range(len(names))], names)
        axes.set(xlabel="share within 5 % of the truth", xlim=(0, 1), title=study.recording)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)

    return draw_svg(draw, label=f"accuracy by algorithm and attribute: {study.recording}", height=4.4)


def _times(timings: Sequence[Any], title: str) -> str:
    from holdfast.report import SERIES, draw_svg

    def draw(axes: Any) -> None:
        names, trained = [t.name for t in timings], [1e3 * t.train_s for t in timings]
        axes.barh(names, trained, color=SERIES[0], label="training")
        axes.barh(names, [1e3 * t.execute_s for t in timings], left=trained, color=SERIES[1], label="execution")
        axes.set(xlabel="ms", title=title)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2)

    return draw_svg(draw, label=f"time to train and to answer, {title}", height=3.5)


def _json_safe(value: Any) -> Any:
    """Return the value with null in place of numbers that JSON cannot express."""
    if isinstance(value, dict):
        return {name: _json_safe(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_safe(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
