"""holdfast simulate: an application's descriptor on a modelled cluster, through faults, before it is deployed anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from holdfast.cli.shared import FiniteRange, json_option, this_call
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, say

if TYPE_CHECKING:
    from holdfast.documents.descriptor import Descriptor
    from holdfast.simulate import Deployment, RateTrace, SimulationOutcome

BASELINES = ("nr", "sr", "grd")
TIME, LENGTH = FiniteRange(min=0), FiniteRange(min=0, min_open=True)
SHOWN = 40
"""Rows of a table of PEs on the screen; the files of --out have all."""


@click.command()
@click.argument("descriptor", metavar="DESCRIPTOR", type=click.Path())
@click.option("--strategy", default="sr", show_default=True, help="A strategy's file (holdfast plan --out), or one of nr, sr, grd.")
@click.option(
    "--trace", metavar="RATES", help="CSV of time_s and a rate per source, or a configuration's name. [default: by probability]"
)
@click.option("--faults", "schedule", metavar="F", type=click.Path(), help="A fault schedule, as holdfast run takes it.")
@click.option(
    "--seconds",
    type=FiniteRange(min=1, max=10_000_000),
    default=300.0,
    show_default=True,
    help="Length of a trace that is made.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of random arrivals.")
@click.option("--random-arrivals", is_flag=True, help="Whole tuples at random moments in place of even ones.")
@click.option(
    "--scheme",
    type=click.Choice(["none", "checkpoint", "source"]),
    help="How a crash is made good.  [default: none; with --epoch, checkpoint]",
)
@click.option("--detect", "detect_s", type=TIME, default=1.0, show_default=True, help="Seconds until a crash is noticed.")
@click.option("--restart", "restart_s", type=TIME, default=2.0, show_default=True, help="Seconds until a replica is up again.")
@click.option("--checkpoint", "checkpoint_s", type=LENGTH, default=10.0, show_default=True, help="Seconds between checkpoints.")
@click.option(
    "--window", "window_s", type=TIME, default=10.0, show_default=True, help="Seconds of input that a PE's state is made of."
)
@click.option(
    "--queue",
    "queue_s",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="Seconds of the highest rate that a queue holds; inf: all.",
)
@click.option(
    "--epoch",
    "epoch_s",
    type=TIME,
    default=0.0,
    help="Length of an epoch in seconds: PEs take whole epochs, as holdfast run has them.",
)
@click.option(
    "--job-cost", "job_s", type=TIME, default=0.0, help="CPU seconds of a job of any number of epochs, beside its tuples."
)
@click.option("--step", "step_s", type=LENGTH, default=0.05, show_default=True, help="Length of a step in seconds.")
@click.option(
    "--replace-dead", is_flag=True, help="Activate a living replica where all active ones are dead, as holdfast run does."
)
@click.option("--no-spares", is_flag=True, help="What a lost node ran comes back with it, not on a spare node.")
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
    """Run a descriptor's application on a modelled cluster: queues, drops, CPU time, failures and recoveries, in a second.

    The descriptor is that of holdfast profile, with nodes; strategies and fault schedules are those of the real runtime. The
    same seed gives the same run.

    \b
    Example:
      holdfast plan shop.yaml --out strategy.json
      holdfast simulate shop.yaml --strategy strategy.json --faults faults.yaml --out simulated
      holdfast simulate shop.yaml --strategy sr --trace high --seconds 60
    """
    import numpy as np

    from holdfast.documents.descriptor import Descriptor
    from holdfast.documents.document import read_document
    from holdfast.documents.fault_schedule import Schedule
    from holdfast.planning.document_kinds import DESCRIPTOR, read_kind
    from holdfast.simulate import Control, FailureHandling, SimulationSettings
    from holdfast.simulate import simulate as run

    scheme = scheme or ("checkpoint" if epoch_s > 0 else "none")
    _tell_what_is_left_out(scheme=scheme, by_epoch=epoch_s > 0, from_file=trace is not None and Path(trace).exists())
    described = read_kind(descriptor, Descriptor, wanted=[DESCRIPTOR])
    faults = read_document(schedule, Schedule) if schedule else Schedule()
    settings = SimulationSettings(
        step_s=step_s,
        queue_s=queue_s,
        drain_s=5.0,
        epoch_s=epoch_s,
        job_s=job_s,
        control=Control(replace_dead=replace_dead),
        care=FailureHandling(
            detect_s=detect_s,
            restart_s=restart_s,
            spares=not no_spares,
            scheme=scheme,
            checkpoint_s=checkpoint_s,
            window_s=window_s,
        ),
    )
    deployment, promised = _deployed(described, strategy)
    rates = _rates(described, trace, seconds=seconds, seed=seed)
    rng = np.random.default_rng(seed) if random_arrivals else None
    outcome = run(deployment, rates, schedule=faults, settings=settings, rng=rng)
    document = outcome.document() | {
        "command": this_call(),
        "strategy": strategy,
        "seed": seed,
        "promised_ic": promised,
        "verdicts": [{"name": name, "holds": holds, "found": found} for name, holds, found in _verdicts(outcome, promised)],
    }
    if out is not None:
        from holdfast.report.simulation import write_simulation

        write_simulation(out, outcome, document)
        say(f"report: {out / 'simulation.html'}")
    if as_json:
        print_json(document)
    else:
        _show(document)


def _tell_what_is_left_out(*, scheme: str, by_epoch: bool, from_file: bool) -> None:
    """Say which of the options given change nothing in this call."""
    context = click.get_current_context()
    said = {
        "job_s": (not by_epoch, "--job-cost changes nothing without --epoch"),
        "restart_s": (scheme == "none", "--restart changes nothing with --scheme none"),
        "no_spares": (scheme == "none", "--no-spares changes nothing with --scheme none"),
        "checkpoint_s": (scheme != "checkpoint", "--checkpoint changes nothing without --scheme checkpoint"),
        "window_s": (scheme != "source", "--window changes nothing without --scheme source"),
        "queue_s": (scheme != "none", f"--queue changes nothing with --scheme {scheme}, which keeps all inputs"),
        "seconds": (from_file, "--seconds changes nothing with a trace from a file"),
    }
    for name, (idle, words) in said.items():
        if idle and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            say(words)


def _deployed(descriptor: Descriptor, strategy: str) -> tuple[Deployment, float | None]:
    """The deployment of a strategy's file or a baseline, and the IC that a file promises."""
    from holdfast.planning.laar import Instance, baseline, read_strategy
    from holdfast.simulate import Deployment

    if strategy.lower() in BASELINES:
        instance = Instance.of(descriptor)
        return Deployment.planned(descriptor, instance, baseline(strategy.upper(), instance)), None
    if not strategy or not Path(strategy).exists():
        raise HoldfastError(f"--strategy wants a strategy's file or one of {', '.join(BASELINES)}; there is no file '{strategy}'")
    read = read_strategy(strategy)
    return Deployment.of(descriptor, read), read.internal_completeness


