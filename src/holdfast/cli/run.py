"""holdfast run: run an application on local nodes, inject the faults of a schedule, and check the output."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from holdfast.app.load import load_app
from holdfast.cli.node import memory_bytes
from holdfast.cli.shared import FiniteRange, application_argument, columns_option, exit_on_signals, json_option
from holdfast.cli.ui import page_url
from holdfast.errors import CompoundError, HoldfastError
from holdfast.terminal import print_json, say

if TYPE_CHECKING:
    from holdfast.documents.fault_schedule import Schedule
    from holdfast.documents.job import Job
    from holdfast.protocol.client import Client

NODE_OPTIONS = ("nodes", "cores", "memory", "master", "racks", "spark_ui")
CONTRACT_OPTIONS = (
    "checkpoint_epochs",
    "tentative_after_s",
    "correction",
    "secondary",
    "protection",
    "deadline_s",
    "reroute_after_s",
)


@click.command()
@application_argument
@click.option("--trace", help="Recorded trace to replay. Without it the readers of the sources run.")
@columns_option
@click.option("--speed", default=1.0, show_default=True, help="Speed of the replay, relative to the recording.")
@click.option("--plan", type=click.Path(), help="Plan that lists the replicated tasks (from holdfast plan).")
@click.option(
    "--strategy", type=click.Path(), help="Strategy that lists the active replicas per configuration (from holdfast plan)."
)
@click.option("--adapt", "adapt_s", type=float, help="Adapt the plan to the measured rates, at this interval in seconds.")
@click.option("--replicas", multiple=True, metavar="PE=N", help="Number of replicas of a PE or task, instead of a plan.")
@click.option("--faults", type=click.Path(), help="Fault schedule, in YAML.")
@click.option(
    "--nodes", default=3, show_default=True, type=click.IntRange(1, 50), help="Number of local nodes, each with a Spark of its own."
)
@click.option("--racks", default=0, type=click.IntRange(0, 50), help="Spread the nodes over this many racks (label rack=r1 ...).")
@click.option("--cores", type=FiniteRange(min=0, min_open=True), default=1.0, show_default=True, help="Cores of each node.")
@click.option("--memory", default="1g", show_default=True, help="Heap of each node's Spark.")
@click.option("--master", help="Spark master of every node.  [default: local with the node's cores]")
@click.option("--spark-ui", is_flag=True, help="Serve the Spark UI of each node, and print its address.")
@click.option("--checkpoint-epochs", default=10, show_default=True, help="Number of epochs between two checkpoints of a PE.")
@click.option(
    "--tentative-after",
    "tentative_after_s",
    type=float,
    help="Continue without a dead PE this many seconds after its death was noticed (that of a node: after 3 s).",
)
@click.option(
    "--correction/--no-correction",
    default=True,
    show_default=True,
    help="Correct tentative results when their exact input arrives.",
)
@click.option(
    "--protection",
    type=click.Choice(["none", "upstream", "prediction"]),
    default="none",
    show_default=True,
    help="What to do about PEs that are late but not dead.",
)
@click.option(
    "--deadline",
    "deadline_s",
    type=float,
    help="Seconds after its input when an epoch of a PE counts as late; with --protection prediction it is then predicted.",
)
@click.option(
    "--reroute-after",
    "reroute_after_s",
    type=float,
    help="Re-route an epoch that is overdue by this many seconds.  [default: 30.0]",
)
@click.option(
    "--secondary",
    type=click.Choice(["quiet", "eager"]),
    default="quiet",
    show_default=True,
    help="When a secondary writes records. quiet: only if the primary is late; eager: always.",
)
@click.option(
    "--for",
    "for_s",
    type=FiniteRange(min=0, min_open=True),
    help="Cancel the job after this many seconds (for sources without an end).",
)
@click.option("--log", "log_root", help="Folder or object-store URL of the epoch log.  [default: in --work]")
@click.option("--out", type=click.Path(), help="Folder or URL to which the sinks write Parquet.  [default: in --work]")
@click.option("--no-sync", is_flag=True, help="Faster, but log and output may not survive a power loss. For experiments.")
@click.option(
    "--work",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the run, new or empty.  [default: a temporary folder]",
)
@click.option("--resume", is_flag=True, help="Continue the interrupted run in --work, with the same options.")
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Compare the output with the whole trace run as one plan. Without a trace, the log keeps all rows that readers ingest.",
)
@json_option
def run(application: str, **options: Any) -> None:
    """Run an application on local nodes and check its output.

    Starts an orchestrator and nodes as processes (as holdfast serve, node and submit do), injects the faults of --faults, and
    prints verdicts about the run's history. With --work it also writes a report into that folder, run.html. The exit code is 1 if
    a verdict is false. A run that is interrupted still writes its report, and continues with --resume.

    \b
    Example:
      holdfast run examples/bargain_discovery.py --trace market.parquet --replicas trade_filter=2 --faults faults.yaml
    """
    from holdfast.documents.document import read_document
    from holdfast.documents.fault_schedule import Schedule
    from holdfast.trial.job_run import INTERRUPTED

    memory_bytes(options["memory"])
    if options["resume"] and options["work"] is None:
        raise HoldfastError("--resume requires --work, the folder of the interrupted run")
    schedule = read_document(options["faults"], Schedule) if options["faults"] else Schedule()
    with tempfile.TemporaryDirectory(prefix="holdfast-run-") as temporary:
        work = (options["work"] or Path(temporary) / "run").resolve()
        document = run_and_report(
            build_job(application, work, options),
            work,
            schedule=schedule,
            for_s=options["for_s"],
            verify=options["verify"],
            resume=options["resume"],
            **{name: options[name] for name in NODE_OPTIONS},
        )
    if options["work"] is None:  # the temporary folder is removed
        document |= {name: None for name, option in (("out", "out"), ("log", "log_root")) if options[option] is None}
        document["report"] = None
    if options["as_json"]:
        print_json(document)
    else:
        _print_run(document)
    if options["work"] is not None:
        say(f"report: {document['report']}")
    if document["state"] == INTERRUPTED:
        if options["work"] is not None:
            say("the run was interrupted; the same command with --resume continues it")
        raise click.exceptions.Exit(130)
    if document["state"] == "failed" or any(verdict["holds"] is False for verdict in document["verdicts"]):
        raise click.exceptions.Exit(1)


def run_and_report(
    job: "Job",
    work: Path,
    *,
    schedule: "Schedule",
    for_s: float | None = None,
    verify: bool = True,
    resume: bool = False,
    **node_options: Any,
) -> dict[str, Any]:
    """Run a job in a new folder, write its report there, and return the document of the run."""
    from holdfast.documents.whole_files import write_whole
    from holdfast.report.run import run_page
    from holdfast.trial.job_run import create_run_folder
    from holdfast.trial.local_cluster import LocalCluster
    from holdfast.trial.local_run import run_locally
    from holdfast.trial.run_document import describe_run
    from holdfast.trial.run_view import RunView

    assert job.application is not None
    app_name = load_app(job.application).name
    exit_on_signals()
    cluster = LocalCluster(create_run_folder(work, resume=resume), **node_options)
    with ExitStack() as stack:
        view = RunView(Console(file=sys.stderr), app_name)

        def show_cluster(client: "Client") -> None:
            _print_addresses(client)
            stack.enter_context(view)

        job_run = run_locally(
            job,
            cluster,
            schedule=schedule,
            for_s=for_s,
            verify=verify,
            on_start=lambda: say(f"starting an orchestrator and {len(cluster.names)} nodes ..."),
            on_started=show_cluster,
            show=view.show,
            resume=resume,
        )
    document = describe_run(job, job_run, verify=verify)
    report = work / "run.html"
    write_whole(report, run_page(document, events=job_run.events, tasks=job_run.tasks, timeline=job_run.timeline, history=work))
    return {**document, "report": str(report)}


def _print_addresses(client: "Client") -> None:
    say(f"watch it at {page_url(client.url, client.token)}")
    for node in client.nodes():
        if "spark_ui" in node["host_status"]["about"]:
            say(f"Spark UI of {node['name']}: {node['host_status']['about']['spark_ui']}")


def build_job(application: str, work: Path, options: dict[str, Any]) -> "Job":
    """Return the job that the options describe. Raises HoldfastError if they contradict each other."""
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
        "sync": not options["no_sync"],
        "plan": str(Path(options["plan"]).resolve()) if options["plan"] else None,
        "strategy": str(Path(options["strategy"]).resolve()) if options["strategy"] else None,
        "adapt": _adaptation(options["plan"], options["adapt_s"]) if options["adapt_s"] is not None else None,
        "replicas": replicas,
        "contract": {name: options[name] for name in CONTRACT_OPTIONS if options[name] is not None},
    }
    return check_document(document, Job, thing="the run")


def _check_protection(options: dict[str, Any]) -> None:
    """Raise CompoundError for options that require another --protection."""
    deadline = () if options["strategy"] else (("deadline_s", "--deadline", "prediction"),)
    required = (*deadline, ("reroute_after_s", "--reroute-after", "upstream"))
    errors = [
        f"{option} requires --protection {protection}, got --protection {options['protection']}"
        for name, option, protection in required
        if options[name] is not None and options["protection"] != protection
    ]
    if errors:
        raise CompoundError("the run", errors)


def _adaptation(plan: str | None, every_s: float) -> dict[str, Any]:
    """Return the adaptation settings: the plan's budget and objective. The layout refuses an objective that rates cannot follow."""
    from holdfast.planning.ppa import read_plan

    if plan is None:
        raise HoldfastError("--adapt requires a --plan to start from; create one with holdfast plan")
    document = read_plan(plan)
    return {"budget": document.budget, "every_s": every_s, "objective": "ic" if document.objective == "ic" else "of"}


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).resolve())


