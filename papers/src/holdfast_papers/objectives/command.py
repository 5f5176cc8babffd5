"""holdfast reproduce objectives: which objective foretells what failures do to the output, and whose plans leave the most of it."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from holdfast.app import example_path
from holdfast.assess import DEFAULT_OPTIONS, SECTION, build_campaign, describe_subject, parsed_trace, select_scores, show_progress
from holdfast.cli import spark_options, spark_session
from holdfast.errors import HoldfastError
from holdfast.terminal import say
from holdfast_papers.results import finish, result_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.assess import Assessment, CampaignContext, Case, Target, Way
    from holdfast_papers.objectives.study import Studied

APPLICATIONS = ("bargain_discovery", "datacenter_monitor", "top_pages", "traffic_incidents")
SHARES = (0.25, 0.5, 0.75)
"""Shares of the operators that plans are made for."""


@click.command()
@click.option("--application", "wanted", multiple=True, type=click.Choice(APPLICATIONS), help="Only these.  [default: all]")
@click.option("--generated", default=3, show_default=True, type=click.IntRange(0), help="Generated applications besides.")
@click.option(
    "--sets", default=12, show_default=True, type=click.IntRange(3), help="Sets of operators that fail together, at most."
)
@click.option("--events", default=60_000, show_default=True, type=click.IntRange(1000), help="Events of each generated trace.")
@click.option("--outage", default=4.0, show_default=True, help="Epochs that a failure lasts, at the peak rate.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of traces and of the sets.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("objectives"), show_default=True, help="Run again to resume.")
@spark_options
@result_options
def objectives(
    wanted: tuple[str, ...],
    generated: int,
    sets: int,
    events: int,
    outage: float,
    seed: int,
    out: Path,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Let sets of operators of applications fail together, and see which objective orders the damage as it is.

    For every set the damage to the output is measured by injection. Output fidelity (PPA), internal completeness (LAAR),
    criticality weighed by measured impacts, and the plain maximum of the impacts alone are held against it by rank correlation.
    Then every objective plans a quarter, half and three quarters of the operators, and all that its plan leaves open fails at once.
    The objective whose plans fall least short of the best is the one to plan by.

    \b
    Example:
      holdfast reproduce objectives --application bargain_discovery --generated 0 --sets 8
    """
    if not outage > 0:
        raise HoldfastError(f"--outage: wanted more than 0 epochs, got {outage:g}")
    out.mkdir(parents=True, exist_ok=True)
    command = (
        f"holdfast reproduce objectives --generated {generated} --sets {sets} --events {events} --outage {outage:g} --seed {seed}"
    )
    command += "".join(f" --application {name}" for name in wanted)
    studied: dict[str, Studied] = {}
    document: dict[str, Any] = {}
    names = [*(wanted or APPLICATIONS), *(f"generated_{seed + number}" for number in range(generated))]
    with spark_session(master, memory, name="holdfast objectives") as spark:
        for name in names:
            say(f"{name} ...")
            try:
                studied[name] = _studied(spark, name, out / name, events=events, sets=sets, outage=outage, seed=seed)
            except HoldfastError as error:
                say(f"{name} is left out: {error}")
                continue
            document = {"command": command, "seed": seed, **_document(studied)}
            _write(out, document, studied)  # so far: what follows takes minutes
    if not studied:
        raise HoldfastError("no application could be studied; what is said above tells why, of each")
    finish(document, as_json=as_json, show=lambda: _show(document, out))


def _document(studied: "Mapping[str, Studied]") -> dict[str, Any]:
    from holdfast_papers.objectives.study import OBJECTIVES, agreement, chosen, findings, shortfall, worse

    agreements = {by: {name: agreement(study.sets, by) for name, study in studied.items()} for by in ("impact", "wrong")}
    return {
        "default": chosen(list(studied.values())),
        "findings": [asdict(finding) for finding in findings(studied)],
        "agreement": agreements,
        "mean": {by: {each: fmean(row[each] for row in rows.values()) for each in OBJECTIVES} for by, rows in agreements.items()},
        "shortfall": {by: shortfall(studied.values(), by) for by in ("impact", "wrong")},
        "sets": {name: [asdict(each) for each in study.sets] for name, study in studied.items()},
        "plans": {name: [asdict(each) for each in study.plans] for name, study in studied.items()},
        "worse": {
            objective: {name: worse(study.plans, objective) for name, study in studied.items()}
            for objective in ("advised", "measured", "criticality")
        },
    }


