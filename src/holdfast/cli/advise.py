"""holdfast advise: measure, plan, measure again with the plan in place, and write a report."""

import json
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.shared import columns_option, exit_on_signals, json_option, spark_options, spark_session
from holdfast.documents.column_mapping import read_columns
from holdfast.errors import CompoundError, HoldfastError
from holdfast.terminal import print_json, say

if TYPE_CHECKING:
    from holdfast.advise.advice import Advice
    from holdfast.advise.profile import Profile
    from holdfast.advise.verification import Verified
    from holdfast.app import Graph
    from holdfast.assess.assessment import Assessment
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.campaign_context import CampaignContext


@click.command()
@click.argument("app_file", metavar="APP", type=click.Path(path_type=Path))
@click.option("--trace", required=True, help="The recorded trace: a file, or a folder with a file per source.")
@columns_option
@click.option(
    "--budget",
    metavar="N|P%",
    help="Number of task replicas, such as 3 (an operator with 4 tasks takes 4); or a share of the CPU of full replication, such "
    "as 30%.  [default: 50%]",
)
@click.option(
    "--ic",
    type=float,
    help="Instead of a budget: the fewest replicas that keep this internal completeness when everything else fails.",
)
@click.option(
    "--loss",
    type=float,
    help="Instead of a budget: the fewest replicas that leave at most this share of the loss under single failures.",
)
@click.option(
    "--outage",
    "outage_s",
    type=float,
    help="Seconds of a failure without a replica, at the peak rate.  [default: up to 16]",
)
@click.option("--failover", "failover_s", type=float, help="Seconds that a replica needs to take over.  [default: an epoch]")
@click.option("--repetitions", default=3, show_default=True, type=click.IntRange(1), help="Arrival orders per trial.")
@click.option(
    "--score", "scores", multiple=True, metavar="SQL", help="Aggregate over the sink's rows. [default: the application's]"
)
@click.option("--sink", help="The sink to score. [default: the application's scored sink]")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of every random choice.")
@click.option("--verify", is_flag=True, help="Also run the application, kill PEs, and check that no kill costs more than stated.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("advice"),
    show_default=True,
    help="Folder for results; run again to resume.",
)
@spark_options
@json_option
def advise(**options: Any) -> None:
    """Recommend which operators of APP to replicate, based on injected faults.

    Profiles and assesses the application, makes plans by measured losses, output fidelity and internal completeness, injects
    single and correlated failures with each plan in place, and recommends the plan with the smallest loss. Writes advice.html,
    advice.json, and plan.json and strategy.json for 'holdfast run'. After an interruption, the same command continues.

    \b
    Example:
      holdfast trace market --events 200000 --out market.parquet
      holdfast advise examples/bargain_discovery.py --trace market.parquet --budget 50%
    """
    _advise(**options)


def _advise(*, app_file: Path, trace: str, columns: Path | None, out: Path, as_json: bool, **options: Any) -> None:
    from holdfast.advise.kill_check import state_costs, trace_span, verify_by_kills
    from holdfast.advise.loop import AdviceLoop
    from holdfast.advise.profile import load_or_measure_profile
    from holdfast.app.load import load_app
    from holdfast.assess.campaign_context import CampaignContext
    from holdfast.assess.campaign_setup import describe_subject, parsed_trace, select_scores
    from holdfast.assess.fitting import SECTION
    from holdfast.engine.trace_reader import require_trace_exists
    from holdfast.report.assessment import write_reports

    _check(options)
    app = load_app(app_file)
    graph = app.graph()
    _quick_check(graph, options["budget"])
    mapping = read_columns(columns, [source.name for source in graph.sources])
    scores = select_scores(app, options["scores"], options["sink"])[:1]
    require_trace_exists(trace)
    with spark_session(options["master"], options["memory"], name="holdfast advise") as spark:
        say(f"reading {trace} ...")
        with parsed_trace(spark, graph, trace, columns=mapping) as frames:
            context = CampaignContext(spark, app, frames, scores=scores, jitter=8, section=SECTION)
            _require_length(context, outage_s=options["outage_s"], verify=options["verify"])
            _require_output(context)
            subject = describe_subject(context, app_file, trace, mapping)
            profile = load_or_measure_profile(spark, app, frames, subject, out)
            advice, campaigns = AdviceLoop(context, subject, profile.topology, options, out, write_reports=write_reports).run(
                profile.cpu
            )
            strategy = _write_documents(advice, profile, out, sla=options["ic"])
            document = _write_report(advice, campaigns, strategy, None, out)
            verified = None
            if options["verify"]:
                begins, ends = trace_span(frames)
                stated = state_costs(advice, campaigns, trace_s=(ends - begins).total_seconds())
                exit_on_signals()
                verified = verify_by_kills(spark, app_file, app, frames, stated, score=scores[0], out=out)
                document = _write_report(advice, campaigns, strategy, verified, out)
    if as_json:
        print_json(document)
    else:
        _print_advice(advice, strategy, verified.lines() if verified else [])
        follow = shlex.join(["holdfast", "run", str(app_file), "--trace", trace, "--plan", str(out / "plan.json")])
        mapped = f" --columns {shlex.quote(str(columns))}" if columns else ""
        click.echo(f"report: {out / 'advice.html'}; next: {follow}{mapped}")
    if verified is not None and not verified.holds:
        raise click.exceptions.Exit(1)


