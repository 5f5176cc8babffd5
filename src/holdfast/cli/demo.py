"""holdfast demo: what matters, the plan, a node killed half-way, output that goes on, and the proof that it is complete."""

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.advise.budget import ranked
from holdfast.app.examples import example_path
from holdfast.app.load import load_app
from holdfast.cli.run import run, run_in, tell_verdicts
from holdfast.cli.shared import json_option, spark_session
from holdfast.errors import CompoundError, HoldfastError
from holdfast.terminal import print_json, say

if TYPE_CHECKING:
    from holdfast.planning.ppa import PlanDocument

APPLICATION = "bargain_discovery.py"
KILLED = "n2"
PAST_S = 200
LEAST_S = 20


@click.command()
@click.option("--seconds", default=40, show_default=True, help="Seconds of a generated market to run through.")
@click.option("--budget", default=3, show_default=True, help="How many of the application's seven tasks may have a replica.")
@click.option("--seed", default=1, show_default=True, help="Seed of the generated market.")
@click.option(
    "--work", type=click.Path(path_type=Path, file_okay=False), help="Folder to keep it all in.  [default: a temporary one]"
)
@json_option
def demo(seconds: int, budget: int, seed: int, work: Path | None, as_json: bool) -> None:
    """Measure what matters in Bargain Discovery, replicate it, kill a node half-way, and prove that nothing was lost.

    \b
    Example:
      holdfast demo
      holdfast demo --work demo && holdfast ui demo/run     and look at it again
    """
    _check(seconds, budget)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as temporary:
        document, plan = _run(_folder(work) or Path(temporary), seconds=seconds, budget=budget, seed=seed)
    if work is None:
        document["out"] = document["log"] = document["report"] = None
    if as_json:
        print_json({**document, "plan": [replica.task for replica in plan.replicated]})
    elif document["state"] == "completed":
        _tell(document, work)
    check_ended_well(document)


def _check(seconds: int, budget: int) -> None:
    """Raise HoldfastError for what cannot be shown, before anything takes time."""
    graph = load_app(example_path(APPLICATION)).graph()
    most = len(graph.sources) + len(graph.operators)
    errors = []
    if seconds < LEAST_S:
        errors.append(f"--seconds: wanted at least {LEAST_S}, to show a failure and its repair, got {seconds}")
    if not 1 <= budget <= most:
        errors.append(f"--budget: wanted 1 to {most} replicas, got {budget}")
    if errors:
        raise CompoundError("the demo", errors)


def _folder(work: Path | None) -> Path | None:
    from holdfast.trial.job_run import create_run_folder

    return None if work is None else create_run_folder(work)


def _run(folder: Path, *, seconds: int, budget: int, seed: int) -> tuple[dict[str, Any], "PlanDocument"]:
    """Measure, plan and run in a folder; what there is to say of the run, and the plan."""
    from holdfast.trace import write_market

    market, past, plan_path, faults = (folder / name for name in ("market.parquet", "past.parquet", "plan.json", "faults.yaml"))
    say(f"1. generating {seconds} seconds of trades and quotes, and {PAST_S} seconds of the past to learn from ...")
    write_market(market, events=500 * seconds, seed=seed)
    write_market(past, events=500 * PAST_S, seed=seed + 1)
    say("2. losing each operator's tuples for 4 seconds, one operator at a time, at five places of the past ...")
    single, because = _measured(past, folder / "advice", seed=seed)
    plan = _planned(plan_path, budget, single=single, because=because)
    say("   what that does to the output (quality impact, the costliest first):")
    for name in ranked(single, single):
        replica = "replica" if f"{name}/0" in plan.tasks else "checkpoints"
        say(f"     {name:14} {single[name]:>12,.2f}  {replica}")
    faults.write_text(json.dumps({"faults": [{"at_s": seconds / 2, "kind": "crash", "what": "node", "target": [KILLED]}]}))
    say(f"3. running on three nodes; {KILLED} will be killed (SIGKILL) after {seconds / 2:.0f} s; nobody is told")
    options = ["--trace", market, "--plan", plan_path, "--faults", faults, "--checkpoint-epochs", 5, "--tentative-after", 1]
    arguments = run.make_context("run", [str(example_path(APPLICATION)), *map(str, options)]).params
    return run_in(folder / "run", **{name: value for name, value in arguments.items() if name != "work"}), plan