def _studied(spark: "SparkSession", name: str, out: Path, **options: Any) -> "Studied":
    """What is known of an application from an earlier call with these options, or is found out now and kept."""
    from holdfast.documents import read_json, write_whole
    from holdfast_papers.objectives.study import studied_from

    out.mkdir(parents=True, exist_ok=True)
    text, kept = _application(name, out).read_text(), out / "study.json"
    asked = {**options, "application": hashlib.sha256(text.encode()).hexdigest()[:16]}
    if kept.exists() and (known := read_json(kept))["asked"] == asked:
        return studied_from(known)
    study = _study(spark, name, out, **options)
    write_whole(kept, json.dumps({"asked": asked, **asdict(study)}))
    return study


def _study(spark: "SparkSession", name: str, out: Path, *, events: int, sets: int, outage: float, seed: int) -> "Studied":
    """What every set foretold and did, and what every objective's plans lose."""
    from holdfast.advise import Budget, Prices, candidate_plans, losses_of, single_losses, whole_units
    from holdfast.app import load_app, topology_of
    from holdfast.assess import CampaignContext, Case, choose_targets
    from holdfast_papers.objectives.study import Damage, Planned, Studied, damage, failure_sets, felt, foretell

    file, trace = _application(name, out), out / "trace.parquet"
    if not trace.exists():
        _writer(name)(trace, events=events, seed=seed)
    app = load_app(file)
    graph = app.graph()
    choices = choose_targets(graph)
    with parsed_trace(spark, graph, str(trace), columns=None) as frames:
        context = CampaignContext(spark, app, frames, scores=select_scores(app, ())[:1], jitter=8, section=SECTION)
        everything = tuple(name for name in graph.order if name in {choice.name for choice in choices})
        trials = _Trials(context, describe_subject(context, file, str(trace), None), outage * app.epoch_s, seed, out)
        leaving = {each: float(len(seqs)) for each, seqs in context.stream_seqs(everything).items()}
        topology = whole_units(topology_of(graph, name=app.name, rates=leaving), graph)
        cases = [Case((choice.name,)) for choice in choices if choice.chosen]
        offsets = trials.offsets([*cases, Case(everything, at_once=True)])
        single = single_losses(choices, losses_of(trials.assessed(cases, "alone", offsets).cases))
        budgets = sorted({min(len(everything) - 1, max(1, round(len(everything) * share))) for share in SHARES})
        impact, even = {each: loss.mean for each, loss in single.items()}, Prices(dict.fromkeys(everything, 1), {})
        plans = [(budget, plan) for budget in budgets for plan in candidate_plans(topology, impact, Budget(replicas=budget), even)]
        left = [felt(graph, set(everything) - set(plan.protected)) for _, plan in plans]
        drawn = failure_sets(graph, everything, count=sets, seed=seed)
        together = [Case(failed, at_once=True) for failed in dict.fromkeys([*drawn, *left])]
        known = {view.case: damage(view) for view in trials.assessed(together, "together", offsets).cases}
        seen: dict[Target, Damage] = {case.target: known.get(case.name, Damage(0.0, 0.0)) for case in together}
    return Studied(
        sets=tuple(foretell(topology, single, failed, measured=seen[failed]) for failed in drawn),
        plans=tuple(
            Planned(budget, plan.objective, plan.protected, seen[failed])
            for (budget, plan), failed in zip(plans, left, strict=True)
        ),
    )