def _check(options: dict[str, Any]) -> None:
    """Raise CompoundError with all invalid or contradictory options."""
    goals = [f"--{name}" for name in ("budget", "ic", "loss") if options[name] is not None]
    errors = [f"{' and '.join(goals)} contradict each other; give one of them"] if len(goals) > 1 else []
    errors += [
        f"--{name}: wanted a share from 0 to 1, got {options[name]:g}"
        for name in ("ic", "loss")
        if options[name] is not None and not 0 <= options[name] <= 1
    ]
    errors += [
        f"--{name}: wanted more than 0 seconds, got {options[f'{name}_s']:g}"
        for name in ("outage", "failover")
        if options[f"{name}_s"] is not None and not 0 < options[f"{name}_s"] < math.inf
    ]
    if errors:
        raise CompoundError("the request", errors)


def _quick_check(graph: "Graph", budget: str | None) -> None:
    """Raise HoldfastError for an invalid budget. Whether a share of the CPU buys a replica is only known after measuring."""
    from holdfast.advise.budget import Budget, Prices
    from holdfast.advise.protection_units import tasks_of

    limit = Budget.of(budget) if budget is not None else None
    if limit is not None and limit.replicas is not None:
        limit.check(Prices(tasks_of(graph), {}))


def _require_length(context: "CampaignContext", *, outage_s: float | None, verify: bool) -> None:
    """Raise HoldfastError if the trace is too short for the outage, or for verification by kills."""
    from holdfast.advise.verification import seconds_for

    rows, epoch_s = context.rows, context.app.epoch_s
    lost = (outage_s or 0.0) * rows.tempo.peak
    if lost > len(rows.seq):
        raise HoldfastError(
            f"--outage: {outage_s:g} s at the peak rate of {rows.tempo.peak:,.0f} tuples a second take {lost:,.0f} tuples, and the "
            f"trace has {len(rows.seq):,}; give a shorter outage, or a longer trace"
        )
    first, last = context.epochs
    needed_s, trace_s = seconds_for(2, epoch_s), (last - first + 1) * epoch_s
    if verify and trace_s < needed_s:
        raise HoldfastError(
            f"--verify: with a replica and without one takes two kills, which need {needed_s:g} s of trace, and it has "
            f"{trace_s:g} s; give a longer trace"
        )


def _require_output(context: "CampaignContext") -> None:
    """Raise HoldfastError if the trace gives no output at the scored sink."""
    graph, sink = context.graph, context.sink
    seqs = context.stream_seqs(sorted(graph.upstream(sink)))  # one job for all streams; the campaigns use the others
    if not any(len(seqs[stream]) for stream in graph.predecessors(sink)):
        raise HoldfastError(
            f"--trace: wanted output at sink '{sink}' to judge failures by, got none from the {len(context.rows.seq):,} tuples of "
            "the trace; give a longer trace, or another sink with --sink"
        )


