"""A campaign from a command's options to its reports."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.assess_fitting import (
    fitting_outages,
    fitting_section,
    leading,
    longest_loss,
    spread_offsets,
    with_fractions,
    with_tuples,
)
from holdfast.cli.assess_progress import shown
from holdfast.cli.shared import opened_trace, say
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.app import App, Graph
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.campaign_context import CampaignContext
    from holdfast.assess.campaign_fit import Rates
    from holdfast.assess.campaign_folder import Results
    from holdfast.assess.case import Case, Tempo
    from holdfast.assess.output_score import OutputScore
    from holdfast.assess.progress import Progress
    from holdfast.assess.targets import Choice, Target
    from holdfast.documents.fault import Side


def fault_named(text: str, *, side: "Side" = "input") -> dict[str, Any]:
    """The fault that every trial injects, from its kind and figures.

    >>> fault_named("divergence,size=0.2", side="output")
    {'kind': 'divergence', 'size': 0.2, 'side': 'output'}
    """
    from holdfast.documents.fault import KINDS, StreamFault

    kind, *figures = (word.strip() for word in text.split(","))
    if kind not in KINDS:
        raise HoldfastError(f"--fault: there is no fault '{kind}'; faults are: {', '.join(KINDS)}")
    known = [field.name for field in fields(KINDS[kind]) if field.name not in {base.name for base in fields(StreamFault)}]
    fault: dict[str, Any] = {"kind": kind}
    for figure in figures:
        name, _, value = figure.partition("=")
        if name not in known:
            has = f"its figures are: {', '.join(known)}" if known else "it has no figures"
            raise HoldfastError(f"--fault: a {kind} has no '{name}'; {has}")
        try:
            fault[name] = int(value) if value.isdigit() else float(value)
        except ValueError:
            raise HoldfastError(f"--fault: the {name} of a {kind} is a number, got '{value}'") from None
    return fault if side == "input" else fault | {"side": side}


def cases_of(
    targets: "Sequence[Target]", groups: "Sequence[Target]", *, failover_s: float, loses: "Side" = "input"
) -> "list[Case]":
    """Every target as it is and every group with an active replica; a group that no target is part of also as it is, so that
    there is a before to its after."""
    from holdfast.assess.case import Case

    cases = [Case(target, loses=loses) for target in targets]
    cases += [
        Case(group, loses=loses) for group in dict.fromkeys(groups) if not any(set(target) <= set(group) for target in targets)
    ]
    return cases + [Case(group, failover_s) for group in groups]


def scores_of(app: "App", texts: Sequence[str], sink: str | None = None) -> "list[OutputScore]":
    """The scores of a sink to go by: those asked for, ready-made ones by their name, or the application's own."""
    from holdfast.assess.output_score import READY_MADE, own_scores, ready_made, score_of

    if sink is not None and sink not in {node.name for node in app.graph().sinks}:
        known = ", ".join(node.name for node in app.graph().sinks)
        raise HoldfastError(f"application '{app.name}' has no sink '{sink}'; sinks are: {known}")
    own = own_scores(app, sink=sink)
    return [ready_made(app, text, sink=sink) if text in READY_MADE else score_of(own[0].sink, text) for text in texts] or own


def profiled_rates(path: Path, graph: "Graph") -> "dict[frozenset[str], Tempo]":
    """The rates of PEs, by all their operators, and of sources that a descriptor of this application holds.

    A source flows as fast as into a PE that reads nothing else; its levels say less, since each is the highest rate that it
    stands for.
    """
    from holdfast.assess.case import Tempo
    from holdfast.documents.descriptor import Descriptor
    from holdfast.documents.document import read_document

    descriptor = read_document(path, Descriptor)
    rates: dict[frozenset[str], Tempo] = {}
    for name, source in descriptor.sources.items():
        average = sum(rate.rate * rate.probability for rate in source.rates)
        rates[frozenset({name})] = Tempo(average, max(rate.rate for rate in source.rates))
    for name, pe in sorted(descriptor.pes.items()):
        if pe.rate is not None:
            tempo = Tempo(pe.rate.average, pe.rate.peak)
            rates[frozenset(pe.operators or (name,))] = tempo
            if len(pe.inputs) == 1 and not pe.inputs.keys().isdisjoint(descriptor.sources):
                rates[frozenset(pe.inputs)] = tempo
    unknown = sorted({name for names in rates for name in names} - set(graph.order))
    if unknown:
        raise HoldfastError(
            f"the profile '{path}' is of application '{descriptor.application}': it speaks of {', '.join(unknown)}, which this "
            "application does not have; make one of it with: holdfast profile"
        )
    return rates


@contextmanager
def trace_rows(
    spark: "SparkSession", graph: "Graph", trace: str, *, columns: dict[str, dict[str, str]] | None
) -> "Iterator[dict[str, DataFrame]]":
    """The rows of a trace, parsed once. On a cluster Spark holds them: a copy on this machine's disk is not where workers are."""
    from holdfast.engine.trace_reader import open_trace

    if (spark.sparkContext.master or "").startswith("local"):
        with opened_trace(spark, graph, trace, columns=columns) as frames:
            yield frames
        return
    held = {name: frame.persist() for name, frame in open_trace(spark, graph, trace, columns=columns).items()}
    try:
        yield held
    finally:
        for frame in held.values():
            frame.unpersist()


