"""holdfast run: an application on local nodes, through whatever a fault schedule does to it, to a verdict."""

import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from holdfast.cli.node import memory_bytes
from holdfast.cli.shared import FiniteRange, application_argument, columns_option, exit_on_signals, json_option
from holdfast.cli.ui import page_url
from holdfast.documents.column_mapping import read_columns
from holdfast.errors import CompoundError, HoldfastError
from holdfast.terminal import print_json, say

if TYPE_CHECKING:
    from holdfast.documents.job import Job
    from holdfast.engine.row_comparison import Difference
    from holdfast.trial.checkers import Verdict
    from holdfast.trial.job_run import JobRun


@click.command()
@application_argument
@click.option("--trace", help="Recorded trace to replay; without it the sources' own readers run.")
@columns_option
@click.option("--speed", default=1.0, show_default=True, help="How many times faster than recorded.")
@click.option("--plan", type=click.Path(), help="Plan (of holdfast plan) that says which tasks are replicated.")
@click.option("--strategy", type=click.Path(), help="Strategy (of holdfast plan) that says which replicas are active when.")
@click.option("--adapt", "adapt_s", type=float, help="Let the plan follow the measured rates, looked at every so many seconds.")
@click.option("--replicas", multiple=True, metavar="PE=N", help="Replicas of a PE or task, in place of a plan.")
@click.option("--faults", type=click.Path(), help="Fault schedule, in YAML.")
@click.option("--nodes", default=3, show_default=True, type=click.IntRange(1, 50), help="Local nodes, each a Spark of its own.")
@click.option("--racks", default=0, type=click.IntRange(0, 50), help="Spread the nodes over so many racks (label rack=r1 ...).")
@click.option("--cores", type=FiniteRange(min=0, min_open=True), default=1.0, show_default=True, help="Cores of each node.")
@click.option("--memory", default="1g", show_default=True, help="Heap of each node's Spark.")
@click.option("--master", help="Spark master of every node.  [default: local with the node's cores]")
@click.option("--spark-ui", is_flag=True, help="Serve each node's own Spark UI, and say where.")
@click.option("--checkpoint-epochs", default=10, show_default=True, help="Epochs between two checkpoints of a PE.")
@click.option("--tentative-after", "tentative_after_s", type=float, help="Go on without a dead PE after so many seconds.")
@click.option(
    "--correction/--no-correction", default=True, show_default=True, help="Make tentative results again once they can be exact."
)
@click.option(
    "--protection",
    type=click.Choice(["none", "upstream", "prediction"]),
    default="none",
    show_default=True,
    help="What is done about PEs that are merely late.",
)
@click.option("--deadline", "deadline_s", type=float, help="Predict an epoch that is not there so many seconds after its input.")
@click.option(
    "--reroute-after", "reroute_after_s", type=float, help="Re-route an epoch overdue for so many seconds.  [default: 30.0]"
)
@click.option(
    "--secondary", type=click.Choice(["quiet", "eager"]), default="quiet", show_default=True, help="When a secondary writes."
)
@click.option(
    "--for",
    "for_s",
    type=FiniteRange(min=0, min_open=True),
    help="Cancel the job after so many seconds (for sources without an end).",
)
@click.option("--log", "log_root", help="Where the epoch log lives: a folder or an object store's URL.  [default: in --work]")
@click.option("--out", type=click.Path(), help="Where the sinks write Parquet.  [default: in --work]")
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), help="Folder of the run.  [default: a temporary one]")
@click.option(
    "--verify/--no-verify", default=True, show_default=True, help="Compare the output with the whole trace run as one plan."
)
@json_option
def run(application: str, **options: Any) -> None:
    """Run an application on local nodes and prove, from its history, what became of its output.

    Starts an orchestrator and nodes as processes (the same as holdfast serve, node and submit), kills what --faults says, and ends
    with a verdict. With --work that folder then has run.html, a page with the verdicts and how it went. Exit code 1 if a verdict is
    false.

    \b
    Example:
      holdfast run examples/bargain_discovery.py --trace market.parquet --replicas trade_filter=2 --faults faults.yaml
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-run-") as temporary:
        kept = options["work"] is not None
        document = run_in(options.pop("work") or Path(temporary) / "run", application, **options)
    if not kept:  # what went with the temporary folder
        document |= {name: None for name, given in (("out", "out"), ("log", "log_root")) if options[given] is None}
        document["report"] = None
    if options["as_json"]:
        print_json(document)
    else:
        _tell(document)
    if kept:
        say(f"report: {document['report']}")
    if document["state"] == "failed" or any(verdict["holds"] is False for verdict in document["verdicts"]):
        raise click.exceptions.Exit(1)


def run_in(work: Path, application: str, **options: Any) -> dict[str, Any]:
    """Run in a folder and return what there is to say, as plain values."""
    from holdfast.documents.document import read_document
    from holdfast.documents.fault_schedule import Schedule
    from holdfast.job_layout import layout_of
    from holdfast.trial.fault_injector import resolve_faults
    from holdfast.trial.job_run import (
        create_run_folder,
        require_nodes,
        require_source_data,
        require_unused_log_and_output,
        require_writable,
        run_job,
    )
    from holdfast.trial.local_cluster import LocalCluster
    from holdfast.trial.run_view import View

    exit_on_signals()
    memory_bytes(options["memory"])
    schedule = read_document(options["faults"], Schedule) if options["faults"] else Schedule()
    work = create_run_folder(work)
    job = _job(application, work, options)
    layout = layout_of(job)
    require_nodes(layout, options["nodes"])
    require_unused_log_and_output(job, layout)
    require_writable(job)
    require_source_data(job)
    cluster = LocalCluster(
        work,
        nodes=options["nodes"],
        cores=options["cores"],
        memory=options["memory"],
        master=options["master"],
        racks=options["racks"],
        spark_ui=options["spark_ui"],
    )
    resolve_faults(schedule, layout.tasks, cluster, log=str(job.log))  # what is wrong with them is told before anything starts
    try:
        say(f"starting an orchestrator and {len(cluster.names)} nodes ...")
        client = cluster.start()
        say(f"watch it at {page_url(client.url, client.token)}")
        for node in client.nodes():
            if "spark_ui" in node["host_status"]["about"]:
                say(f"Spark's own UI of {node['name']}: {node['host_status']['about']['spark_ui']}")
        with View(Console(file=sys.stderr)) as view:
            ran = run_job(job, layout, cluster, schedule=schedule, for_s=options["for_s"], show=view.show)
    finally:
        cluster.close()
    document = _document(job, ran, options)
    return {**document, "report": str(_reported(work, document, ran))}


def _reported(work: Path, document: dict[str, Any], ran: "JobRun") -> Path:
    """Write the run's page into its folder; its path."""
    from holdfast.documents.whole_files import write_whole
    from holdfast.report.run import run_page

    path = work / "run.html"
    write_whole(path, run_page(document, events=ran.events, tasks=ran.tasks, timeline=ran.timeline, history=work))
    return path


