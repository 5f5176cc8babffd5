"""Set up a campaign: read the options of `holdfast assess`, and choose what they leave open from the trace."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.app import App, Graph
from holdfast.app.source_files import application_hash
from holdfast.assess.campaign import PACES, Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_fit import Rates
from holdfast.assess.case import Case, Tempo
from holdfast.assess.damage import CRITICAL, SMALL
from holdfast.assess.fitting import (
    cases_reaching,
    cases_with_fractions,
    cases_with_tuples,
    default_outages,
    default_section,
    longest_loss,
    spread_offsets,
)
from holdfast.assess.metrics import PERCENTILE, THRESHOLD
from holdfast.assess.output_score import READY_MADE, OutputScore, own_affected, own_scores, ready_made, score_of
from holdfast.assess.targets import Target
from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import read_document
from holdfast.documents.fault import KINDS, Side, StreamFault
from holdfast.engine.trace_reader import open_trace, opened_trace
from holdfast.errors import HoldfastError, did_you_mean

DEFAULT_OPTIONS: Mapping[str, Any] = {
    "targets": (),
    "offsets": (),
    "outages": (),
    "rate": "both",
    "repetitions": 5,
    "golden_runs": None,
    "fault": "loss",
    "section": None,
    "threshold": THRESHOLD,
    "percentile": PERCENTILE,
    "critical": CRITICAL,
    "small": SMALL,
    "jitter": 8,
    "seed": 1,
    "affected": None,
}
"""Options of `holdfast assess` that `build_campaign` uses, for campaigns that other commands run."""


def parse_fault(text: str, *, side: Side = "input") -> dict[str, Any]:
    """Return the fault that every trial injects, given its kind and parameters.

    >>> parse_fault("divergence,size=0.2", side="output")
    {'kind': 'divergence', 'size': 0.2, 'side': 'output'}
    """
    kind, *parameters = (word.strip() for word in text.split(","))
    if kind not in KINDS:
        raise HoldfastError(f"--fault: there is no fault '{kind}'; faults are: {', '.join(KINDS)}{did_you_mean(kind, KINDS)}")
    allowed = [field.name for field in fields(KINDS[kind]) if field.name not in {base.name for base in fields(StreamFault)}]
    fault: dict[str, Any] = {"kind": kind}
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name not in allowed:
            has = f"its parameters are: {', '.join(allowed)}" if allowed else "it has no parameters"
            raise HoldfastError(f"--fault: a {kind} has no '{name}'; {has}")
        try:
            fault[name] = int(value) if value.isdigit() else float(value)
        except ValueError:
            raise HoldfastError(f"--fault: the {name} of a {kind} is a number, got '{value}'") from None
    return fault if side == "input" else fault | {"side": side}


def build_cases(targets: Sequence[Target], groups: Sequence[Target], *, failover_s: float, loses: Side = "input") -> list[Case]:
    """Return a case for every target, and a case with an active replica for every group.

    A group that contains no target also gets a case without a replica, for comparison.
    """
    cases = [Case(target, loses=loses) for target in targets]
    cases += [
        Case(group, loses=loses) for group in dict.fromkeys(groups) if not any(set(target) <= set(group) for target in targets)
    ]
    return cases + [Case(group, failover_s) for group in groups]


def select_scores(app: App, texts: Sequence[str], sink: str | None = None) -> list[OutputScore]:
    """Return the scores for a sink: those in `texts` (expressions or ready-made names), or else the application's own."""
    if sink is not None and sink not in {node.name for node in app.graph().sinks}:
        sinks = ", ".join(node.name for node in app.graph().sinks)
        raise HoldfastError(
            f"application '{app.name}' has no sink '{sink}'; sinks are: {sinks}{did_you_mean(sink, sinks.split(', '))}"
        )
    own = own_scores(app, sink=sink)
    return [ready_made(app, text, sink=sink) if text in READY_MADE else score_of(own[0].sink, text) for text in texts] or own


