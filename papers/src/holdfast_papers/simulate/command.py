"""The command holdfast simulate: runs an application's descriptor in the cluster simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from holdfast.cli import FiniteRange, command_line, json_option
from holdfast.terminal import print_json, say

TIME, LENGTH = FiniteRange(min=0), FiniteRange(min=0, min_open=True)
SHOWN = 40
"""Rows of a table on the screen; the files of --out contain all rows."""


@click.command()
@click.argument("descriptor", metavar="DESCRIPTOR", type=click.Path())
@click.option("--strategy", default="sr", show_default=True, help="A strategy file (holdfast plan --out), or one of nr, sr, grd.")
@click.option(
    "--trace", metavar="RATES", help="CSV of time_s and a rate per source, or a configuration's name. [default: by probability]"
)
@click.option("--faults", "schedule", metavar="F", type=click.Path(), help="A fault schedule, as for holdfast run.")
@click.option(
    "--seconds",
    type=FiniteRange(min=1, max=10_000_000),
    default=300.0,
    show_default=True,
    help="Length of a generated trace.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of random arrivals.")
@click.option("--random-arrivals", is_flag=True, help="Let whole tuples arrive at random times (Poisson), not evenly.")
@click.option(
    "--scheme",
    type=click.Choice(["none", "checkpoint", "source"]),
    help="How a crashed replica recovers.  [default: none; with --epoch, checkpoint]",
)
@click.option("--detect", "detect_s", type=TIME, default=1.0, show_default=True, help="Seconds until a crash is detected.")
@click.option(
    "--restart",
    "restart_s",
    type=TIME,
    default=2.0,
    show_default=True,
    help="Seconds from detection to restart.",
)
@click.option("--checkpoint", "checkpoint_s", type=LENGTH, default=10.0, show_default=True, help="Seconds between checkpoints.")
@click.option("--window", "window_s", type=TIME, default=10.0, show_default=True, help="Seconds of input that form a PE's state.")
@click.option(
    "--queue",
    "queue_s",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Seconds of its highest rate that a queue holds; inf: no bound.",
)
@click.option(
    "--epoch",
    "epoch_s",
    type=TIME,
    default=0.0,
    help="Length of an epoch in seconds: PEs process whole epochs, as in holdfast run.",
)
@click.option("--job-cost", "job_s", type=TIME, default=0.0, help="CPU seconds of each job in addition to its tuples.")
@click.option("--step", "step_s", type=LENGTH, default=0.05, show_default=True, help="Length of a step in seconds.")
@click.option("--replace-dead", is_flag=True, help="Activate an idle replica if all active ones are dead, as holdfast run does.")
@click.option("--no-spares", is_flag=True, help="Replicas of a lost node return with it, not on a spare node.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the report: page, JSON, CSV.")
@json_option
def simulate(
    descriptor: str,
    strategy: str,
    trace: str | None,
    schedule: str | None,
    seconds: float,
    seed: int,
    random_arrivals: bool,
    scheme: Any,
    detect_s: float,
    restart_s: float,
    checkpoint_s: float,
    window_s: float,
    queue_s: float,
    epoch_s: float,
    job_s: float,
    step_s: float,
    replace_dead: bool,
    no_spares: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Simulate an application on a modelled cluster: queues, drops, CPU time, failures and recoveries.

    The simulator is for capacity planning and does not run the application's code. It reads the descriptor of holdfast profile with
    your nodes, and the strategies and fault schedules of a real run. The same seed gives the same result.

    \b
    Example:
      holdfast plan shop.yaml --out strategy.json
      holdfast simulate shop.yaml --strategy strategy.json --faults faults.yaml --out simulated
      holdfast simulate shop.yaml --strategy sr --trace high --seconds 60
    """
    import numpy as np

    from holdfast.documents import Descriptor, Schedule, read_document
    from holdfast.planning import DESCRIPTOR, read_kind
    from holdfast_papers.simulate import Control, FailureHandling, SimulationSettings
    from holdfast_papers.simulate import simulate as run
    from holdfast_papers.simulate.inputs import deployment_of, rates_of
    from holdfast_papers.simulate.verdicts import verdicts_of

    scheme = scheme or ("checkpoint" if epoch_s > 0 else "none")
    _report_options_without_effect(scheme=scheme, by_epoch=epoch_s > 0, from_file=trace is not None and Path(trace).exists())
    described = read_kind(descriptor, Descriptor, kinds=[DESCRIPTOR])
    faults = read_document(schedule, Schedule) if schedule else Schedule()
    settings = SimulationSettings(
        step_s=step_s,
        queue_s=queue_s,
        drain_s=5.0,
        epoch_s=epoch_s,
        job_s=job_s,
        control=Control(replace_dead=replace_dead),
        failure_handling=FailureHandling(
            detect_s=detect_s,
            restart_s=restart_s,
            spares=not no_spares,
            scheme=scheme,
            checkpoint_s=checkpoint_s,
            window_s=window_s,
        ),
    )
    deployment, promised = deployment_of(described, strategy)
    rates = rates_of(described, trace, seconds=seconds)
    rng = np.random.default_rng(seed) if random_arrivals else None
    outcome = run(deployment, rates, schedule=faults, settings=settings, rng=rng)
    document = outcome.document() | {
        "command": command_line(),
        "strategy": strategy,
        "seed": seed,
        "promised_ic": promised,
        "verdicts": [{"name": name, "holds": holds, "reason": text} for name, holds, text in verdicts_of(outcome, promised)],
    }
    if out is not None:
        from holdfast_papers.simulate.report import write_simulation

        write_simulation(out, outcome, document)
        say(f"report: {out / 'simulation.html'}")
    if as_json:
        print_json(document)
    else:
        _show(document)