class _Trials:
    """Trials of one application, each folder a campaign of its own; what was tried is not tried again."""

    def __init__(self, context: "CampaignContext", subject: dict[str, Any], outage_s: float, seed: int, out: Path) -> None:
        self._context, self._subject, self._outage_s, self._seed, self._out = context, subject, outage_s, seed, out
        self._way: Way | None = None

    def offsets(self, cases: "Sequence[Case]") -> tuple[int, ...]:
        """Where the trace has room for the outage of each of these."""
        return build_campaign(self._context, cases, self._subject, self._wanted()).offsets

    def assessed(self, cases: "Sequence[Case]", folder: str, offsets: tuple[int, ...]) -> "Assessment":
        """What these cases do, each for the whole outage; those that have no tuples to lose are left out.

        Whether trials may share jobs is a matter of the operators, so it is tried with the first of all, and holds for the rest.
        """
        from holdfast.assess import Results, Runner, assess

        campaign = build_campaign(self._context, cases, self._subject, self._wanted(offsets))
        say(f"{folder}: {len(campaign.cases)} ways to fail, {campaign.size:,} trials")
        results = Results(self._out / folder, campaign)
        if not results.finished():
            with results.locked(), show_progress() as progress:
                context = self._context.sectioned(campaign.section)
                Runner(context, campaign, way=self._way or "auto", verify=self._way is None).run(results, progress=progress)
        facts, golden = results.read("facts") or {}, results.read("golden") or {}
        self._way = "slow" if facts.get("why_slow") else "auto"
        return assess(campaign, facts, golden, results.outcomes)[0]

    def _wanted(self, offsets: tuple[int, ...] = ()) -> dict[str, Any]:
        """What is asked of a campaign, as the options of `holdfast assess` have it."""
        asked = {"repetitions": 1, "outages": (self._outage_s,), "rate": "peak", "offsets": offsets, "seed": self._seed}
        return {**DEFAULT_OPTIONS, **asked}


def _application(name: str, out: Path) -> Path:
    """The file of an example, or of a generated application, which is written."""
    from holdfast_papers.objectives.generated import generated_application

    if name in APPLICATIONS:
        return example_path(f"{name}.py")
    file = out / "application.py"
    file.write_text(generated_application(int(name.rpartition("_")[2])))
    return file


def _writer(name: str) -> Callable[..., Any]:
    """What writes the trace of an application, at a rate at which 60,000 events last some dozens of its epochs."""
    from holdfast.trace import write_market, write_pages, write_servers, write_traffic

    writers: dict[str, Callable[..., Any]] = {
        "datacenter_monitor": write_servers,
        "top_pages": partial(write_pages, rate=200.0, peak=400.0),
        "traffic_incidents": partial(write_traffic, users=4000, segments=200, rate=60.0, every_s=5.0),
    }
    return writers.get(name, write_market)


def _write(out: Path, document: Mapping[str, Any], studied: "Mapping[str, Studied]") -> None:
    """Write objectives.json, objectives.html, and the table and the picture by themselves."""
    from holdfast.documents import write_whole
    from holdfast.report import on_its_own
    from holdfast_papers.objectives.report import foretold_picture, objectives_page, objectives_tables

    write_whole(out / "objectives.json", json.dumps(document, indent=2))
    write_whole(out / "objectives.html", objectives_page(document, studied))
    write_whole(out / "objectives.md", objectives_tables(document, studied))
    write_whole(out / "objectives.svg", on_its_own(foretold_picture(document)))


def _show(document: Mapping[str, Any], out: Path) -> None:
    for name, row in {**document["agreement"]["impact"], "mean": document["mean"]["impact"]}.items():
        click.echo(f"{name:20} " + "  ".join(f"{objective} {value:+.2f}" for objective, value in row.items()))
    for name, plans in document["plans"].items():
        for each in plans:
            who = ", ".join(each["protected"]) or "nothing"
            lost = each["lost"]
            click.echo(
                f"{name:20} {each['budget']} protected by {each['objective']:11} impact {lost['impact']:10.4g}, "
                f"{lost['wrong']:.2f} outages' worth wrong  ({who})"
            )
    for finding in document["findings"]:
        click.echo(f"{'holds' if finding['holds'] else 'does not hold'}: {finding['name']}: {finding['ours']}")
    click.echo(f"the objective to plan by, where plans cannot be tried: {document['default']}")
    click.echo(f"report: {out / 'objectives.html'}")
