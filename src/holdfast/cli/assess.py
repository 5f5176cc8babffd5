"""holdfast assess: which operators need protection, measured by fault injection."""

import hashlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.cli.shared import columns_option, json_option, opened_trace, read_columns, say, spark_options, spark_session
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.case import Case, Tempo
    from holdfast.assess.results import Results
    from holdfast.assess.score import OutputScore
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import Choice
    from holdfast.model import App

LINE_EVERY_S = 10.0


@click.command()
@click.argument("app_file", metavar="APP", type=click.Path(path_type=Path))
@click.option("--trace", required=True, help="The recorded trace: a file, or a folder with a file per source.")
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
    help="Whom to inject into, several names for a group. [default: chosen by the graph]",
)
@click.option(
    "--offset",
    "offsets",
    multiple=True,
    type=int,
    metavar="TUPLES",
    help="Source tuples before the fault. [default: five, spread over what leaves room for the longest outage]",
)
@click.option(
    "--outage", "outages", multiple=True, type=float, metavar="SECONDS", help="How long a fault lasts. [default: 0.5 1 2 4 8 16]"
)
@click.option(
    "--rate",
    type=click.Choice(["average", "peak", "both"]),
    default="both",
    show_default=True,
    help="The rate at which seconds become tuples.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of each injection under another arrival order.",
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
    type=click.Choice(["loss", "duplication", "reordering", "divergence"]),
    default="loss",
    show_default=True,
    help="What happens to the tuples.",
)
@click.option(
    "--section", type=click.IntRange(min=1), default=5000, show_default=True, metavar="KEYS", help="Length of a local section."
)
@click.option("--threshold", type=float, default=0.03, show_default=True, help="Relative error up to which a section is right.")
@click.option("--percentile", type=float, default=0.9, show_default=True, help="Share of wrong sections that recovery covers.")
@click.option(
    "--affected", type=click.IntRange(min=1), metavar="TUPLES", help="Source tuples that a fault affects. [default: found out]"
)
@click.option(
    "--jitter",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    metavar="TUPLES",
    help="How far the arrival order of joined streams varies.",
)
@click.option("--protect", "protected", multiple=True, metavar="NAME[,NAME]", help="What if: a group with an active replica.")
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
    help="fast: trials share jobs; slow: one run of the trace each.",
)
@click.option("--check/--no-check", default=True, show_default=True, help="Check the first law on a sample before.")
@click.option("--parallel", type=click.IntRange(min=1), default=2, show_default=True, help="Spark jobs side by side.")
@click.option(
    "--profile", "profile_file", type=click.Path(path_type=Path), help="Descriptor with each operator's rates. [default: measured]"
)
@spark_options
@click.option("--explain", is_flag=True, help="Show the injected graphs and stop.")
@json_option
def assess(**options: Any) -> None:
    """Measure what losing each operator of APP does to its output.

    Runs the application over a recorded trace with tuples lost before one operator at a time, and scores the output against runs
    without a fault. Writes report.html, report.json and report.csv to the results folder. Interrupted, it goes on from where it
    was when called again.

    \b
    Example:
      holdfast assess examples/bargain_discovery.py --trace market.parquet --out assessment
      holdfast assess APP --trace FILE --protect trade_filter,aggregator,vwap --failover 2
    """
    _assess(**options)


def _assess(*, app_file: Path, trace: str, columns: Path | None, explain: bool, as_json: bool, **options: Any) -> None:
    from holdfast.assess.case import Case
    from holdfast.assess.inject import explained
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import choose_targets, group_target
    from holdfast.model.fault import fault_of
    from holdfast.model.load import load_app

    app = load_app(app_file)
    graph = app.graph()
    choices = choose_targets(graph)
    targets = [group_target(graph, text.split(",")) for text in options["targets"]] or [(c.name,) for c in choices if c.chosen]
    cases = [Case(target) for target in targets]
    cases += [Case(group_target(graph, text.split(",")), options["failover_s"]) for text in options["protected"]]
    if explain:
        for case in cases:
            fault = fault_of({"kind": options["fault"], "target": case.target, "offset": 0, "tuples": 1, "side": case.side})
            click.echo(f"{case.name}:\n{explained(graph, fault)}\n")
        for choice in choices:
            click.echo(str(choice))
        return
    mapping = read_columns(columns, [source.name for source in graph.sources])
    scores = scores_of(app, options["scores"], options["sink"])
    rates = _profiled(options["profile_file"]) if options["profile_file"] else None
    with (
        spark_session(options["master"], options["memory"], name="holdfast assess") as spark,
        opened_trace(spark, graph, trace, columns=mapping) as frames,
    ):
        setting = Setting(spark, app, frames, scores=scores, jitter=options["jitter"], section=options["section"])
        subject = subject_of(setting, app_file, trace, mapping)
        if rates:
            subject["rates"] = {name: [tempo.average, tempo.peak] for name, tempo in sorted(rates.items())}
        campaign = _campaign(setting, cases, subject, options)
        document = carry_out(
            setting,
            campaign,
            options["out"],
            choices=choices,
            way=options["way"],
            check=options["check"],
            parallel=options["parallel"],
            rates=rates,
        )
    if as_json:
        click.echo((options["out"] / "report.json").read_text())
    else:
        _say(document, options["out"])