def _report_options_without_effect(*, scheme: str, by_epoch: bool, from_file: bool) -> None:
    """Print which of the given options have no effect in this call."""
    context = click.get_current_context()
    messages = {
        "job_s": (not by_epoch, "--job-cost changes nothing without --epoch"),
        "restart_s": (scheme == "none", "--restart changes nothing with --scheme none"),
        "no_spares": (scheme == "none", "--no-spares changes nothing with --scheme none"),
        "checkpoint_s": (scheme != "checkpoint", "--checkpoint changes nothing without --scheme checkpoint"),
        "window_s": (scheme != "source", "--window changes nothing without --scheme source"),
        "queue_s": (scheme != "none", f"--queue changes nothing with --scheme {scheme}, which keeps all inputs"),
        "seconds": (from_file, "--seconds changes nothing with a trace from a file"),
    }
    for name, (idle, message) in messages.items():
        if idle and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            say(message)


def _show(document: dict[str, Any]) -> None:
    click.echo(
        f"{document['application']}: {document['seconds']:g} s, internal completeness {document['internal_completeness']:.4f}, "
        f"{document['cpu_s']:,.1f} CPU s, {document['missed']:,.0f} tuples missed, {document['dropped']:,.0f} dropped by replicas"
    )
    widths = {"in": 12, "processed": 12, "out": 12, "missed": 10, "dropped": 10, "queued": 9}
    click.echo(f"  {'PE':24} " + " ".join(f"{name:>{width}}" for name, width in widths.items()))
    for row in document["pes"][:SHOWN]:
        click.echo(f"  {row['pe']:24} " + " ".join(f"{row[name]:{width},.0f}" for name, width in widths.items()))
    if len(document["pes"]) > SHOWN:
        click.echo(f"  and {len(document['pes']) - SHOWN} more")
    for sink, output in document["output"].items():
        click.echo(f"  sink {sink:19} {output:12,.0f} tuples, {document['output_rate'][sink]:,.2f} a second")
    for row in document["nodes"][:SHOWN]:
        click.echo(f"  node {row['node']:19} {row['cpu_s']:12,.1f} CPU s, {row['busy']:.0%} busy")
    for row in document["recoveries"][:SHOWN]:
        click.echo(f"  {row['pe']} failed at {row['failed_s']:g} s: {row['by']}, {row['latency_s']:.2f} s after detection")
    for verdict in document["verdicts"]:
        word = {True: "holds", False: "BROKEN", None: "unknown"}[verdict["holds"]]
        click.echo(f"{word:7}  {verdict['name']}: {verdict['reason']}")