def read_rates(path: Path, graph: Graph) -> dict[frozenset[str], Tempo]:
    """Return the rates of PEs (by their operators) and of sources in an application's descriptor.

    The rate of a source is the input rate of a PE that reads only this source, if there is one. The descriptor's rate levels of
    the source are less exact: each is the highest rate of its level.
    """
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
            f"the profile '{path}' is of application '{descriptor.application}': it has {', '.join(unknown)}, which this "
            "application does not have; make a profile of this application with: holdfast profile"
        )
    return rates


@contextmanager
def parsed_trace(
    spark: SparkSession, graph: Graph, trace: str, *, columns: dict[str, dict[str, str]] | None
) -> Iterator[dict[str, DataFrame]]:
    """Yield the rows of a trace so that they are parsed once: from a local copy, or on a cluster from Spark's cache."""
    if (spark.sparkContext.master or "").startswith("local"):
        with opened_trace(spark, graph, trace, columns=columns) as frames:
            yield frames
        return
    frames = {name: frame.persist() for name, frame in open_trace(spark, graph, trace, columns=columns).items()}
    try:
        yield frames
    finally:
        for frame in frames.values():
            frame.unpersist()


def describe_subject(context: CampaignContext, app_file: Path, trace: str, mapping: Any) -> dict[str, Any]:
    """Return the subject of a campaign: its application and trace."""
    seq = context.rows.seq
    return {
        **describe_partial_subject(context.app, app_file, trace, mapping),
        "trace_hash": context.trace_hash(),
        "tuples": len(seq),
        "seqs": [int(seq[0]), int(seq[-1])],
    }


def describe_partial_subject(app: App, app_file: Path, trace: str, mapping: Any) -> dict[str, Any]:
    """Return the part of a subject that is known before the trace is read."""
    return {
        "application": app.name,
        "application_sha256": application_hash(app_file),
        "trace": Path(trace).name,
        "columns": mapping,
    }


def rates_by_name(rates: Rates) -> dict[str, list[float]]:
    """Return rates as plain values, for a campaign's subject."""
    return {"+".join(sorted(names)): [tempo.average, tempo.peak] for names, tempo in rates.items()}


def campaign_figures(options: Mapping[str, Any], *, fault: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the campaign's values that depend only on options, not on application or trace. `fault` replaces options["fault"]."""
    return {
        "paces": PACES if options["rate"] == "both" else (options["rate"],),
        "repetitions": options["repetitions"],
        "golden_runs": options["golden_runs"] or options["repetitions"],
        "fault": fault or parse_fault(options["fault"], side=options.get("side", "input")),
        "threshold": options["threshold"],
        "percentile": options["percentile"],
        "critical": options["critical"],
        "small": options["small"],
        "jitter": options["jitter"],
        "seed": options["seed"],
    }


def build_campaign(
    context: CampaignContext,
    cases: Sequence[Case],
    subject: dict[str, Any],
    options: Mapping[str, Any],
    *,
    rates: Rates | None = None,
) -> Campaign:
    """Return the campaign for options of `holdfast assess`. Values that the options do not give are chosen to fit the trace."""
    figures = campaign_figures(options)
    outages_s = tuple(options["outages"]) or default_outages(context)
    if not options["targets"]:
        cases = cases_reaching(context.graph, cases, context.sink)
        cases = cases_with_fractions(context, cases) if figures["fault"]["kind"] == "divergence" else cases
    locator = context.locator(cases, context.stream_seqs({stream for case in cases for stream in context.injected_edges(case)}))
    if not options["targets"]:
        cases = cases_with_tuples(context.graph, cases, locator)
    longest_s = max(outages_s) if all(0 < outage < math.inf for outage in outages_s) else 1.0  # Campaign rejects invalid outages
    lost = {case: longest_loss(context, locator, case, longest_s, paces=figures["paces"], rates=rates or {}) for case in cases}
    return Campaign(
        subject=subject,
        cases=tuple(cases),
        offsets=tuple(options["offsets"]) or spread_offsets(context.graph, locator, lost),
        outages_s=outages_s,
        scores=tuple(score.expression for score in context.scores),
        sink=context.sink,
        section=options["section"] or default_section(context, longest_s),
        affected=options["affected"] or own_affected(context.app, context.sink),
        **figures,
    )
