"""holdfast demo: measure an example, replicate its costliest operators, kill a node, and check that the output is complete."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.advise.budget import ranked
from holdfast.app.examples import example_path
from holdfast.app.load import load_app
from holdfast.cli.run import print_verdicts, run_and_report
from holdfast.cli.shared import json_option, spark_session
from holdfast.errors import CompoundError, HoldfastError
from holdfast.terminal import print_json, say

if TYPE_CHECKING:
    from holdfast.planning.ppa import PlanDocument

APPLICATION = "bargain_discovery.py"
KILLED_NODE = "n2"
MEASURED_S = 200
"""Length of the market on which the operators are measured."""

MIN_SECONDS = 20
TUPLES_PER_S = 500


@click.command()
@click.option("--seconds", default=40, show_default=True, help="Length of the generated market in seconds.")
@click.option("--budget", default=3, show_default=True, help="Number of replicas for the seven tasks of the application.")
@click.option("--seed", default=1, show_default=True, help="Seed of the generated market.")
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for all files, new or empty.  [default: a temporary folder]",
)
@json_option
def demo(seconds: int, budget: int, seed: int, work: Path | None, as_json: bool) -> None:
    """Run Bargain Discovery with replicas of its costliest operators, kill a node, and check that nothing was lost.

    \b
    Example:
      holdfast demo
      holdfast demo --work demo && holdfast ui demo/run     play the run back
    """
    _check_options(seconds, budget)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as temporary:
        document, plan = _run(_folder(work) or Path(temporary), seconds=seconds, budget=budget, seed=seed)
    if work is None:
        document["out"] = document["log"] = document["report"] = None
    if as_json:
        print_json({**document, "plan": [replica.task for replica in plan.replicated]})
    elif document["state"] == "completed":
        _print_demo(document, work)
    require_success(document)


def _check_options(seconds: int, budget: int) -> None:
    """Raise CompoundError for options that the demo cannot work with."""
    graph = load_app(example_path(APPLICATION)).graph()
    task_count = len(graph.sources) + len(graph.operators)
    errors = []
    if seconds < MIN_SECONDS:
        errors.append(f"--seconds: wanted at least {MIN_SECONDS}, to show a failure and the recovery, got {seconds}")
    if not 1 <= budget <= task_count:
        errors.append(f"--budget: wanted 1 to {task_count} replicas, got {budget}")
    if errors:
        raise CompoundError("the demo", errors)


def _folder(work: Path | None) -> Path | None:
    from holdfast.trial.job_run import create_run_folder

    return None if work is None else create_run_folder(work)


def _run(folder: Path, *, seconds: int, budget: int, seed: int) -> tuple[dict[str, Any], "PlanDocument"]:
    """Measure, plan and run in a folder. Return the document of the run, and the plan."""
    from holdfast.documents.document import write_document
    from holdfast.documents.fault_schedule import Schedule, ScheduledFault
    from holdfast.documents.job import Contract, Feed, Job
    from holdfast.trace import write_market

    market, past, plan_path = folder / "market.parquet", folder / "past.parquet", folder / "plan.json"
    say(f"1. generating {seconds} seconds of trades and quotes to run on, and {MEASURED_S} seconds to measure on ...")
    write_market(market, events=TUPLES_PER_S * seconds, seed=seed)
    write_market(past, events=TUPLES_PER_S * MEASURED_S, seed=seed + 1)
    say("2. injecting a 4 s outage into each operator, at five offsets of the trace ...")
    losses, reasons = _measure_losses(past, folder / "advice", seed=seed)
    plan = _write_plan(plan_path, budget, losses=losses, reasons=reasons)
    say("   quality impact of each outage, costliest first:")
    for name in ranked(losses, losses):
        protection = "replica" if f"{name}/0" in plan.tasks else "checkpoints"
        say(f"     {name:14} {losses[name]:>12,.2f}  {protection}")
    schedule = Schedule(faults=(ScheduledFault(at_s=seconds / 2, kind="crash", what="node", target=(KILLED_NODE,)),))
    write_document(folder / "faults.yaml", schedule)
    say(f"3. running on three nodes; {KILLED_NODE} is killed (SIGKILL) after {seconds / 2:.0f} s")
    work = folder / "run"
    job = Job(
        job=Path(APPLICATION).stem,
        type="finite",
        application=str(example_path(APPLICATION).resolve()),
        feed=Feed(trace=str(market)),
        log=str(work / "log"),
        out=str(work / "out"),
        plan=str(plan_path),
        contract=Contract(checkpoint_epochs=5, tentative_after_s=1),
    )
    return run_and_report(job, work, schedule=schedule, nodes=3), plan


def require_success(document: dict[str, Any]) -> None:
    """Raise HoldfastError if a run did not complete or one of its verdicts is false."""
    broken = [verdict["reason"] for verdict in document["verdicts"] if verdict["holds"] is False]
    if broken or document["state"] != "completed":
        reason = "; ".join(broken) or document["reason"] or "no reason is known"
        raise HoldfastError(f"the run ended as {document['state']}; {reason}; please report it")


def _measure_losses(past: Path, out: Path, *, seed: int) -> tuple[dict[str, float], dict[str, str]]:
    """Return the quality impact of an outage of each source and operator of the example, and the reasons, by fault injection."""
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


def _write_plan(path: Path, budget: int, *, losses: dict[str, float], reasons: dict[str, str]) -> "PlanDocument":
    """Write a plan that replicates the operators with the highest losses."""
    from holdfast.advise.reasons import decided
    from holdfast.documents.document import write_document
    from holdfast.planning.ppa.plan_document import PlanDocument, PlannedReplica

    costliest = ranked(losses, losses)[:budget]
    document = PlanDocument(
        topology=load_app(example_path(APPLICATION)).name,
        planner="demo",
        objective="measured",
        budget=budget,
        replicated=tuple(PlannedReplica(task=f"{name}/0", why=decided(reasons[name], protected=True)) for name in costliest),
    )
    write_document(path, document)
    return document


def _print_demo(document: dict[str, Any], work: Path | None) -> None:
    tasks = document["faults"][0]["tasks"] if document["faults"] else []
    tentative = next(
        v["figures"].get("inexact", 0) for v in document["verdicts"] if v["name"] == "every tentative result corrected"
    )
    click.echo(f"""
{document["rows"]["bargains"]:,} bargains in {document["epochs"]} epochs of one second.
Node {KILLED_NODE} was killed while it ran {", ".join(tasks) or "nothing"}.
The longest silence of the output was {document["gap_s"]["bargains"]:.1f} s (an epoch is 1 s). {tentative} epochs were first output
as tentative or absent, and were corrected.
""")
    for recovery in document["recoveries"]:
        click.echo(f"  {recovery['task']} had caught up {recovery['recovered_s'] - recovery['failed_s']:.1f} s after the kill")
    print_verdicts(document)
    playback = (
        f"holdfast ui {work / 'run'}    play this run back in a browser"
        if work is not None
        else "holdfast demo --work demo  keep the run, then play it back: holdfast ui demo/run"
    )
    click.echo(f"""
Next:  {playback}
       holdfast init my-app       write an application to start from
       holdfast advise --help     find which of its operators need a replica
       holdfast run --help        run your own application with your own faults""")
