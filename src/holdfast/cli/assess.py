"""holdfast assess: which operators need protection, measured by fault injection."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.errors import HoldfastError

LINE_EVERY_S = 10.0


@click.command()
@click.argument("app_file", metavar="APP", type=click.Path(path_type=Path))
@click.option("--trace", required=True, help="The recorded trace: a file, or a folder with a file per source.")
@click.option(
    "--column", "columns", multiple=True, metavar="[SOURCE.]NAME=SQL", help="Where a source's column comes from in the file."
)
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
    help="Source tuples before the fault. [default: five, spread over the trace]",
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
@click.option("--repetitions", type=int, default=5, show_default=True, help="Runs of each injection under another arrival order.")
@click.option("--golden", "golden_runs", type=int, help="Runs without a fault. [default: as many as repetitions]")
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
@click.option("--section", type=int, default=5000, show_default=True, metavar="KEYS", help="Length of a local section.")
@click.option("--threshold", type=float, default=0.03, show_default=True, help="Relative error up to which a section is right.")
@click.option("--percentile", type=float, default=0.9, show_default=True, help="Share of wrong sections that recovery covers.")
@click.option("--affected", type=int, metavar="TUPLES", help="Source tuples that a fault affects. [default: found out]")
@click.option(
    "--jitter", type=int, default=8, show_default=True, metavar="TUPLES", help="How far the arrival order of joined streams varies."
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
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of every random choice.")
@click.option(
    "--way",
    type=click.Choice(["auto", "fast", "slow"]),
    default="auto",
    show_default=True,
    help="fast: trials share jobs; slow: one run of the trace each.",
)
@click.option("--check/--no-check", default=True, show_default=True, help="Check the first law on a sample before.")
@click.option("--parallel", type=int, default=2, show_default=True, help="Spark jobs side by side.")
@click.option("--master", default="local[*]", show_default=True, help="Spark master.")
@click.option("--memory", default="4g", show_default=True, help="Memory of Spark's driver.")
@click.option("--explain", is_flag=True, help="Show the injected graphs and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON document on stdout.")
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


def _assess(*, app_file: Path, explain: bool, as_json: bool, master: str, memory: str, **options: Any) -> None:
    from holdfast.assess.case import Case
    from holdfast.assess.inject import explained
    from holdfast.assess.target import choose_targets, group_target
    from holdfast.model.fault import fault_of
    from holdfast.model.load import load_app

    app = load_app(app_file)
    graph = app.graph()
    choices = choose_targets(graph)
    names = options.pop("targets")
    targets = [group_target(graph, text.split(",")) for text in names] or [(c.name,) for c in choices if c.chosen]
    cases = [Case(target) for target in targets]
    cases += [Case(group_target(graph, text.split(",")), options["failover_s"]) for text in options.pop("protected")]
    if explain:
        for case in cases:
            fault = fault_of({"kind": options["fault"], "target": case.target, "offset": 0, "tuples": 1, "side": case.side})
            click.echo(f"{case.name}:\n{explained(graph, fault)}\n")
        for choice in choices:
            click.echo(str(choice))
        return
    out = options["out"]
    with session(master, memory) as spark:
        document = measure(spark, app, app_file, cases=cases, choices=choices, **options)
    if as_json:
        click.echo((out / "report.json").read_text())
    else:
        _say(document, out)


def measure(
    spark: Any,
    app: Any,
    app_file: Path,
    *,
    trace: str,
    columns: Sequence[str],
    out: Path,
    cases: Sequence[Any],
    choices: Sequence[Any],
    offsets: Sequence[int],
    outages: Sequence[float],
    rate: str,
    repetitions: int,
    golden_runs: int | None,
    scores: Sequence[str],
    sink: str | None,
    fault: str,
    section: int,
    threshold: float,
    percentile: float,
    affected: int | None,
    jitter: int,
    failover_s: float,
    seed: int,
    way: Any,
    check: bool,
    parallel: int,
) -> dict[str, Any]:
    """Run a campaign into a folder, write its reports there, and return the report as plain values."""
    from holdfast.assess.campaign import OUTAGES_S, PACES, Campaign
    from holdfast.assess.results import Results
    from holdfast.assess.runner import Runner
    from holdfast.assess.score import READY_MADE, own_score, ready_made, score_of
    from holdfast.assess.setting import Setting
    from holdfast.execute.trace import open_trace

    own = own_score(app)
    chosen = [
        ready_made(app, text) if text in READY_MADE else score_of(sink or own.sink, text) for text in scores or (own.expression,)
    ]
    frames = open_trace(spark, app.graph(), trace, columns=_columns(app.graph(), columns))
    setting = Setting(spark, app, frames, scores=chosen, jitter=jitter, section=section)
    count = len(setting.rows.seq)
    campaign = Campaign(
        subject=_subject(app, app_file, trace, columns, setting.rows.seq),
        cases=tuple(cases),
        offsets=tuple(offsets) or tuple(int(count * share) for share in (0.1, 0.3, 0.5, 0.7, 0.9)),
        outages_s=tuple(outages) or OUTAGES_S,
        paces=PACES if rate == "both" else (rate,),  # type: ignore[arg-type]  # click has checked it
        repetitions=repetitions,
        golden_runs=golden_runs or repetitions,
        scores=tuple(score.expression for score in chosen),
        sink=chosen[0].sink,
        fault={"kind": fault},
        section=section,
        threshold=threshold,
        percentile=percentile,
        jitter=jitter,
        seed=seed,
        affected=affected,
    )
    results = Results(out, campaign)
    if check and not results.done():
        _require_law(spark, app, setting)
    runner = Runner(setting, campaign, way=way)
    if runner.why_slow:
        click.echo(f"each trial is a run of the whole trace: {runner.why_slow}", err=True)
    with _shown() as progress:
        try:
            runner.run(results, parallel=parallel, progress=progress)
        except KeyboardInterrupt:
            spark.sparkContext.cancelAllJobs()
            raise HoldfastError(
                f"interrupted with {len(results.done()):,} of {campaign.size:,} trials done; run the same command again to go on"
            ) from None
    return write_reports(results, choices)


def write_reports(results: Any, choices: Sequence[Any]) -> dict[str, Any]:
    """Write report.json, report.csv and report.html beside the results."""
    from holdfast.assess.assessment import assess as assessed
    from holdfast.report.assessment import assessment_csv, assessment_document, assessment_json, assessment_page

    campaign, facts = results.campaign, results.read("facts")
    assessments = assessed(campaign, facts, results.read("golden"), results.outcomes())
    document = assessment_document(campaign, facts, assessments, choices)
    (results.folder / "report.json").write_text(assessment_json(document))
    (results.folder / "report.csv").write_text(assessment_csv(assessments))
    (results.folder / "report.html").write_text(assessment_page(campaign, facts, assessments, choices))
    return document


@contextmanager
def session(master: str, memory: str) -> Iterator[Any]:
    """A Spark session for one command."""
    from holdfast.execute.session import open_session

    spark = open_session(master, memory=memory)
    try:
        yield spark
    finally:
        spark.stop()


def _require_law(spark: Any, app: Any, setting: Any) -> None:
    """Raise unless the application gives the same output however a sample of its trace is cut."""
    from pyspark.sql import functions as F

    from holdfast.errors import ApplicationError
    from holdfast.execute.cut import ByTime, spans_of, with_epochs
    from holdfast.execute.law import broken_operators

    until = int(setting.rows.seq[min(2000, len(setting.rows.seq)) - 1])
    sample = {name: frame.where(F.col("seq") <= until).drop("epoch") for name, frame in setting.sources.items()}
    sources = {name: frame.localCheckpoint() for name, frame in with_epochs(sample, ByTime(app.epoch_s)).items()}
    spans = list(spans_of(sources))
    broken = (
        broken_operators(spark, setting.graph, sources, spans[:6])
        if len(spans) <= 6
        else _broken_coarse(spark, setting, sources, spans)
    )
    if broken:
        raise ApplicationError(f"application '{app.name}'", [str(operator) for operator in broken])


def _broken_coarse(spark: Any, setting: Any, sources: Any, spans: Sequence[Any]) -> list[Any]:
    from holdfast.execute.cut import join_spans
    from holdfast.execute.law import broken_operators

    step = -(-len(spans) // 6)
    joined = [join_spans(spans[at : at + step]) for at in range(0, len(spans), step)]
    return broken_operators(spark, setting.graph, sources, joined)


def _subject(app: Any, app_file: Path, trace: str, columns: Sequence[str], seq: Any) -> dict[str, Any]:
    return {
        "application": app.name,
        "application_sha256": hashlib.sha256(app_file.read_bytes()).hexdigest()[:16],
        "trace": Path(trace).name,
        "tuples": len(seq),
        "seqs": [int(seq[0]), int(seq[-1])],
        "columns": sorted(columns),
    }


def _columns(graph: Any, given: Sequence[str]) -> dict[str, dict[str, str]] | None:
    """The mapping of columns, by source."""
    mapping: dict[str, dict[str, str]] = {}
    sources = [source.name for source in graph.sources]
    for text in given:
        name, equals, expression = text.partition("=")
        source, dot, column = name.strip().rpartition(".")
        if not equals or not expression.strip():
            raise HoldfastError(f"--column must read NAME=SQL or SOURCE.NAME=SQL, got '{text}'")
        if not dot and len(sources) > 1:
            raise HoldfastError(f"--column '{text}' must say of which source: {', '.join(sources)}")
        if dot and source not in sources:
            raise HoldfastError(
                f"--column '{text}' is of source '{source}', which does not exist; sources are: {', '.join(sources)}"
            )
        mapping.setdefault(source or sources[0], {})[column] = expression.strip()
    return mapping or None


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


def read_report(folder: Path) -> dict[str, Any]:
    """The report of a finished campaign."""
    path = folder / "report.json"
    if not path.exists():
        raise HoldfastError(f"folder '{folder}' has no report.json; run the campaign first")
    document: dict[str, Any] = json.loads(path.read_text())
    return document
