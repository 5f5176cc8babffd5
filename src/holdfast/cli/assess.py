"""holdfast assess: measure by fault injection which operators need protection."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.shared import columns_option, json_option, spark_options, spark_session
from holdfast.terminal import print_json, say

if TYPE_CHECKING:
    from holdfast.assess.request import Request


@click.command()
@click.argument("app_file", metavar="APP", type=click.Path(path_type=Path))
@click.option("--trace", help="The recorded trace: a file, or a folder with a file per source. Only --explain goes without.")
@columns_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("assessment"),
    show_default=True,
    help="Folder for results; run again to resume.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="NAME[,NAME]",
    help="Operators, sources or a PE to inject into; several names fail together. [default: chosen by the graph, and fused PEs]",
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    type=int,
    metavar="TUPLES",
    help="Source tuples before the fault. [default: five offsets that leave room for the longest outage]",
)
@click.option(
    "--outage",
    "outages",
    multiple=True,
    type=float,
    metavar="SECONDS",
    help="How long a fault lasts. [default: 0.5 1 2 4 8 16, up to half of the trace]",
)
@click.option(
    "--rate",
    type=click.Choice(["average", "peak", "both"]),
    default="both",
    show_default=True,
    help="The rate that converts seconds to tuples.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of each injection, each with another arrival order.",
)
@click.option("--golden", "golden_runs", type=click.IntRange(min=1), help="Runs without a fault. [default: as many as repetitions]")
@click.option(
    "--score",
    "scores",
    multiple=True,
    metavar="SQL",
    help="Aggregate over the sink's rows, or sum, mean, count. [default: the application's]",
)
@click.option("--sink", help="The sink to score. [default: the application's scored sink]")
@click.option(
    "--fault",
    default="loss",
    show_default=True,
    metavar="KIND[,NAME=VALUE]",
    help="What happens to the tuples: loss, duplication (share), reordering (distance) or divergence (size, share).",
)
@click.option(
    "--side",
    type=click.Choice(["input", "output"]),
    default="input",
    show_default=True,
    help="Where it happens: on the way into a target, or on the way out.",
)
@click.option(
    "--section",
    type=click.IntRange(min=1),
    metavar="SEQS",
    help="Length of a local section. [default: 5000, or less so that the longest outage fills four]",
)
@click.option("--threshold", type=float, default=0.03, show_default=True, help="Relative error up to which a section is correct.")
@click.option("--percentile", type=float, default=0.9, show_default=True, help="Share of wrong sections that recovery covers.")
@click.option(
    "--critical", type=float, default=1 / 3, show_default="1/3", help="A loss from this share of the largest is critical."
)
@click.option("--small", type=float, default=0.05, show_default=True, help="A loss below this share of the outage is small.")
@click.option(
    "--affected", type=click.IntRange(min=1), metavar="TUPLES", help="Source tuples that a fault affects. [default: computed]"
)
@click.option(
    "--jitter",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    metavar="TUPLES",
    help="How far the arrival order of joined streams varies.",
)
@click.option("--protect", "protected", multiple=True, metavar="NAME[,NAME]", help="Also try this group with an active replica.")
@click.option(
    "--failover",
    "failover_s",
    type=float,
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a protected group's failover takes.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of every random choice.")
@click.option(
    "--way",
    type=click.Choice(["auto", "fast", "slow"]),
    default="auto",
    show_default=True,
    help="fast: trials share Spark jobs; slow: each trial replays the whole trace.",
)
@click.option("--check/--no-check", default=True, show_default=True, help="Check the first law on a sample first.")
@click.option("--parallel", type=click.IntRange(min=1), default=2, show_default=True, help="Spark jobs at a time.")
@click.option(
    "--profile", "profile_file", type=click.Path(path_type=Path), help="Descriptor with each operator's rates. [default: measured]"
)
@spark_options
@click.option("--explain", is_flag=True, help="Show the injected graphs and stop.")
@json_option
def assess(**options: Any) -> None:
    """Measure what losing each operator of APP does to its output.

    Replays a recorded trace, loses the tuples before one operator at a time, and compares the output's score with runs without a
    fault. Writes report.html, report.json and report.csv to the results folder. After an interruption, the same command
    continues.

    \b
    Example:
      holdfast assess examples/bargain_discovery.py --trace market.parquet --out assessment
      holdfast assess APP --trace FILE --protect trade_filter,aggregator,vwap --failover 2
      holdfast assess APP --trace FILE --fault divergence,size=0.2,share=0.5 --side output
    """
    _assess(**options)


def _assess(*, app_file: Path, as_json: bool, **options: Any) -> None:
    from holdfast.assess.request import read_request

    request = read_request(app_file, options)
    if options["explain"]:
        _explain(request, as_json=as_json)
        return
    from holdfast.assess.campaign_context import CampaignContext, analyse_application
    from holdfast.assess.campaign_run import run_campaign
    from holdfast.assess.campaign_setup import build_campaign, describe_subject, parsed_trace, rates_by_name
    from holdfast.assess.fitting import SECTION
    from holdfast.assess.progress import Steps
    from holdfast.progress_display import show_progress
    from holdfast.report.assessment import write_reports

    trace, out, rates = options["trace"], options["out"], request.rates
    with spark_session(options["master"], options["memory"], name="holdfast assess") as spark, show_progress() as progress:
        reading = Steps(progress, f"reading {trace}", of=4)
        schemas = analyse_application(spark, request.app, request.scores)
        reading.done()
        with parsed_trace(spark, request.graph, trace, columns=request.mapping) as frames:
            reading.done()
            lengths = {"jitter": options["jitter"], "section": options["section"] or SECTION}
            context = CampaignContext(spark, request.app, frames, scores=request.scores, schemas=schemas, **lengths)
            subject = describe_subject(context, app_file, trace, request.mapping)
            reading.done()
            if rates:
                subject["rates"] = rates_by_name(rates)
            campaign = build_campaign(context, request.cases, subject, options, rates=rates)
            reading.done()
            results = run_campaign(
                context.sectioned(campaign.section),
                campaign,
                out,
                way=options["way"],
                check=options["check"],
                parallel=options["parallel"],
                rates=rates,
                progress=progress,
            )
    document = write_reports(results, request.choices)
    if as_json:
        click.echo((out / "report.json").read_text().rstrip())
    else:
        _print_summary(document, out)


def _explain(request: "Request", *, as_json: bool) -> None:
    """Print every injected graph, and why these operators were chosen."""
    from holdfast.assess.injection import describe_injected_graph, injected_nodes
    from holdfast.documents.fault import fault_from_document

    graph = request.graph
    faults = {
        case.name: fault_from_document({**request.fault, "target": case.target, "offset": 0, "tuples": 1, "side": case.side})
        for case in request.cases
    }
    if as_json:
        graphs = [{"case": name, "nodes": injected_nodes(graph, each)} for name, each in faults.items()]
        why = [{"name": c.name, "chosen": c.chosen, "why": list(c.why), "like": c.like} for c in request.choices]
        print_json({"graphs": graphs, "choices": why})
        return
    for name, each in faults.items():
        click.echo(f"{name}:\n{describe_injected_graph(graph, each)}\n")
    for choice in request.choices:
        click.echo(str(choice))


def _print_summary(document: dict[str, Any], out: Path) -> None:
    """Print a summary of the report: the ranking, and what a replica would change."""
    from holdfast.assess.case import outage_name

    score = document["scores"][0]
    click.echo(f"scored by {score['score']}; most critical first:")
    by_name = {case["case"]: case for case in score["cases"]}
    for name in score["ranking"]:
        case = by_name[name]
        others = f" (and {', '.join(case['shared_by'])})" if case["shared_by"] else ""
        lost, wrong, recovery = (case["damage"][figure]["mean"] for figure in ("output_s", "affected_s", "recovery_s"))
        cost = f"costs {lost:,.3g} s of output, wrong for {wrong:,.3g} s, recovered after {recovery:,.3g} s"
        click.echo(f"  {name}{others}: {cost} (I {case['impact']:,.2f}, R {case['recovery']}, C {case['outage_impact']:.2f})")
        click.echo(click.wrap_text(case["advice"], width=120, initial_indent="    ", subsequent_indent="    "))
    for each in score["what_if"]:
        click.echo(
            f"  if {each['failing']} fails and {each['group']} has a replica ({outage_name(each['failover_s'])} s): I "
            f"{each['impact_before']:,.2f} to {each['impact_after']:,.2f}, R {each['recovery_before']} to {each['recovery_after']}"
        )
    for each in document["scores"]:
        if each["spread_warning"]:
            say(f"warning: {each['score']} differs by {each['spread']:.1%} between golden runs, more than the threshold")
    click.echo(f"report: {out / 'report.html'}")