def _write_report(
    advice: "Advice",
    campaigns: "dict[str, tuple[Campaign, Assessment]]",
    strategy: str,
    verified: "Verified | None",
    out: Path,
) -> dict[str, Any]:
    """Write advice.html and advice.json, and return the JSON document."""
    from holdfast.documents.whole_files import write_whole
    from holdfast.report.advice import advice_page
    from holdfast.report.json_values import finite

    write_whole(out / "advice.html", advice_page(advice, campaigns, [strategy], verified))
    document: dict[str, Any] = finite(
        {
            **advice.document(),
            "trials": {
                folder: {"report": f"{folder}/report.json", "seed": campaign.seed, "cases": [case.name for case in campaign.cases]}
                for folder, (campaign, _) in campaigns.items()
            },
            "verified": verified.document() if verified else None,
            "strategy": strategy,
            "out": str(out),
        }
    )
    write_whole(out / "advice.json", json.dumps(document, indent=2))
    return document


def _write_documents(advice: "Advice", profile: "Profile", out: Path, *, sla: float | None) -> str:
    """Write plan.json and strategy.json for 'holdfast run', and return a sentence about the strategy."""
    from holdfast.advise.plan_document import plan_document
    from holdfast.documents.document import write_document
    from holdfast.planning.laar import plan_strategy

    write_document(out / "plan.json", plan_document(advice, profile.topology))
    try:
        planned = plan_strategy(profile.descriptor, sla=sla, seconds=20.0)
    except HoldfastError as error:
        return f"There is no strategy for activation by load: {error}"
    write_document(out / "strategy.json", planned.explained())
    return (
        "As an alternative, strategy.json switches replicas with the load on two one-core nodes and keeps an internal "
        f"completeness of {planned.strategy.internal_completeness:.2f} ({_sla(sla, planned.strategy.sla)})."
    )


def _sla(goal: float | None, sla: float) -> str:
    """Return the completeness that a strategy must keep, and where the value comes from.

    >>> _sla(None, 0.7), _sla(0.5, 0.5)
    ('at least 0.70, unless --ic asks for another', 'asked for: 0.50')
    """
    return f"at least {sla:.2f}, unless --ic asks for another" if goal is None else f"asked for: {sla:.2f}"


def _print_advice(advice: "Advice", strategy: str, verified: Sequence[str]) -> None:
    from holdfast.advise.candidates import OBJECTIVE_NAMES

    chosen, following = advice.chosen, advice.next_unit()
    share = advice.prices.share(chosen.candidate.protected)
    click.echo(f"Protect {_list(chosen.candidate.protected)} ({advice.replicas} replicas, {share:.0%} of full replication's CPU).")
    click.echo(advice.chosen_for)
    click.echo(
        f"One failure of {advice.outage_s:g} s costs {advice.unprotected.mean:,.3g} s of output on average without replicas, and "
        f"{chosen.single.mean:,.3g} s with them ({chosen.single.least:,.3g} to {chosen.single.greatest:,.3g} over "
        f"offsets{_orders(advice)}): {advice.remaining:.1%} remains."
    )
    click.echo(
        f"When everything without a replica fails at once: {chosen.together.mean:,.3g} s of output, with {advice.completeness}."
    )
    if advice.confidence:
        click.echo(advice.confidence)
    for name in advice.ranking:
        mark = "*" if name in chosen.candidate.protected else " "
        click.echo(f" {mark} {name}: {advice.single[name].interval} s of output")
        click.echo(click.wrap_text(advice.why(name), width=120, initial_indent="     ", subsequent_indent="     "))
    for each in advice.plans:
        click.echo(
            f"plan by {OBJECTIVE_NAMES[each.candidate.objective]}: {each.candidate.description}; "
            f"one failure {each.single.mean:,.3g} s, all others at once {each.together.mean:,.3g} s"
        )
    if following is not None:
        click.echo(
            f"The next: {following.description}, for {following.cpu:.0%} more of full replication's CPU: "
            f"{following.remaining:.1%} of the loss would then remain."
        )
    for text in (strategy, *verified):
        click.echo(text)


def _orders(advice: "Advice") -> str:
    """Return the spread over arrival orders as text; empty if there was one order."""
    return "" if advice.widest is None else f"; between arrival orders quality differed by at most {advice.widest[0]:.2g}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