def check_ended_well(document: dict[str, Any]) -> None:
    """Raise HoldfastError for a run that did not complete, or whose verdicts are not all as they should be."""
    broken = [verdict["reason"] for verdict in document["verdicts"] if verdict["holds"] is False]
    if broken or document["state"] != "completed":
        why = "; ".join(broken) or document["reason"] or "no reason was given"
        raise HoldfastError(f"the run ended as {document['state']}; {why}; please report it")


def _measured(past: Path, out: Path, *, seed: int) -> tuple[dict[str, float], dict[str, str]]:
    """What each source and operator of the example costs when it fails alone, and why, by fault injection on a recorded trace."""
    from holdfast.advise.advice import reasons
    from holdfast.advise.loop import AdviceLoop
    from holdfast.app.task_topology import topology_of
    from holdfast.assess.campaign_context import CampaignContext
    from holdfast.assess.campaign_setup import describe_subject, parsed_trace, select_scores
    from holdfast.assess.fitting import SECTION
    from holdfast.report.assessment import write_reports

    app = load_app(example_path(APPLICATION))
    graph = app.graph()
    options = {"repetitions": 1, "outage_s": 4.0, "failover_s": None, "seed": seed}
    with (
        spark_session("local[*]", "2g", name="holdfast demo") as spark,
        parsed_trace(spark, graph, str(past), columns=None) as frames,
    ):
        context = CampaignContext(spark, app, frames, scores=select_scores(app, ()), jitter=8, section=SECTION)
        subject = describe_subject(context, example_path(APPLICATION), str(past), None)
        loop = AdviceLoop(context, subject, topology_of(graph, name=app.name), options, out, write_reports=write_reports)
        _, assessment, single = loop.assess_single_failures()
    return {name: loss.mean for name, loss in single.items()}, reasons(assessment, loop.choices)


def _planned(path: Path, budget: int, *, single: dict[str, float], because: dict[str, str]) -> "PlanDocument":
    """A plan for the example: a replica for what costs most when it fails."""
    from holdfast.advise.reasons import decided
    from holdfast.documents.document import write_document
    from holdfast.planning.ppa.plan_document import PlanDocument, PlannedReplica

    costliest = ranked(single, single)[:budget]
    document = PlanDocument(
        topology=load_app(example_path(APPLICATION)).name,
        planner="demo",
        objective="measured",
        budget=budget,
        replicated=tuple(PlannedReplica(task=f"{name}/0", why=decided(because[name], protected=True)) for name in costliest),
    )
    write_document(path, document)
    return document


def _tell(document: dict[str, Any], work: Path | None) -> None:
    struck = document["faults"][0]["tasks"] if document["faults"] else []
    tentative = next(
        v["figures"].get("inexact", 0) for v in document["verdicts"] if v["name"] == "every tentative result corrected"
    )
    gap = document["gap_s"]["bargains"]
    click.echo(f"""
{document["rows"]["bargains"]:,} bargains in {document["epochs"]} epochs of one second.
Node {KILLED} died with {", ".join(struck) or "nothing"} on it.
The longest silence of the output was {gap:.1f} s (an epoch is 1 s); {tentative} epochs left as tentative or absent
and were corrected.
""")
    for each in document["recoveries"]:
        click.echo(f"  {each['task']} was where it had been {each['recovered_s'] - each['failed_s']:.1f} s after the kill")
    tell_verdicts(document)
    again = (
        f"holdfast ui {work / 'run'}    the same run on the page, played back"
        if work is not None
        else "holdfast demo --work demo  the same again, kept for the page: holdfast ui demo/run plays it back"
    )
    click.echo(f"""
Next:  {again}
       holdfast init my-app       an application to start from
       holdfast advise --help     which of its operators deserve a replica, by injecting faults
       holdfast run --help        your own application, your own faults""")
