"""holdfast reproduce debs11: runs the paper's campaign on a generated market and compares the figures."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.app import example_path
from holdfast.assess import (
    describe_partial_subject,
    describe_subject,
    longest_loss,
    parsed_trace,
    run_campaign,
    select_scores,
    show_progress,
    spread_offsets,
)
from holdfast.cli import spark_options, spark_session
from holdfast_papers.results import finish, result_options

if TYPE_CHECKING:
    from holdfast.app import Graph
    from holdfast.assess import CampaignContext, Case, OutageLocator

OFFSETS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""0.5, 1.5, 2.5, 3.5 and 4.5 million of 5 million (section 6.2)."""
COLUMNS = ("operator", "C paper", "C here", "D paper", "D here", "R paper", "R here", "I paper", "I here")


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("debs11"), show_default=True, help="Folder for trace and results."
)
@click.option("--trace", type=click.Path(path_type=Path), help="A market trace. [default: a generated one]")
@click.option("--events", type=click.IntRange(min=1), default=5_000_000, show_default=True, help="Length of the generated trace.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of trace and campaign.")
@click.option("--repetitions", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of each injection.")
@click.option(
    "--golden",
    "golden_runs",
    type=click.IntRange(min=1),
    help="Runs without a fault; the paper made 300. [default: the number of repetitions]",
)
@spark_options
@result_options
def debs11(
    out: Path,
    trace: Path | None,
    events: int,
    seed: int,
    repetitions: int,
    golden_runs: int | None,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Inject faults into Bargain Discovery: Table 2, Figures 8 to 12 and the findings.

    5 targets, 5 offsets, 6 outages at 2 rates and 5 repetitions make 1,500 injections. The groups of Figure 12 are also injected
    with a replica. Run the same command again to continue an interrupted campaign.

    \b
    Example:
      holdfast reproduce debs11 --out debs11
      holdfast reproduce debs11 --events 200000 --repetitions 2 --out small
    """
    from holdfast.app import load_app
    from holdfast.assess import Campaign, CampaignContext, Case, Steps, choose_targets, require_room, require_same_campaign
    from holdfast.engine import require_trace_exists
    from holdfast.report import write_reports
    from holdfast_papers.debs11.findings import FAILOVER_S, GROUP

    app_file = example_path("bargain_discovery.py")
    app = load_app(app_file)
    choices = choose_targets(app.graph())
    cases = [Case((choice.name,)) for choice in choices if choice.chosen]
    cases += [Case(GROUP, FAILOVER_S), Case(("market", "trade_quote"), FAILOVER_S)]
    scores = select_scores(app, ("sum", "mean", "count"))
    options: dict[str, Any] = {"repetitions": repetitions, "golden_runs": golden_runs or repetitions, "seed": seed}
    draft = Campaign(
        subject={},
        cases=tuple(cases),
        offsets=(0,),
        scores=tuple(score.expression for score in scores),
        sink=scores[0].sink,
        **options,
    )
    path = trace or out / f"market-{events}-{seed}.parquet"
    require_room(out / "campaign")
    require_same_campaign(out / "campaign", options | {"subject": describe_partial_subject(app, app_file, str(path), None)})
    if trace is None:
        _generate(path, events, seed)
    require_trace_exists(str(path))
    began = time.monotonic()
    with ExitStack() as open_:
        spark = open_.enter_context(spark_session(master, memory, name="holdfast reproduce debs11"))
        progress = open_.enter_context(show_progress())
        reading = Steps(progress, f"reading {path}", of=3)
        frames = open_.enter_context(parsed_trace(spark, app.graph(), str(path), columns=None))
        reading.done()
        context = CampaignContext(spark, app, frames, scores=scores, jitter=draft.jitter, section=draft.section)
        subject = describe_subject(context, app_file, str(path), None)
        reading.done()
        campaign = replace(draft, subject=subject, offsets=_offsets(context, cases))
        reading.done()
        results = run_campaign(context, campaign, out / "campaign", check=False, progress=progress)
        write_reports(results, choices)
    market = "a generated market" if trace is None else f"the market in {trace.name}"
    document = _written(out, app.graph(), market, time.monotonic() - began)
    finish(document, as_json=as_json, show=lambda: _show(document, out))


def papers_offsets(graph: "Graph", locator: "OutageLocator", lost: "Mapping[Case, int]") -> tuple[int, ...]:
    """Return the paper's offsets, as shares of the trace. If the trace is too short for them, spread offsets over what fits."""
    offsets = tuple(int(len(locator.source) * share) for share in OFFSETS)
    if all(locator.room(graph, case, tuples=tuples) > offsets[-1] for case, tuples in lost.items()):
        return offsets
    return spread_offsets(graph, locator, lost)


def _offsets(context: "CampaignContext", cases: "Sequence[Case]") -> tuple[int, ...]:
    from holdfast.assess import OUTAGES_S, PACES

    locator = context.locator(cases, context.stream_seqs({stream for case in cases for stream in context.injected_edges(case)}))
    lost = {case: longest_loss(context, locator, case, max(OUTAGES_S), paces=PACES, rates={}) for case in cases}
    return papers_offsets(context.graph, locator, lost)


def _generate(path: Path, events: int, seed: int) -> None:
    """Write the market trace unless the file exists."""
    from holdfast.documents import writing
    from holdfast.trace import write_market

    if path.exists():
        return
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with show_progress() as progress:
        write_market(path, events=events, seed=seed, progress=lambda rows: progress("events of the market written", rows, events))


def _written(out: Path, graph: "Graph", market: str, seconds: float) -> dict[str, Any]:
    """Write debs11.html and debs11.json from the finished campaign, and return the document of debs11.json."""
    from holdfast.assess import Case, Results, assess, read_campaign
    from holdfast.documents import write_whole
    from holdfast.report import (
        WHAT_IF,
        cards,
        growth_plots,
        heading,
        html_page,
        local_caption,
        local_plot,
        offset_plot,
        outage_plot,
        paragraph,
        spread_line,
        table,
        verdicts,
        what_if_rows,
    )
    from holdfast_papers.debs11.findings import FAILOVER_S, GROUP, findings, table_rows

    campaign = read_campaign(out / "campaign")
    results = Results(out / "campaign", campaign)
    facts = results.read("facts") or {}
    assessments = assess(campaign, facts, results.read("golden") or {}, results.outcomes)
    first = assessments[0]
    checks = findings(assessments, graph, Case(GROUP, FAILOVER_S).name)
    rows, what_if = table_rows(first), what_if_rows(campaign, first)
    parts = [
        paragraph(
            f"Bargain Discovery over {facts['source']['tuples']:,} events of {market} "
            f"({facts['source']['average']:,.0f} a second on average, {facts['source']['peak']:,.0f} at the peak); "
            f"{campaign.size:,} injections. The paper used a recorded market of December 2005, which is not public: values may "
            "differ; compare the order of the operators."
        ),
        paragraph(spread_line(campaign, facts, first), note=True),
        heading("Table 2"),
        table(COLUMNS, rows),
        heading("Findings"),
        verdicts([(f.name, f.holds, f"{f.ours} (paper: {f.paper})") for f in checks]),
        heading("Figure 12: groups with an active replica"),
        table(WHAT_IF, what_if),
        heading("Figure 8: quality against outage"),
        cards([outage_plot(first.case(name)) for name in ("market", "quote_filter", "trade_filter")]),
        heading("Figure 9: quality against offset"),
        cards([offset_plot(first)]),
        heading("Figure 10: local quality after the longest outage"),
        paragraph(local_caption(campaign), note=True),
        cards([local_plot(first.case(name), campaign) for name in ("market", "quote_filter", "vwap", "trade_filter")]),
        heading("Figure 11: local quality of the most critical operator after outages of 2, 8 and 16 seconds"),
        cards(growth_plots(first, campaign)),
    ]
    document = {
        "seed": campaign.seed,
        "events": facts["source"]["tuples"],
        "trials": campaign.size,
        "seconds": round(seconds, 1),
        "table_2": {"columns": list(COLUMNS), "rows": [list(row) for row in rows]},
        "what_if": [list(row) for row in what_if],
        "findings": [asdict(finding) for finding in checks],
    }
    write_whole(out / "debs11.json", json.dumps(document, indent=2))
    write_whole(out / "debs11.html", html_page("Fault injection into Bargain Discovery (DEBS'11)", parts))
    return document


def _show(document: dict[str, Any], out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=True, width=max(120, Console(stderr=True).width))
    table_2 = Table(*document["table_2"]["columns"], title="Table 2")
    for row in document["table_2"]["rows"]:
        table_2.add_row(*row)
    console.print(table_2)
    for finding in document["findings"]:
        console.print(f"{'holds' if finding['holds'] else 'FAILS'}  {finding['name']}: {finding['ours']}", highlight=False)
    console.print(f"report: {out / 'debs11.html'}")
