"""holdfast reproduce objectives: which objective foretells what failures do to the output of the example applications."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.advise_loop import Loop
from holdfast.cli.assess_campaign import scores_of, subject_of, trace_rows
from holdfast.cli.assess_fitting import SECTION
from holdfast.cli.demo import example
from holdfast.cli.shared import json_option, print_json, say, spark_options, spark_session
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.advise.objectives import Foretold, Studied

APPLICATIONS = ("bargain_discovery", "datacenter_monitor", "top_pages", "traffic_incidents")
SHARES = (0.25, 0.5, 0.75)
"""Shares of the operators that plans are made for."""


@click.command()
@click.option("--application", "wanted", multiple=True, type=click.Choice(APPLICATIONS), help="Only these.  [default: all]")
@click.option("--generated", default=3, show_default=True, type=click.IntRange(0), help="Generated applications besides.")
@click.option("--sets", default=12, show_default=True, type=click.IntRange(3), help="Sets of operators that fail together.")
@click.option("--events", default=60_000, show_default=True, type=click.IntRange(1000), help="Events of each generated trace.")
@click.option("--outage", "outage_s", default=4.0, show_default=True, help="Seconds that a failure lasts, at the peak rate.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of traces and of the sets.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("objectives"), show_default=True, help="Run again to resume.")
@spark_options
@json_option
def objectives(
    wanted: tuple[str, ...],
    generated: int,
    sets: int,
    events: int,
    outage_s: float,
    seed: int,
    out: Path,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Let sets of operators of applications fail together, and see which objective orders the damage as it is.

    For every set the quality impact on the output is measured by injection. Output fidelity (PPA), internal completeness (LAAR),
    criticality weighed by measured impacts, and the plain maximum of the impacts alone are held against it by rank correlation.
    Then every objective plans a quarter, half and three quarters of the operators, and all that its plan leaves open fails at once.

    \b
    Example:
      holdfast reproduce objectives --application bargain_discovery --sets 8
    """
    from holdfast.advise.objectives import OBJECTIVES, agreement, worse

    out.mkdir(parents=True, exist_ok=True)
    studied: dict[str, Studied] = {}
    options = {"repetitions": 1, "outage_s": outage_s, "failover_s": None, "seed": seed}
    names = [*(wanted or APPLICATIONS), *(f"generated_{seed + number}" for number in range(generated))]
    with spark_session(master, memory, name="holdfast objectives") as spark:
        for name in names:
            say(f"{name} ...")
            try:
                studied[name] = _study(spark, name, out / name, events=events, sets=sets, options=options)
            except HoldfastError as error:
                say(f"{name} is left out: {error}")
    agreements = {name: agreement(study.sets) for name, study in studied.items()}
    document = {
        "seed": seed,
        "agreement": agreements,
        "mean": {each: fmean(row[each] for row in agreements.values()) for each in OBJECTIVES} if agreements else {},
        "sets": {name: [asdict(each) for each in study.sets] for name, study in studied.items()},
        "plans": {name: [asdict(each) for each in study.plans] for name, study in studied.items()},
        "worse": {name: worse(study.plans) for name, study in studied.items()},
    }
    (out / "objectives.json").write_text(json.dumps(document, indent=2))
    (out / "objectives.html").write_text(_page(agreements, studied, seed=seed, events=events, outage_s=outage_s))
    print_json(document) if as_json else _tell(document, out)