def scores_of(app: "App", texts: Sequence[str], sink: str | None = None) -> "list[OutputScore]":
    """The scores to go by: those asked for, ready-made ones by their name, or the application's own."""
    from holdfast.assess.score import READY_MADE, own_score, ready_made, score_of

    own = own_score(app)
    if sink is not None and sink not in {node.name for node in app.graph().sinks}:
        known = ", ".join(node.name for node in app.graph().sinks)
        raise HoldfastError(f"application '{app.name}' has no sink '{sink}'; sinks are: {known}")
    if sink not in (None, own.sink) and not texts:
        return [score_of(str(sink), "count(*)")]
    return [
        ready_made(app, text) if text in READY_MADE else score_of(sink or own.sink, text) for text in texts or (own.expression,)
    ]


def subject_of(setting: "Setting", app_file: Path, trace: str, mapping: Any) -> dict[str, Any]:
    """Which application and trace a campaign is about."""
    seq = setting.rows.seq
    return {
        "application": setting.app.name,
        "application_sha256": hashlib.sha256(app_file.read_bytes()).hexdigest()[:16],
        "trace": Path(trace).name,
        "trace_hash": setting.trace_hash(),
        "tuples": len(seq),
        "seqs": [int(seq[0]), int(seq[-1])],
        "columns": mapping,
    }


def _campaign(setting: "Setting", cases: "Sequence[Case]", subject: dict[str, Any], options: dict[str, Any]) -> "Campaign":
    from holdfast.assess.campaign import OUTAGES_S, PACES, Campaign

    repetitions, outages_s = options["repetitions"], tuple(options["outages"]) or OUTAGES_S
    return Campaign(
        subject=subject,
        cases=tuple(cases),
        offsets=tuple(options["offsets"]) or _spread_offsets(setting, max(outages_s)),
        outages_s=outages_s,
        paces=PACES if options["rate"] == "both" else (options["rate"],),
        repetitions=repetitions,
        golden_runs=options["golden_runs"] or repetitions,
        scores=tuple(score.expression for score in setting.scores),
        sink=setting.sink,
        fault={"kind": options["fault"]},
        section=options["section"],
        threshold=options["threshold"],
        percentile=options["percentile"],
        jitter=options["jitter"],
        seed=options["seed"],
        affected=options["affected"],
    )


def _spread_offsets(setting: "Setting", longest_s: float) -> tuple[int, ...]:
    """Five offsets spread over as much of the trace as leaves room for the longest outage; HoldfastError where none does."""
    rows = setting.rows
    room = len(rows.seq) - math.ceil(min(rows.tempo.peak * longest_s, sys.maxsize))
    if room < 1:
        raise HoldfastError(
            f"an outage of {longest_s:g} s at the peak rate of {rows.tempo.peak:,.0f} tuples/s is longer than the trace, which has "
            f"{len(rows.seq):,} source tuples; give shorter outages with --outage, or a longer trace"
        )
    return tuple(sorted({int(room * share) for share in (0.1, 0.3, 0.5, 0.7, 0.9)}))


