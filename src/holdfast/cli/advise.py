"""holdfast advise: measure, plan, measure again with the plan in place, and say it on one page."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.advise_loop import Loop
from holdfast.cli.advise_verify import stated_of, verified_by_kills
from holdfast.cli.assess_campaign import scores_of, subject_of, trace_rows
from holdfast.cli.assess_fitting import SECTION
from holdfast.cli.shared import (
    columns_option,
    json_option,
    print_json,
    progress_bar,
    read_columns,
    say,
    spark_options,
    spark_session,
)
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.advise.advice import Advice
    from holdfast.advise.verify import Verified
    from holdfast.assess.assessment import Assessment
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.setting import Setting
    from holdfast.model import App
    from holdfast.model.descriptor import Descriptor
    from holdfast.model.topology import Topology
    from holdfast.profile import Measurement


@click.command()
@click.argument("app_file", metavar="APP", type=click.Path(path_type=Path))
@click.option("--trace", required=True, help="The recorded trace: a file, or a folder with a file per source.")
@columns_option
@click.option(
    "--budget",
    metavar="N|P%",
    help="How many operators and sources may have a replica, such as 3; or the share of full replication's CPU that replicas may "
    "take, such as 30%.  [default: 50%]",
)
@click.option("--ic", type=float, help="Instead: as few as keep this internal completeness when everything else fails.")
@click.option("--loss", type=float, help="Instead: as few as leave at most this share of the loss under single failures.")
@click.option(
    "--outage", "outage_s", type=float, help="Seconds at the peak rate that a failure lasts without a replica.  [default: up to 16]"
)
@click.option("--failover", "failover_s", type=float, help="Seconds that a replica needs to take over.  [default: an epoch]")
@click.option("--repetitions", default=3, show_default=True, type=click.IntRange(1), help="Arrival orders to try at each.")
@click.option(
    "--score", "scores", multiple=True, metavar="SQL", help="Aggregate over the sink's rows. [default: the application's]"
)
@click.option("--sink", help="The sink to score. [default: the application's scored sink]")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of every random choice.")
@click.option("--verify", is_flag=True, help="Also run the application with real kills, and hold the promise against them.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("advice"),
    show_default=True,
    help="Folder for it all; run again to resume.",
)
@spark_options
@json_option
def advise(**options: Any) -> None:
    """Say which operators of APP deserve a replica, on the evidence of injected faults.

    Profiles and assesses the application, makes plans by what was measured, by output fidelity and by internal completeness,
    injects single and correlated failures with each plan in place, and recommends the one that loses least. Writes advice.html,
    advice.json, plan.json and strategy.json for 'holdfast run'. Interrupted, it goes on from where it was when called again.

    \b
    Example:
      holdfast trace market --events 200000 --out market.parquet
      holdfast advise examples/bargain_discovery.py --trace market.parquet --budget 50%
    """
    _advise(**options)


def _advise(*, app_file: Path, trace: str, columns: Path | None, out: Path, as_json: bool, **options: Any) -> None:
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import choose_targets
    from holdfast.execute.trace import require_there
    from holdfast.model.load import load_app

    _check(options)
    app = load_app(app_file)
    graph = app.graph()
    _quick_check(len([*graph.sources, *graph.operators]), options["budget"])
    mapping = read_columns(columns, [source.name for source in graph.sources])
    scores = scores_of(app, options["scores"], options["sink"])[:1]
    choices = choose_targets(graph)
    require_there(trace)
    with spark_session(options["master"], options["memory"], name="holdfast advise") as spark:
        say(f"reading {trace} ...")
        with trace_rows(spark, graph, trace, columns=mapping) as frames:
            setting = Setting(spark, app, frames, scores=scores, jitter=8, section=SECTION)
            _require_length(setting, outage_s=options["outage_s"], verify=options["verify"])
            descriptor, topology, cpu = _profiled(spark, app, frames, out)
            subject = subject_of(setting, app_file, trace, mapping)
            advice, campaigns = Loop(setting, subject, choices, topology, options, out).run(cpu)
            strategy = _write_documents(advice, topology, descriptor, out, sla=options["ic"])
            document = _written(advice, campaigns, strategy, None, out)
            verified = None
            if options["verify"]:
                verified = verified_by_kills(spark, app_file, app, frames, stated_of(advice, campaigns), score=scores[0], out=out)
                document = _written(advice, campaigns, strategy, verified, out)
    print_json(document) if as_json else _tell(advice, strategy, verified.said() if verified else [], out)
    if verified is not None and not verified.holds:
        raise click.exceptions.Exit(1)


def _check(options: dict[str, Any]) -> None:
    given = [f"--{name}" for name in ("budget", "ic", "loss") if options[name] is not None]
    if len(given) > 1:
        raise HoldfastError(f"{' and '.join(given)} say different things; give one of them")
    for name in ("ic", "loss"):
        if options[name] is not None and not 0 <= options[name] <= 1:
            raise HoldfastError(f"--{name}: wanted a share from 0 to 1, got {options[name]:g}")
    for name in ("outage", "failover"):
        seconds = options[f"{name}_s"]
        if seconds is not None and not 0 < seconds < math.inf:
            raise HoldfastError(f"--{name}: wanted more than 0 seconds, got {seconds:g}")


def _quick_check(most: int, budget: str | None) -> None:
    """Refuse at once what is no budget; whether a share of the CPU pays for anything is known only when that was measured."""
    from holdfast.advise.budget import Budget

    given = Budget.of(budget) if budget is not None else None
    if given is not None and given.replicas is not None:
        given.check(dict.fromkeys(map(str, range(most)), 1.0))


def _require_length(setting: "Setting", *, outage_s: float | None, verify: bool) -> None:
    """Raise HoldfastError for a trace that is too short for what is asked, before anything is measured on it."""
    from holdfast.advise.verify import seconds_for

    rows, epoch_s = setting.rows, setting.app.epoch_s
    lost = (outage_s or 0.0) * rows.tempo.peak
    if lost > len(rows.seq):
        raise HoldfastError(
            f"--outage: {outage_s:g} s at the peak rate of {rows.tempo.peak:,.0f} tuples a second take {lost:,.0f} tuples, and the "
            f"trace has {len(rows.seq):,}; give a shorter outage, or a longer trace"
        )
    first, last = setting.epochs
    wanted_s, there_s = seconds_for(2, epoch_s), (last - first + 1) * epoch_s
    if verify and there_s < wanted_s:
        raise HoldfastError(
            f"--verify: with a replica and without one takes two kills, which need {wanted_s:g} s of trace, and it has "
            f"{there_s:g} s; give a longer trace"
        )


def _profiled(
    spark: "SparkSession", app: "App", frames: "dict[str, DataFrame]", out: Path
) -> "tuple[Descriptor, Topology, dict[str, float]]":
    """Measured rates and costs: as a descriptor, as a topology, and CPU seconds per second of every source and operator."""
    from holdfast.model.document import write_document
    from holdfast.model.tasks import topology_of
    from holdfast.plan.laar import expected_work
    from holdfast.profile import describe, measure

    with progress_bar("measuring PEs") as bar:
        measurement: Measurement = measure(spark, app, frames, progress=lambda what, done, total: bar(done, total))
    descriptor = describe(app, measurement, hosts=2)
    named = {host: f"n{number}" for number, host in enumerate(descriptor.hosts, 1)}  # as holdfast run names its nodes
    descriptor = descriptor.model_copy(update={"hosts": {named[host]: about for host, about in descriptor.hosts.items()}})
    topology = topology_of(app.graph(), name=app.name, rates=measurement.leaving, shares=measurement.shares)
    out.mkdir(parents=True, exist_ok=True)
    write_document(out / "descriptor.yaml", descriptor)
    write_document(out / "topology.yaml", topology)
    cpu = dict.fromkeys(topology.operators, 0.0)
    cpu |= {source: cost_s * measurement.leaving[source] for source, cost_s in measurement.reading_s.items()}
    for configuration in descriptor.input_configurations:
        work = expected_work(descriptor, configuration)
        for name, described in descriptor.pes.items():
            operators = described.operators or (name,)
            for operator in operators:
                cpu[operator] += configuration.probability * work[name] / len(operators)
    return descriptor, topology, cpu


def _written(
    advice: "Advice",
    campaigns: "dict[str, tuple[Campaign, Assessment]]",
    strategy: str,
    verified: "Verified | None",
    out: Path,
) -> dict[str, Any]:
    """Write the page and the document; the document."""
    from holdfast.assess.files import write_whole
    from holdfast.report.advice import advice_page

    write_whole(out / "advice.html", advice_page(advice, campaigns, [strategy], verified))
    document = {
        **advice.document(),
        "trials": {
            folder: {"report": f"{folder}/report.json", "seed": campaign.seed, "cases": [case.name for case in campaign.cases]}
            for folder, (campaign, _) in campaigns.items()
        },
        "verified": verified.document() if verified else None,
        "strategy": strategy,
        "out": str(out),
    }
    write_whole(out / "advice.json", json.dumps(document, indent=2))
    return document


def _write_documents(advice: "Advice", topology: "Topology", descriptor: "Descriptor", out: Path, *, sla: float | None) -> str:
    """Write the plan and the strategy that 'holdfast run' takes; in words what the strategy promises."""
    from holdfast.advise.document import plan_document
    from holdfast.model.document import write_document
    from holdfast.plan.laar import plan_strategy

    write_document(out / "plan.json", plan_document(advice, topology))
    try:
        planned = plan_strategy(descriptor, sla=sla, seconds=20.0)
    except HoldfastError as error:
        return f"There is no strategy for activation by load: {error}"
    write_document(out / "strategy.json", planned.explained())
    return (
        "As an alternative, strategy.json switches replicas with the load on two one-core hosts and keeps an internal "
        f"completeness of {planned.strategy.internal_completeness:.2f} (asked for: {planned.strategy.sla:.2f})."
    )


def _tell(advice: "Advice", strategy: str, verified: Sequence[str], out: Path) -> None:
    document = advice.document()
    chosen, following = advice.chosen, advice.next_unit()
    click.echo(
        f"Protect {', '.join(chosen.candidate.protected)} ({document['cost']['share_of_full']:.0%} of full replication's CPU)."
    )
    click.echo(
        f"Expected quality impact of one failure: {advice.unprotected.mean:,.4g} without, {chosen.single.mean:,.4g} with "
        f"({chosen.single.least:,.4g} to {chosen.single.greatest:,.4g} over offsets; between arrival orders quality differed by at "
        f"most {advice.widest.by_seed:.2g}): {advice.left:.1%} is left."
    )
    click.echo(f"When everything without a replica fails at once: {chosen.together.mean:,.4g}.")
    for name in advice.ranking:
        mark = "*" if name in chosen.candidate.protected else " "
        click.echo(f" {mark} {name}: {advice.single[name].mean:,.4g}")
        click.echo(click.wrap_text(advice.why[name], width=120, initial_indent="     ", subsequent_indent="     "))
    for each in advice.weighed:
        click.echo(
            f"plan by {each.candidate.objective}: {', '.join(each.candidate.protected)}: one failure {each.single.mean:,.4g}, all "
            f"others at once {each.together.mean:,.4g}"
        )
    if following is not None:
        click.echo(
            f"The next replica should be of {following.operator}, for {following.cpu:.0%} more of full replication's CPU: "
            f"{following.left:.1%} of the loss would then be left."
        )
    for text in (strategy, *verified):
        click.echo(text)
    click.echo(f"report: {out / 'advice.html'}; next: holdfast run APP --trace FILE --plan {out / 'plan.json'}")