def _study(spark: "SparkSession", name: str, out: Path, *, events: int, sets: int, options: dict[str, Any]) -> "Studied":
    """What every set foretold and did, and what every objective's plans lose."""
    from holdfast.advise.budget import Budget
    from holdfast.advise.candidate import candidates
    from holdfast.advise.loss import losses_of, together_case
    from holdfast.advise.objectives import Planned, Studied, failure_sets, foretell
    from holdfast.assess.case import Case
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import choose_targets
    from holdfast.model.load import load_app
    from holdfast.model.tasks import topology_of
    from holdfast.profile.measure import measure

    out.mkdir(parents=True, exist_ok=True)
    file, trace = _application(name, out), out / "trace.parquet"
    if not trace.exists():
        _writer(name)(trace, events=events, seed=options["seed"])
    app = load_app(file)
    graph = app.graph()
    choices = choose_targets(graph)
    with trace_rows(spark, graph, str(trace), columns=None) as frames:
        measured = measure(spark, app, frames)
        topology = topology_of(graph, name=app.name, rates=measured.leaving, shares=measured.shares)
        setting = Setting(spark, app, frames, scores=scores_of(app, ())[:1], jitter=8, section=SECTION)
        loop = Loop(setting, subject_of(setting, file, str(trace), None), choices, topology, options, out)
        first, _, single = loop.singles()
        impact = {each: loss.mean for each, loss in single.items()}
        count = len(loop.everything)
        even = dict.fromkeys(loop.everything, 1.0)
        budgets = sorted({max(1, round(count * share)) for share in SHARES})
        plans = [(budget, plan) for budget in budgets for plan in candidates(loop.topology, impact, Budget(replicas=budget), even)]
        drawn = [Case(failed) for failed in failure_sets(loop.everything, count=sets, seed=options["seed"])]
        open_ = [tuple(each for each in loop.everything if each not in plan.protected) for _, plan in plans]
        left = [together_case(failed, loop.everything, failover_s=loop.failover_s) for failed in open_]
        _, assessed = loop.assessed(list(dict.fromkeys([*drawn, *left])), "together", offsets=first.offsets)
    losses = losses_of(assessed.cases)
    return Studied(
        sets=tuple(foretell(loop.topology, single, case.target, measured=losses[case.name].mean) for case in drawn),
        plans=tuple(
            Planned(budget, plan.objective, plan.protected, losses[case.name].mean)
            for (budget, plan), case in zip(plans, left, strict=True)
        ),
    )


def _application(name: str, out: Path) -> Path:
    """The file of an example, or of a generated application, which is written."""
    from holdfast.advise.generated import generated_application

    if name in APPLICATIONS:
        return example(f"{name}.py")
    file = out / "application.py"
    file.write_text(generated_application(int(name.rpartition("_")[2])))
    return file


def _writer(name: str) -> Callable[..., Any]:
    from holdfast.trace import write_market, write_pages, write_servers, write_traffic

    writers: tuple[Callable[..., Any], ...] = (write_market, write_servers, write_pages, write_traffic)
    return writers[APPLICATIONS.index(name)] if name in APPLICATIONS else write_market


def _tell(document: dict[str, Any], out: Path) -> None:
    rows = {**document["agreement"], "mean": document["mean"]}
    for name, row in rows.items():
        click.echo(f"{name:20} " + "  ".join(f"{objective} {value:+.2f}" for objective, value in row.items()))
    for name, plans in document["plans"].items():
        for each in plans:
            who = ", ".join(each["protected"]) or "nothing"
            click.echo(f"{name:20} {each['budget']} replicas by {each['objective']:11} {each['lost']:10.4g} lost  ({who})")
    for name, cases in document["worse"].items():
        for text in cases:
            click.echo(f"{name}: {text}")
    click.echo(f"report: {out / 'objectives.html'}")


def _page(found: dict[str, dict[str, float]], studied: "dict[str, Studied]", *, seed: int, events: int, outage_s: float) -> str:
    from holdfast.advise.objectives import OBJECTIVES
    from holdfast.report.page import cards, heading, page, paragraph, table
    from holdfast.report.plot import SERIES, drawn

    def picture(name: str, of: "Sequence[Foretold]") -> str:
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
    planned = [
        [name, str(each.budget), each.objective, ", ".join(each.protected) or "nothing", f"{each.lost:,.4g}"]
        for name, study in studied.items()
        for each in study.plans
    ]
    return page(
        "Which objective foretells the damage",
        [
            paragraph(
                f"Rank correlation of what each objective foretold with the quality impact measured, over sets of operators that "
                f"failed together for {outage_s:g} s at the peak rate; traces of {events:,} events, seed {seed}."
            ),
            table(["application", *OBJECTIVES], rows, names=["application"]),
            heading("Foretold and measured"),
            cards([picture(name, study.sets) for name, study in studied.items()]),
            heading("What plans leave"),
            paragraph(
                "Quality impact when everything without a replica fails at once, by who made the plan and how many replicas it has."
            ),
            table(
                ["application", "replicas", "plan by", "protects", "impact"], planned, names=["application", "plan by", "protects"]
            ),
        ],
    )