def _job(application: str, work: Path, options: dict[str, Any]) -> "Job":
    from holdfast.documents.document import check_document
    from holdfast.documents.job import Job

    _check_protection(options)
    replicas = {}
    for text in options["replicas"]:
        name, equals, count = text.rpartition("=")
        if not (equals and count.isdigit() and int(count) > 0):
            raise HoldfastError(f"--replicas: wanted PE=N such as vwap=2, got '{text}'")
        replicas[name] = int(count)
    trace, columns = options["trace"], options["columns"]
    log = _absolute(options["log_root"]) if options["log_root"] else str(work / "log")
    promised = ("checkpoint_epochs", "tentative_after_s", "correction", "secondary", "protection", "deadline_s", "reroute_after_s")
    document = {
        "job": Path(application).stem,
        "type": "finite" if trace else "streaming",
        "application": str(Path(application).resolve()),
        "feed": {
            "trace": _absolute(trace) if trace else None,
            "columns": str(Path(columns).resolve()) if columns else None,
            "speed": options["speed"],
            "checkpoints": str(work / "readers") if "://" in log and not trace else None,
        },
        "log": log,
        "out": _absolute(options["out"]) if options["out"] else str(work / "out"),
        "plan": str(Path(options["plan"]).resolve()) if options["plan"] else None,
        "strategy": str(Path(options["strategy"]).resolve()) if options["strategy"] else None,
        "adapt": _adapting(options["plan"], options["adapt_s"]) if options["adapt_s"] is not None else None,
        "replicas": replicas,
        "contract": {name: options[name] for name in promised if options[name] is not None},
    }
    return check_document(document, Job, thing="the run")


