"""holdfast reproduce objectives: which planning objective predicts the damage of failures, and whose plans lose the least."""

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
    from holdfast_papers.objectives.study import ApplicationStudy

APPLICATIONS = ("bargain_discovery", "datacenter_monitor", "top_pages", "traffic_incidents")
SHARES = (0.25, 0.5, 0.75)
"""The shares of operators that plans protect."""


@click.command()
@click.option(
    "--application", "applications", multiple=True, type=click.Choice(APPLICATIONS), help="Only these applications.  [default: all]"
)
@click.option("--generated", default=3, show_default=True, type=click.IntRange(0), help="Number of generated applications.")
@click.option(
    "--sets", default=12, show_default=True, type=click.IntRange(3), help="Largest number of sets of operators that fail together."
)
@click.option("--events", default=60_000, show_default=True, type=click.IntRange(1000), help="Events of each generated trace.")
@click.option("--outage", default=4.0, show_default=True, help="Length of a failure in epochs, at the peak rate.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of traces and of the sets.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("objectives"), show_default=True, help="Run again to resume.")
@spark_options
@result_options
def objectives(
    applications: tuple[str, ...],
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
    """Let sets of operators fail together, and find the objective that predicts the damage best.

    For every set the damage to the output is measured by injection. The rank correlation with the damage is computed for output
    fidelity (PPA), internal completeness (LAAR), criticality weighed by measured impacts, and the largest single impact.
    Then every objective plans a quarter, half and three quarters of the operators, and all operators without a replica fail at
    once. The best objective is the one whose plans are closest to the best plan.

    \b
    Example:
      holdfast reproduce objectives --application bargain_discovery --generated 0 --sets 8
    """
    if not outage > 0:
        raise HoldfastError(f"--outage must be more than 0 epochs, got {outage:g}")
    out.mkdir(parents=True, exist_ok=True)
    command = (
        f"holdfast reproduce objectives --generated {generated} --sets {sets} --events {events} --outage {outage:g} --seed {seed}"
    )
    command += "".join(f" --application {name}" for name in applications)
    study_of: dict[str, ApplicationStudy] = {}
    document: dict[str, Any] = {}
    names = [*(applications or APPLICATIONS), *(f"generated_{seed + number}" for number in range(generated))]
    with spark_session(master, memory, name="holdfast objectives") as spark:
        for name in names:
            say(f"{name} ...")
            try:
                study_of[name] = _study_or_read(spark, name, out / name, events=events, sets=sets, outage=outage, seed=seed)
            except HoldfastError as error:
                say(f"{name} is left out: {error}")
                continue
            document = {"command": command, "seed": seed, **_document(study_of)}
            _write(out, document, study_of)  # after each application, because the next one takes minutes
    if not study_of:
        raise HoldfastError("no application could be studied; the messages above give the reason for each")
    finish(document, as_json=as_json, show=lambda: _show(document, out))


def _document(study_of: "Mapping[str, ApplicationStudy]") -> dict[str, Any]:
    from holdfast_papers.objectives.study import OBJECTIVES, agreement, chosen, findings, shortfall, worse

    agreements = {by: {name: agreement(study.sets, by) for name, study in study_of.items()} for by in ("impact", "wrong")}
    return {
        "default": chosen(list(study_of.values())),
        "findings": [asdict(finding) for finding in findings(study_of)],
        "agreement": agreements,
        "mean": {by: {each: fmean(row[each] for row in rows.values()) for each in OBJECTIVES} for by, rows in agreements.items()},
        "shortfall": {by: shortfall(study_of.values(), by) for by in ("impact", "wrong")},
        "sets": {name: [asdict(each) for each in study.sets] for name, study in study_of.items()},
        "plans": {name: [asdict(each) for each in study.plans] for name, study in study_of.items()},
        "worse": {
            objective: {name: worse(study.plans, objective) for name, study in study_of.items()}
            for objective in ("advised", "measured", "criticality")
        },
    }


def _study_or_read(spark: "SparkSession", name: str, out: Path, **options: Any) -> "ApplicationStudy":
    """Return the study of an application. Read it from an earlier call with these options, or make and store it."""
    from holdfast.documents import read_json, write_whole
    from holdfast_papers.objectives.study import read_study

    out.mkdir(parents=True, exist_ok=True)
    text, file_of_study = _application(name, out).read_text(), out / "study.json"
    key = {**options, "application": hashlib.sha256(text.encode()).hexdigest()[:16]}
    if file_of_study.exists() and (stored_study := read_json(file_of_study))["request"] == key:
        return read_study(stored_study)
    study = _study(spark, name, out, **options)
    write_whole(file_of_study, json.dumps({"request": key, **asdict(study)}))
    return study


def _study(spark: "SparkSession", name: str, out: Path, *, events: int, sets: int, outage: float, seed: int) -> "ApplicationStudy":
    """Study one application: the predicted and measured damage of each set, and the losses of each objective's plans."""
    from holdfast.advise import Budget, Prices, candidate_plans, losses_of, single_losses, whole_units
    from holdfast.app import load_app, topology_of
    from holdfast.assess import CampaignContext, Case, choose_targets
    from holdfast_papers.objectives.study import (
        ApplicationStudy,
        Damage,
        PlanOutcome,
        damage,
        effective_failures,
        failure_sets,
        predict_loss,
    )

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
        tuples_of = {each: float(len(seqs)) for each, seqs in context.stream_seqs(everything).items()}
        topology = whole_units(topology_of(graph, name=app.name, rates=tuples_of), graph)
        cases = [Case((choice.name,)) for choice in choices if choice.chosen]
        offsets = trials.offsets([*cases, Case(everything, at_once=True)])
        losses = single_losses(choices, losses_of(trials.assessed(cases, "alone", offsets).cases))
        budgets = sorted({min(len(everything) - 1, max(1, round(len(everything) * share))) for share in SHARES})
        impact, even = {each: loss.mean for each, loss in losses.items()}, Prices(dict.fromkeys(everything, 1), {})
        plans = [(budget, plan) for budget in budgets for plan in candidate_plans(topology, impact, Budget(replicas=budget), even)]
        uncovered = [effective_failures(graph, set(everything) - set(plan.protected)) for _, plan in plans]
        failed_sets = failure_sets(graph, everything, count=sets, seed=seed)
        correlated_cases = [Case(failed, at_once=True) for failed in dict.fromkeys([*failed_sets, *uncovered])]
        damage_of_case = {view.case: damage(view) for view in trials.assessed(correlated_cases, "together", offsets).cases}
        damage_of: dict[Target, Damage] = {
            case.target: damage_of_case.get(case.name, Damage(0.0, 0.0)) for case in correlated_cases
        }
    return ApplicationStudy(
        sets=tuple(predict_loss(topology, losses, failed, measured=damage_of[failed]) for failed in failed_sets),
        plans=tuple(
            PlanOutcome(budget, plan.objective, plan.protected, damage_of[failed])
            for (budget, plan), failed in zip(plans, uncovered, strict=True)
        ),
    )


class _Trials:
    """Trials of one application. Each folder is a campaign; trials with an outcome are not repeated."""

    def __init__(self, context: "CampaignContext", subject: dict[str, Any], outage_s: float, seed: int, out: Path) -> None:
        self._context, self._subject, self._outage_s, self._seed, self._out = context, subject, outage_s, seed, out
        self._way: Way | None = None

    def offsets(self, cases: "Sequence[Case]") -> tuple[int, ...]:
        """Return offsets at which the trace has room for the outage of each case."""
        return build_campaign(self._context, cases, self._subject, self._options()).offsets

    def assessed(self, cases: "Sequence[Case]", folder: str, offsets: tuple[int, ...]) -> "Assessment":
        """Assess these cases, each for the whole outage. Cases without tuples to lose are left out.

        Whether trials can share jobs depends on the operators, so it is tested with the first campaign only.
        """
        from holdfast.assess import Results, Runner, assess

        campaign = build_campaign(self._context, cases, self._subject, self._options(offsets))
        say(f"{folder}: {len(campaign.cases)} cases, {campaign.size:,} trials")
        results = Results(self._out / folder, campaign)
        if not results.finished():
            with results.locked(), show_progress() as progress:
                context = self._context.sectioned(campaign.section)
                Runner(context, campaign, way=self._way or "auto", verify=self._way is None).run(results, progress=progress)
        facts, golden = results.read("facts") or {}, results.read("golden") or {}
        self._way = "slow" if facts.get("why_slow") else "auto"
        return assess(campaign, facts, golden, results.outcomes)[0]

    def _options(self, offsets: tuple[int, ...] = ()) -> dict[str, Any]:
        """Return the options of `holdfast assess` for a campaign."""
        own = {"repetitions": 1, "outages": (self._outage_s,), "rate": "peak", "offsets": offsets, "seed": self._seed}
        return {**DEFAULT_OPTIONS, **own}


def _application(name: str, out: Path) -> Path:
    """Return the file of an example, or write a generated application and return its file."""
    from holdfast_papers.objectives.generated import generated_application

    if name in APPLICATIONS:
        return example_path(f"{name}.py")
    file = out / "application.py"
    file.write_text(generated_application(int(name.rpartition("_")[2])))
    return file


def _writer(name: str) -> Callable[..., Any]:
    """Return the function that writes an application's trace, at a rate at which 60,000 events last some dozens of epochs."""
    from holdfast.trace import write_market, write_servers
    from holdfast_papers.ppa.page_trace import write_pages
    from holdfast_papers.ppa.traffic_trace import write_traffic

    writers: dict[str, Callable[..., Any]] = {
        "datacenter_monitor": write_servers,
        "top_pages": partial(write_pages, rate=200.0, peak=400.0),
        "traffic_incidents": partial(write_traffic, users=4000, segments=200, rate=60.0, every_s=5.0),
    }
    return writers.get(name, write_market)


def _write(out: Path, document: Mapping[str, Any], study_of: "Mapping[str, ApplicationStudy]") -> None:
    """Write objectives.json, objectives.html, objectives.md with the tables, and objectives.svg."""
    from holdfast.documents import write_whole
    from holdfast.report import standalone_svg
    from holdfast_papers.objectives.report import correlation_picture, objectives_page, objectives_tables

    write_whole(out / "objectives.json", json.dumps(document, indent=2))
    write_whole(out / "objectives.html", objectives_page(document, study_of))
    write_whole(out / "objectives.md", objectives_tables(document, study_of))
    write_whole(out / "objectives.svg", standalone_svg(correlation_picture(document)))


def _show(document: Mapping[str, Any], out: Path) -> None:
    for name, row in {**document["agreement"]["impact"], "mean": document["mean"]["impact"]}.items():
        click.echo(f"{name:20} " + "  ".join(f"{objective} {value:+.2f}" for objective, value in row.items()))
    for name, plans in document["plans"].items():
        for each in plans:
            who = ", ".join(each["protected"]) or "nothing"
            lost = each["lost"]
            click.echo(
                f"{name:20} {each['budget']} protected by {each['objective']:11} impact {lost['impact']:10.4g}, "
                f"{lost['wrong']:.2f} outages of wrong output  ({who})"
            )
    for finding in document["findings"]:
        click.echo(f"{'holds' if finding['holds'] else 'does not hold'}: {finding['name']}: {finding['ours']}")
    click.echo(f"the objective to plan by, where plans cannot be tried: {document['default']}")
    click.echo(f"report: {out / 'objectives.html'}")
