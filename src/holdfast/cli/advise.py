"""holdfast advise: measure, plan, measure again with the plan in place, and say it on one page."""

import json
import math
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.advise_loop import SINGLE, Loop
from holdfast.cli.assess_campaign import scores_of, subject_of, trace_rows
from holdfast.cli.assess_fitting import SECTION
from holdfast.cli.shared import (
    columns_option,
    end_in_order,
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
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.advise.advice import Advice
    from holdfast.advise.verify import Stated, Verified
    from holdfast.assess.assessment import Assessment
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.score import OutputScore
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
    from holdfast.model.load import load_app

    _check(options)
    app = load_app(app_file)
    graph = app.graph()
    _quick_check(len([*graph.sources, *graph.operators]), options["budget"])
    mapping = read_columns(columns, [source.name for source in graph.sources])
    scores = scores_of(app, options["scores"], options["sink"])[:1]
    choices = choose_targets(graph)
    with spark_session(options["master"], options["memory"], name="holdfast advise") as spark:
        say(f"reading {trace} ...")
        with trace_rows(spark, graph, trace, columns=mapping) as frames:
            descriptor, topology, cpu = _profiled(spark, app, frames, out)
            setting = Setting(spark, app, frames, scores=scores, jitter=8, section=SECTION)
            subject = subject_of(setting, app_file, trace, mapping)
            advice, campaigns = Loop(setting, subject, choices, topology, options, out).run(cpu)
            strategy = _write_documents(advice, topology, descriptor, out, sla=options["ic"])
            document = _written(advice, campaigns, strategy, None, out)
            verified = None
            if options["verify"]:
                verified = _verified(spark, app_file, app, frames, _stated(advice, campaigns), score=scores[0], out=out)
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


def _stated(advice: "Advice", campaigns: "dict[str, tuple[Campaign, Assessment]]") -> "dict[str, Stated]":
    """What the trials showed of every operator with a replica, and of the costliest that has none: the range of qualities."""
    from holdfast.advise.verify import Stated

    held = advice.chosen.candidate.protected
    (again,) = (assessed for folder, (_, assessed) in campaigns.items() if folder != SINGLE)
    cases = {name: again.case(advice.failing_over[name].case) for name in held}
    first = campaigns[SINGLE][1]
    tried = {view.case for view in first.cases}
    others = [name for name in advice.ranking if name not in held and advice.single[name].case in tried]
    cases |= {name: first.case(advice.single[name].case) for name in others[:1]}
    qualities = {name: [quality for repeated in view.repeated for quality in repeated] for name, view in cases.items()}
    return {name: Stated(name in held, min(found), max(found)) for name, found in qualities.items()}


def _verified(
    spark: "SparkSession",
    app_file: Path,
    app: "App",
    frames: "dict[str, DataFrame]",
    stated: "dict[str, Stated]",
    *,
    score: "OutputScore",
    out: Path,
) -> "Verified":
    """Run the beginning of the trace with the plan and with real kills; how that compares with what was stated."""
    from pyspark.sql import functions as F

    from holdfast.advise.verify import targets_of, verify

    def scored(rows: "pa.Table") -> float:
        (found,) = spark.createDataFrame(rows).agg(F.expr(score.expression)).collect()[0]
        return float(found or 0.0)

    work = out / "verify"
    trace = _write_beginning(frames, work / "trace", kills=len(targets_of(app.graph(), stated)), epoch_s=app.epoch_s)
    say("running the application with real kills ...")
    end_in_order()
    return verify(app_file, trace, out / "plan.json", work, stated=stated, sink=score.sink, score=scored)


def _write_beginning(frames: "dict[str, DataFrame]", folder: Path, *, kills: int, epoch_s: float) -> Path:
    """The first seconds of a trace, as long as so many kills need, as a run takes it. Raises HoldfastError for a shorter trace."""
    from pyspark.sql import functions as F

    from holdfast.advise.verify import seconds_for

    shutil.rmtree(folder.parent, ignore_errors=True)
    spans = [frame.agg(F.min("time"), F.max("time")).collect()[0] for frame in frames.values()]
    begins, ends = min(first for first, _ in spans), max(last for _, last in spans)
    wanted_s = seconds_for(kills, epoch_s)
    if (ends - begins).total_seconds() < wanted_s:
        raise HoldfastError(
            f"--verify: {kills} kills need {wanted_s:g} s of trace, and it has {(ends - begins).total_seconds():.0f} s; give a "
            "longer trace or a smaller --budget (the advice itself has been written)"
        )
    for name, frame in frames.items():
        until = begins + timedelta(seconds=wanted_s)
        frame.where(F.col("time") < F.lit(until)).coalesce(1).write.parquet(str(folder / f"{name}.parquet"))
    return folder if len(frames) > 1 else folder / f"{next(iter(frames))}.parquet"


def _write_documents(advice: "Advice", topology: "Topology", descriptor: "Descriptor", out: Path, *, sla: float | None) -> str:
    """Write the plan and the strategy that 'holdfast run' takes; in words what the strategy promises."""
    from holdfast.model.document import write_document
    from holdfast.plan.laar import plan_strategy
    from holdfast.plan.ppa.document import PlanDocument, Replica

    held = advice.chosen.candidate.protected
    tasks = [f"{name}/{number}" for name in held for number in range(topology.operators[name].parallelism)]
    plan = PlanDocument(
        topology=topology.topology,
        parallelism={name: topology.operators[name].parallelism for name in topology.order},
        planner="advise",
        objective=advice.chosen.candidate.objective,
        budget=len(tasks),
        replicated=tuple(Replica(task=task, why=advice.why[task.rpartition("/")[0]]) for task in tasks),
    )
    write_document(out / "plan.json", plan)
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