def _rates(descriptor: Descriptor, trace: str | None, *, seconds: float, seed: int) -> RateTrace:
    import numpy as np

    from holdfast.simulate import drawn_rates, read_rates, steady_rates

    if trace is None:
        return drawn_rates(descriptor, np.random.default_rng(seed), seconds=seconds)
    names = [configuration.name for configuration in descriptor.input_configurations]
    if trace in names:
        return steady_rates(descriptor, trace, seconds=seconds)
    if not trace or not Path(trace).exists():
        raise HoldfastError(f"--trace wants a file of rates or a configuration ({', '.join(names)}); there is no file '{trace}'")
    return read_rates(trace, descriptor)


def _verdicts(outcome: SimulationOutcome, promised: float | None) -> list[tuple[str, bool | None, str]]:
    """Checks of the outcome; whether faults struck is judged by the runtime's own checker."""
    from holdfast.documents.history import HistoryEvent
    from holdfast.trial.checkers import every_fault_struck

    crashed = {event.about["pe"] for event in outcome.history() if event.kind == "fault"}
    works = crashed & outcome.working()
    out_by = float(outcome.imbalance.max())
    ic = outcome.internal_completeness
    faults = [HistoryEvent(event.at_s, "simulation", event.kind, event.about) for event in outcome.struck()]
    struck = every_fault_struck(faults, scheduled=len(outcome.faults))
    return [
        ("the books balance", out_by < 1e-6, f"tuples in differ from tuples out, dropped and queued by {out_by:.1e} at most"),
        ("nothing was lost", *_lost(outcome)),
        (
            "the promised internal completeness was kept",
            None if promised is None else ic >= promised - 1e-9,
            f"measured {ic:.4f}" + ("" if promised is None else f", promised {promised:.4f} under pessimistic failures"),
        ),
        (
            "every PE that failed came back",
            None if not crashed else crashed == works,
            f"{len(works)} of {len(crashed)} PEs that lost a replica have one that works at the end",
        ),
        *([(struck.name, struck.holds, struck.said)] if outcome.faults else []),
    ]


def _lost(outcome: SimulationOutcome) -> tuple[bool | None, str]:
    """Whether every tuple was processed: open, where none was missed and some still wait."""
    waits = float(outcome.ledger.queued[-1].sum())
    said = f"{outcome.missed:,.0f} tuples were missed by a PE" + (f", {waits:,.0f} wait at the end" if waits >= 0.5 else "")
    ic = outcome.internal_completeness
    if outcome.missed >= 0.5 or ic > 1 - 1e-6:
        return outcome.missed < 0.5, said
    return None if waits >= 0.5 else False, f"{said}; {ic:.2%} of what PEs were to process was processed"


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
    for sink, made in document["output"].items():
        click.echo(f"  sink {sink:19} {made:12,.0f} tuples, {document['output_rate'][sink]:,.2f} a second")
    for row in document["nodes"][:SHOWN]:
        click.echo(f"  node {row['node']:19} {row['cpu_s']:12,.1f} CPU s, {row['busy']:.0%} busy")
    for row in document["recoveries"][:SHOWN]:
        click.echo(f"  {row['pe']} failed at {row['failed_s']:g} s: {row['by']}, {row['latency_s']:.2f} s after it was noticed")
    for verdict in document["verdicts"]:
        word = {True: "holds", False: "FAILS", None: "open"}[verdict["holds"]]
        click.echo(f"{word:5}  {verdict['name']}: {verdict['found']}")
