"""holdfast reproduce objectives: which objective foretells what failures do to the output of the example applications."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.advise import Loop
from holdfast.cli.assess_campaign import SECTION, scores_of, subject_of, trace_rows
from holdfast.cli.demo import example
from holdfast.cli.shared import json_option, print_json, say, spark_options, spark_session
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.advise.objectives import Foretold

APPLICATIONS = ("bargain_discovery", "datacenter_monitor", "top_pages", "traffic_incidents")


@click.command()
@click.option("--application", "wanted", multiple=True, type=click.Choice(APPLICATIONS), help="Only these.  [default: all]")
@click.option("--sets", default=12, show_default=True, type=click.IntRange(3), help="Sets of operators that fail together.")
@click.option("--events", default=60_000, show_default=True, type=click.IntRange(1000), help="Events of each generated trace.")
@click.option("--outage", "outage_s", default=4.0, show_default=True, help="Seconds that a failure lasts, at the peak rate.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of traces and of the sets.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("objectives"), show_default=True, help="Run again to resume.")
@spark_options
@json_option
def objectives(
    wanted: tuple[str, ...], sets: int, events: int, outage_s: float, seed: int, out: Path, master: str, memory: str, as_json: bool
) -> None:
    """Let sets of operators of the example applications fail together, and see which objective orders the damage as it is.

    For every set the quality impact on the output is measured by injection. Output fidelity (PPA), internal completeness (LAAR),
    criticality weighed by measured impacts, and the plain maximum of the impacts alone are held against it by rank correlation.

    \b
    Example:
      holdfast reproduce objectives --application bargain_discovery --sets 8
    """
    from holdfast.advise.objectives import OBJECTIVES, agreement

    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, float]] = {}
    seen: dict[str, list[Foretold]] = {}
    options = {"repetitions": 1, "outage_s": outage_s, "failover_s": None, "seed": seed}
    with spark_session(master, memory, name="holdfast objectives") as spark:
        for name in wanted or APPLICATIONS:
            say(f"{name} ...")
            try:
                seen[name] = _seen(spark, name, out / name, events=events, sets=sets, options=options)
            except HoldfastError as error:
                say(f"{name} is left out: {error}")
                continue
            found[name] = agreement(seen[name])
    document = {
        "seed": seed,
        "agreement": found,
        "mean": {each: sum(row[each] for row in found.values()) / len(found) for each in OBJECTIVES} if found else {},
        "sets": {name: [asdict(each) for each in of] for name, of in seen.items()},
    }
    (out / "objectives.json").write_text(json.dumps(document, indent=2))
    (out / "objectives.html").write_text(_page(found, seen, seed=seed, events=events, outage_s=outage_s))
    print_json(document) if as_json else _tell(document, out)


def _seen(spark: "SparkSession", name: str, out: Path, *, events: int, sets: int, options: dict[str, Any]) -> "list[Foretold]":
    """What every set foretold and did."""
    from holdfast.advise.loss import losses_of
    from holdfast.advise.objectives import failure_sets, foretell
    from holdfast.assess.case import Case
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import choose_targets
    from holdfast.model.load import load_app
    from holdfast.model.tasks import topology_of
    from holdfast.profile.measure import measure

    out.mkdir(parents=True, exist_ok=True)
    trace = out / "trace.parquet"
    if not trace.exists():
        _writer(name)(trace, events=events, seed=options["seed"])
    file = example(f"{name}.py")
    app = load_app(file)
    graph = app.graph()
    choices = choose_targets(graph)
    with trace_rows(spark, graph, str(trace), columns=None) as frames:
        measured = measure(spark, app, frames)
        topology = topology_of(graph, name=app.name, rates=measured.leaving, shares=measured.shares)
        setting = Setting(spark, app, frames, scores=scores_of(app, ())[:1], jitter=8, section=SECTION)
        loop = Loop(setting, subject_of(setting, file, str(trace), None), choices, topology, options, out)
        first, _, single = loop.singles()
        drawn = failure_sets(loop.everything, count=sets, seed=options["seed"])
        cases = [Case(failed) for failed in drawn]
        _, assessed = loop.assessed(cases, "together", offsets=first.offsets)
    losses = losses_of(assessed.cases)
    return [foretell(loop.topology, single, case.target, measured=losses[case.name].mean) for case in cases]


def _writer(name: str) -> Callable[..., Any]:
    from holdfast.trace import write_market, write_pages, write_servers, write_traffic

    writers: tuple[Callable[..., Any], ...] = (write_market, write_servers, write_pages, write_traffic)
    return writers[APPLICATIONS.index(name)]


def _tell(document: dict[str, Any], out: Path) -> None:
    rows = {**document["agreement"], "mean": document["mean"]}
    for name, row in rows.items():
        click.echo(f"{name:20} " + "  ".join(f"{objective} {value:+.2f}" for objective, value in row.items()))
    click.echo(f"report: {out / 'objectives.html'}")


def _page(found: dict[str, dict[str, float]], seen: "dict[str, list[Foretold]]", *, seed: int, events: int, outage_s: float) -> str:
    from holdfast.advise.objectives import OBJECTIVES
    from holdfast.report.page import cards, heading, page, paragraph, table
    from holdfast.report.plot import SERIES, drawn

    def picture(name: str, of: "list[Foretold]") -> str:
        def draw(axes: Any) -> None:
            for number, objective in enumerate(("of", "ic", "criticality")):
                axes.plot(
                    [each.foretold[objective] for each in of],
                    [each.measured for each in of],
                    "o",
                    color=SERIES[number],
                    label=objective,
                )
            axes.set(xlabel="foretold loss", ylabel="measured impact", title=name)
            axes.legend()

        return drawn(draw, label=f"Foretold and measured loss of {name}")

    rows = [[name, *(f"{row[each]:+.2f}" for each in OBJECTIVES)] for name, row in found.items()]
    return page(
        "Which objective foretells the damage",
        [
            paragraph(
                f"Rank correlation of what each objective foretold with the quality impact measured, over sets of operators that "
                f"failed together for {outage_s:g} s at the peak rate; traces of {events:,} events, seed {seed}."
            ),
            table(["application", *OBJECTIVES], rows, names=["application"]),
            heading("Foretold and measured"),
            cards([picture(name, of) for name, of in seen.items()]),
        ],
    )