def _print_run(document: dict[str, Any]) -> None:
    from holdfast.trial.completeness import Completeness
    from holdfast.trial.switch_times import describe_switch

    click.echo(f"{document['state']} after {document['seconds']:.0f} s" + (f": {document['reason']}" if document["reason"] else ""))
    if document["epochs"] or document["latency_s"]:
        rows = ", ".join(f"{sink} {rows:,} rows" for sink, rows in document["rows"].items())
        click.echo(f"  {document['epochs']} epochs; {rows}" if document["epochs"] else f"  {rows}")  # a streaming job has no end
    if document["latency_s"]:
        latency = document["latency_s"]
        click.echo(f"  from an epoch's close to its output: median {latency['median']:.2f} s, worst {latency['worst']:.2f} s")
    for sink, gap_s in document["gap_s"].items():
        click.echo(f"  longest silence of {sink}: {gap_s:.2f} s" if gap_s is not None else f"  {sink}: fewer than two outputs")
    if document["internal_completeness"] is not None:
        click.echo(f"  processed in time (internal completeness): {Completeness(**document['internal_completeness'])}")
    for warning in document["warnings"]:
        click.echo(f"  warning: {warning}")
    for fault in document["faults"]:
        click.echo(f"  fault: {fault['what']}" + (f", which hit {', '.join(fault['tasks'])}" if fault["tasks"] else ""))
    for task, reason in document["unprotected"].items():
        click.echo(f"  not protected: {task}: its prediction agent cannot predict: {reason}")
    for recovery in document["recoveries"]:
        detect_s = recovery["detected_s"] - recovery["failed_s"]
        restart_s = recovery["started_s"] - recovery["detected_s"]
        catch_up_s = recovery["recovered_s"] - recovery["started_s"]
        steps = f"detected in {detect_s:.1f} s, restarted in {restart_s:.1f} s, caught up in {catch_up_s:.1f} s"
        click.echo(f"  {recovery['task']}: {steps}")
    for switch in document["switches"]:
        click.echo(f"  {describe_switch(switch)}")
    click.echo()
    print_verdicts(document)
    locations = [f"{name}: {document[key]}" for name, key in (("output", "out"), ("log", "log")) if document[key] is not None]
    if locations:
        click.echo("\n" + "   ".join(locations))


def print_verdicts(document: dict[str, Any]) -> None:
    """Print the verdicts of a run, one per line."""
    for verdict in document["verdicts"]:
        mark = {True: "holds  ", False: "BROKEN ", None: "unknown"}[verdict["holds"]]
        click.echo(f"  {mark} {verdict['name']}: {verdict['reason']}")