def _check_protection(options: dict[str, Any]) -> None:
    """Raise CompoundError for what is said of another protection than the one that was asked for."""
    asked = (
        ("deadline_s", "--deadline", "prediction", "predicted"),
        ("reroute_after_s", "--reroute-after", "upstream", "re-routed"),
    )
    errors = [
        f"{option}: is for --protection {protection}, which was not asked for; nothing would be {done}"
        for name, option, protection, done in asked
        if options[name] is not None and options["protection"] != protection
    ]
    if errors:
        raise CompoundError("the run", errors)


def _adapting(plan: str | None, every_s: float) -> dict[str, Any]:
    """The plan's own budget and objective, looked at every so many seconds; its layout refuses one that rates cannot follow."""
    from holdfast.planning.ppa import read_plan

    if plan is None:
        raise HoldfastError("--adapt: wanted a --plan to begin with, got none; make one with holdfast plan")
    found = read_plan(plan)
    return {"budget": found.budget, "every_s": every_s, "objective": "ic" if found.objective == "ic" else "of"}


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).resolve())


def _document(job: "Job", ran: "JobRun", options: dict[str, Any]) -> dict[str, Any]:
    from holdfast.control import EXCEEDED
    from holdfast.planning.laar.strategy import read_strategy
    from holdfast.trial.checkers import check_run, count_output_rows, output_gap_s, recoveries
    from holdfast.trial.completeness import check_promised_completeness, internal_completeness

    sinks = [task.pe for task in ran.tasks if task.kind == "sink"]
    verdicts: list[Verdict] = []
    completeness = None
    if ran.timeline is not None:
        completeness = internal_completeness(ran.events, ran.timeline, tasks=ran.tasks)
        verdicts = check_run(ran.events, ran.timeline, sinks=sinks, correction=job.contract.correction, scheduled=ran.scheduled)
        if job.strategy is not None:
            verdicts.append(check_promised_completeness(completeness, promised=read_strategy(job.strategy).internal_completeness))
        if options["verify"] and job.feed.trace and ran.state == "completed":
            verdicts += _proven(job, ran)
    latencies = sorted(e.about["latency_s"] for e in ran.events if e.kind == "output" and e.about["as"] == "first")
    return {
        "application": job.application,
        "state": ran.state,
        "reason": ran.reason,
        "seconds": round(ran.seconds, 2),
        "epochs": None if ran.timeline is None or ran.timeline.last is None else ran.timeline.last - ran.timeline.first + 1,
        "rows": {sink: count_output_rows(ran.events, sink=sink) for sink in sinks},
        "latency_s": {"median": latencies[len(latencies) // 2], "worst": latencies[-1]} if latencies else None,
        "gap_s": {sink: output_gap_s(ran.events, sink=sink) for sink in sinks},
        "internal_completeness": None if completeness is None else asdict(completeness),
        "faults": [{"at_s": e.at_s, "what": e.about["what"], "tasks": e.about["tasks"]} for e in ran.events if e.kind == "fault"],
        "unprotected": {e.about["task"]: e.about["why"] for e in ran.events if e.kind == "unprotected"},
        "warnings": [e.about["text"] for e in ran.events if e.kind == "orchestrator" and EXCEEDED in e.about],
        "recoveries": [{**asdict(each), "latency_s": each.latency_s} for each in recoveries(ran.events)],
        "verdicts": [{"name": v.name, "holds": v.holds, "reason": v.reason, "figures": dict(v.figures)} for v in verdicts],
        "log": job.log,
        "out": job.out,
    }


def _proven(job: "Job", ran: "JobRun") -> "list[Verdict]":
    """The second law, checked against the whole trace run as one plan; unknown where that cannot be run."""
    from holdfast.trial.checkers import uncorrected_epochs
    from holdfast.trial.second_law import second_law, unknown_second_law

    say("comparing the output with the whole trace run as one plan ...")
    try:
        apart = _compared(job, ran)
    except HoldfastError as error:
        return [unknown_second_law(task.pe, error) for task in ran.tasks if task.kind == "sink"]
    left = {sink: 0 if job.contract.correction else len(uncorrected_epochs(ran.events, sink=sink)) for sink in apart}
    return [second_law(sink, difference, left_inexact=left[sink]) for sink, difference in apart.items()]


def _compared(job: "Job", ran: "JobRun") -> "dict[str, Difference | None]":
    """For each sink the first row in which its output and the whole trace run as one plan differ."""
    from holdfast.app.load import load_app
    from holdfast.engine.session import open_session
    from holdfast.engine.trace_reader import opened_trace
    from holdfast.log import Store
    from holdfast.trial.second_law import differences

    assert job.application and job.feed.trace and job.out and ran.timeline
    app = load_app(job.application)
    graph = app.graph()
    spark = open_session("local[*]", name="holdfast proof", memory="2g")
    try:
        mapping = read_columns(Path(job.feed.columns) if job.feed.columns else None, [s.name for s in graph.sources])
        with opened_trace(spark, graph, job.feed.trace, columns=mapping) as sources:
            return differences(spark, app, sources, out=Store(job.out), timeline=ran.timeline)
    finally:
        spark.stop()


def _tell(document: dict[str, Any]) -> None:
    from holdfast.trial.completeness import Completeness

    click.echo(f"{document['state']} after {document['seconds']:.0f} s" + (f": {document['reason']}" if document["reason"] else ""))
    if document["epochs"] or document["latency_s"]:
        rows = ", ".join(f"{sink} {rows:,} rows" for sink, rows in document["rows"].items())
        click.echo(f"  {document['epochs']} epochs; {rows}" if document["epochs"] else f"  {rows}")  # not all jobs have an end
    if document["latency_s"]:
        latency = document["latency_s"]
        click.echo(f"  from an epoch's close to its output: median {latency['median']:.2f} s, worst {latency['worst']:.2f} s")
    for sink, gap in document["gap_s"].items():
        click.echo(f"  longest silence of {sink}: {gap:.2f} s" if gap is not None else f"  {sink} never spoke twice")
    if document["internal_completeness"] is not None:
        click.echo(f"  processed in time (internal completeness): {Completeness(**document['internal_completeness'])}")
    for warning in document["warnings"]:
        click.echo(f"  warning: {warning}")
    for fault in document["faults"]:
        click.echo(f"  fault: {fault['what']}" + (f" (had {', '.join(fault['tasks'])})" if fault["tasks"] else ""))
    for task, why in document["unprotected"].items():
        click.echo(f"  not protected: {task}, whose prediction agent cannot stand in for it: {why}")
    for each in document["recoveries"]:
        parts = (
            each["detected_s"] - each["failed_s"],
            each["started_s"] - each["detected_s"],
            each["recovered_s"] - each["started_s"],
        )
        click.echo(
            "  {}: noticed after {:.1f} s, restored after {:.1f} s more, caught up after {:.1f} s more".format(each["task"], *parts)
        )
    click.echo()
    tell_verdicts(document)
    places = [f"{name}: {document[key]}" for name, key in (("output", "out"), ("log", "log")) if document[key] is not None]
    if places:
        click.echo("\n" + "   ".join(places))


def tell_verdicts(document: dict[str, Any]) -> None:
    """Print the verdicts of a run, a line each."""
    for verdict in document["verdicts"]:
        mark = {True: "holds  ", False: "BROKEN ", None: "unknown"}[verdict["holds"]]
        click.echo(f"  {mark} {verdict['name']}: {verdict['reason']}")