def subject_of(setting: "CampaignContext", app_file: Path, trace: str, mapping: Any) -> dict[str, Any]:
    """Which application and trace a campaign is about."""
    seq = setting.rows.seq
    return {
        **named_subject(setting.app, app_file, trace, mapping),
        "trace_hash": setting.trace_hash(),
        "tuples": len(seq),
        "seqs": [int(seq[0]), int(seq[-1])],
    }


def named_subject(app: "App", app_file: Path, trace: str, mapping: Any) -> dict[str, Any]:
    """As much of a subject as is known before the trace is read."""
    from holdfast.app.source_files import application_hash

    return {
        "application": app.name,
        "application_sha256": application_hash(app_file),
        "trace": Path(trace).name,
        "columns": mapping,
    }


def named_rates(rates: "Rates") -> dict[str, list[float]]:
    """Given rates as plain values, for a campaign's subject."""
    return {"+".join(sorted(names)): [tempo.average, tempo.peak] for names, tempo in rates.items()}


def figures_of(options: Mapping[str, Any], *, fault: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What options say of a campaign whatever its application and trace, as its values; the fault unless one is given."""
    from holdfast.assess.campaign import PACES

    return {
        "paces": PACES if options["rate"] == "both" else (options["rate"],),
        "repetitions": options["repetitions"],
        "golden_runs": options["golden_runs"] or options["repetitions"],
        "fault": fault or fault_named(options["fault"], side=options.get("side", "input")),
        "threshold": options["threshold"],
        "percentile": options["percentile"],
        "jitter": options["jitter"],
        "seed": options["seed"],
    }


def campaign_of(
    setting: "CampaignContext",
    cases: "Sequence[Case]",
    subject: dict[str, Any],
    options: Mapping[str, Any],
    *,
    rates: "Rates | None" = None,
) -> "Campaign":
    """The campaign that the options of `holdfast assess` ask for; what they leave open follows from the trace."""
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.output_score import own_affected

    figures = figures_of(options)
    outages_s = tuple(options["outages"]) or fitting_outages(setting)
    if not options["targets"]:
        cases = leading(setting.graph, cases, setting.sink)
        cases = with_fractions(setting, cases) if figures["fault"]["kind"] == "divergence" else cases
    places = setting.places(cases, setting.stream_seqs({stream for case in cases for stream in setting.struck(case)}))
    if not options["targets"]:
        cases = with_tuples(setting.graph, cases, places)
    longest_s = max(outages_s) if all(0 < outage < math.inf for outage in outages_s) else 1.0  # the campaign refuses such outages
    lost = {case: longest_loss(setting, places, case, longest_s, paces=figures["paces"], rates=rates or {}) for case in cases}
    return Campaign(
        subject=subject,
        cases=tuple(cases),
        offsets=tuple(options["offsets"]) or spread_offsets(setting.graph, places, lost),
        outages_s=outages_s,
        scores=tuple(score.expression for score in setting.scores),
        sink=setting.sink,
        section=options["section"] or fitting_section(setting, longest_s),
        affected=options["affected"] or own_affected(setting.app, setting.sink),
        **figures,
    )


def carry_out(
    setting: "CampaignContext",
    campaign: "Campaign",
    out: Path,
    *,
    choices: "Sequence[Choice]",
    way: Any = "auto",
    check: bool = True,
    parallel: int = 2,
    rates: "Rates | None" = None,
    progress: "Progress | None" = None,
) -> dict[str, Any]:
    """Run a campaign into a folder, or what is left of it, write its reports there, and return the report as plain values.

    How far it is goes to `progress`, or is shown where none is given.
    """
    from holdfast.assess.campaign_fit import require_places
    from holdfast.assess.campaign_folder import Results
    from holdfast.assess.law_check import require_law
    from holdfast.assess.runner import Runner

    require_places(setting, campaign, rates or {})
    results = Results(out, campaign)
    if not results.finished():
        with results.locked(), nullcontext(progress) if progress else shown() as told:
            try:
                if check and not results.done():
                    require_law(setting, progress=told)
                facts = results.read("facts")
                compared = facts is not None and facts["why_slow"] is None  # by the process that began it
                runner = Runner(setting, campaign, way=way, verify=not compared, rates=rates, progress=told)
                if runner.why_slow:
                    say(f"each trial is a run of the whole trace: {runner.why_slow}")
                elif runner.apart:
                    why = next(iter(runner.apart.values()))
                    say(f"each trial of {', '.join(runner.apart)} is a run of the whole trace: {why}")
                runner.run(results, parallel=parallel, progress=told)
            except KeyboardInterrupt:
                setting.spark.sparkContext.cancelAllJobs()
                say(f"{len(results.done()):,} of {campaign.size:,} trials are done; run the same command again to go on")
                raise
    return write_reports(results, choices)


def write_reports(results: "Results", choices: "Sequence[Choice]") -> dict[str, Any]:
    """Write report.json, report.csv and report.html beside the results."""
    from holdfast.assess.assessment import assess as assessed
    from holdfast.documents.whole_files import write_whole
    from holdfast.report.assessment import assessment_csv, assessment_document, assessment_json, assessment_page

    campaign, facts, golden = results.campaign, results.read("facts") or {}, results.read("golden") or {}
    assessments = assessed(campaign, facts, golden, results.outcomes)
    document = assessment_document(campaign, facts, assessments, choices)
    write_whole(results.folder / "report.json", assessment_json(document))
    write_whole(results.folder / "report.csv", assessment_csv(assessments))
    write_whole(results.folder / "report.html", assessment_page(campaign, facts, assessments, choices))
    return document