def _profiled(path: Path) -> "dict[str, Tempo]":
    """The rates of operators and sources that a descriptor holds."""
    from holdfast.assess.case import Tempo
    from holdfast.model.descriptor import Descriptor
    from holdfast.model.document import read_document

    descriptor = read_document(path, Descriptor)
    rates: dict[str, Tempo] = {}
    for name, pe in descriptor.pes.items():
        if pe.rate is not None:
            rates |= {operator: Tempo(pe.rate.average, pe.rate.peak) for operator in pe.operators or (name,)}
    for name, source in descriptor.sources.items():
        average = sum(rate.rate * rate.probability for rate in source.rates)
        rates[name] = Tempo(average, max(rate.rate for rate in source.rates))
    return rates


def carry_out(
    setting: "Setting",
    campaign: "Campaign",
    out: Path,
    *,
    choices: "Sequence[Choice]",
    way: Any = "auto",
    check: bool = True,
    parallel: int = 2,
    rates: "Mapping[str, Tempo] | None" = None,
) -> dict[str, Any]:
    """Run a campaign into a folder, or what is left of it, write its reports there, and return the report as plain values."""
    from holdfast.assess.law import require_law
    from holdfast.assess.results import Results
    from holdfast.assess.runner import Runner

    results = Results(out, campaign)
    if not results.finished():
        with results.locked():
            if check and not results.done():
                require_law(setting)
            runner = Runner(setting, campaign, way=way, rates=rates)
            if runner.why_slow:
                say(f"each trial is a run of the whole trace: {runner.why_slow}")
            with _shown() as progress:
                try:
                    runner.run(results, parallel=parallel, progress=progress)
                except KeyboardInterrupt:
                    setting.spark.sparkContext.cancelAllJobs()
                    say(f"{len(results.done()):,} of {campaign.size:,} trials are done; run the same command again to go on")
                    raise
    return write_reports(results, choices)


def write_reports(results: "Results", choices: "Sequence[Choice]") -> dict[str, Any]:
    """Write report.json, report.csv and report.html beside the results."""
    from holdfast.assess.assessment import assess as assessed
    from holdfast.assess.files import write_whole
    from holdfast.report.assessment import assessment_csv, assessment_document, assessment_json, assessment_page

    campaign, facts, golden = results.campaign, results.read("facts") or {}, results.read("golden") or {}
    assessments = assessed(campaign, facts, golden, results.outcomes)
    document = assessment_document(campaign, facts, assessments, choices)
    write_whole(results.folder / "report.json", assessment_json(document))
    write_whole(results.folder / "report.csv", assessment_csv(assessments))
    write_whole(results.folder / "report.html", assessment_page(campaign, facts, assessments, choices))
    return document


def _say(document: dict[str, Any], out: Path) -> None:
    console = Console(stderr=True)
    score = document["scores"][0]
    console.print(f"scored by {score['score']}; most critical first:")
    by_name = {case["case"]: case for case in score["cases"]}
    for name in score["ranking"]:
        case = by_name[name]
        console.print(f"  {name}: I {case['impact']:.2f}, R {case['recovery']}, C {case['outage_impact']:.2f} -- {case['advice']}")
    if score["spread_warning"]:
        console.print(f"careful: golden runs differ by {score['spread']:.1%}")
    console.print(f"report: {out / 'report.html'}")


@contextmanager
def _shown() -> Iterator[Callable[[str, int, int], None]]:
    """Progress on stderr: a bar on a terminal, a line now and then elsewhere."""
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            tasks: dict[str, Any] = {}

            def show(what: str, done: int, of: int) -> None:
                tasks.setdefault(what, bar.add_task(what, total=of) if what not in tasks else tasks[what])
                bar.update(tasks[what], completed=done, total=of)

            yield show
    else:
        yield Lines(time.monotonic)


class Lines:
    """Progress as plain lines, with the time left."""

    def __init__(self, clock: Callable[[], float], say: Callable[[str], None] | None = None) -> None:
        self._clock, self._say = clock, say or (lambda line: click.echo(line, err=True))
        self._began: dict[str, tuple[float, int]] = {}
        self._next_s = 0.0

    def __call__(self, what: str, done: int, of: int) -> None:
        now = self._clock()
        began, at = self._began.setdefault(what, (now, done))
        if now < self._next_s and done < of:
            return
        self._next_s = now + LINE_EVERY_S
        fresh = done - at
        left = f", about {(now - began) * (of - done) / fresh:,.0f} s left" if fresh and done < of else ""
        self._say(f"{what}: {done:,} of {of:,}{left}")
