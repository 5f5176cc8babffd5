"""The report of an assessment: JSON, CSV and one page, from the same values."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from holdfast.assess.advice import advise
from holdfast.assess.assessment import Assessment, CaseView
from holdfast.assess.campaign import Campaign
from holdfast.assess.metrics import fitted_line
from holdfast.assess.target import Choice
from holdfast.report.page import cards, heading, page, paragraph, table
from holdfast.report.plot import FAINT, INK, SERIES, drawn, line_plot

COLUMNS = ("operator", "outage impact C", "data dependency D", "recovery R", "quality impact I")
WHAT_IF = (
    *("when it fails", "replicated group", "failover"),
    *("I before", "I after", "times less", "R before", "R after", "times less "),
)


def assessment_document(
    campaign: Campaign, facts: Mapping[str, Any], assessments: Sequence[Assessment], choices: Sequence[Choice]
) -> dict[str, Any]:
    """Everything the page says, as plain values."""
    return {
        "campaign": campaign.document(),
        "identity": campaign.identity,
        "trials": campaign.size,
        "facts": {name: value for name, value in facts.items() if name != "affected"},
        "choices": [{"name": c.name, "chosen": c.chosen, "why": list(c.why), "like": c.like} for c in choices],
        "scores": [_score_document(campaign, assessment) for assessment in assessments],
    }


def assessment_json(document: Mapping[str, Any]) -> str:
    return json.dumps(_finite(document), indent=2)


def assessment_csv(assessments: Sequence[Assessment]) -> str:
    """One line per score, case, offset and outage: the quality score, beside the case's metrics."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("score", "case", "offset", "outage_s", "rate", "tuples", "quality", "C", "D_deviation", "D_accepted", "R", "I")
    )
    for assessment in assessments:
        for view in assessment.cases:
            dependency = view.dependency
            figures = (view.outage_impact, dependency.deviation, dependency.accepted, view.recovery, view.impact)
            for of_offset in view.offsets:
                for (outage_s, pace), tuples, quality in zip(view.outages, view.tuples, of_offset.quality, strict=True):
                    writer.writerow(
                        (assessment.score.expression, view.case, of_offset.offset, f"{outage_s:g}", pace, tuples, quality, *figures)
                    )
    return text.getvalue()


def assessment_page(
    campaign: Campaign, facts: Mapping[str, Any], assessments: Sequence[Assessment], choices: Sequence[Choice]
) -> str:
    """The page: who needs protection and why, and the plots of Figures 8 to 12."""
    first = assessments[0]
    name = campaign.subject.get("application", "application")
    parts = [
        paragraph(_summary(campaign, facts, first)),
        *([paragraph(_spread_warning(first, campaign))] if first.spread_warning else []),
        heading("Who needs protection"),
        table(("rank", "operator", "advice"), _ranking_rows(campaign, first), words=("advice",), names=("operator",)),
        heading("The four metrics"),
        table(COLUMNS, [metric_row(view) for view in first.cases]),
        paragraph(
            "C: rank correlation of outage and quality. D: standard deviation of quality over offsets, and whether the analysis "
            "of variance accepts (A) or rejects (R) that offsets do not matter. "
            f"R: sections of {campaign.section:,} keys until {campaign.percentile:.0%} of the sections more than "
            f"{campaign.threshold:.0%} off have passed. I: their squared errors, summed. R and I are of the longest outage and the "
            "worst offset.",
            note=True,
        ),
        *_what_if(campaign, first),
        heading("Quality against outage"),
        cards([outage_plot(view) for view in first.cases]),
        heading("Quality against offset, longest outage"),
        cards([offset_plot(first)]),
        heading("Local quality after the longest outage"),
        cards([local_plot(view, campaign) for view in first.cases]),
        *_other_scores(campaign, assessments),
        heading("Which operators were tried"),
        table(("operator", "why"), [(c.name, str(c).partition(": ")[2]) for c in choices], words=("why",)),
        heading("How it was run"),
        *(paragraph(line, note=True) for line in _how(campaign, facts)),
    ]
    return page(f"What losing an operator costs {name}", parts)


def metric_row(view: CaseView) -> tuple[str, ...]:
    """A line of Table 2."""
    return view.case, f"{view.outage_impact:.2f}", str(view.dependency), str(view.recovery), f"{view.impact:.2f}"


def outage_plot(view: CaseView) -> str:
    """Quality score against outage with its fitted line, at the offset of the largest impact (Figure 8)."""
    worst = view.worst
    slope, intercept = fitted_line(view.tuples, worst.quality)

    def draw(axes: Axes) -> None:
        ends = np.array([min(view.tuples), max(view.tuples)])
        axes.axhline(1.0, color=FAINT, linewidth=1)
        axes.plot(ends, slope * ends + intercept, color=SERIES[1], label=f"f(x) = {slope:.2e} x + {intercept:.2f}")
        axes.plot(view.tuples, worst.quality, "o", color=SERIES[0])
        axes.set(xlabel="outage (tuples)", ylabel="quality score", title=f"{view.case}, offset {worst.offset:,}")
        axes.legend()

    return drawn(draw, label=f"quality score of {view.case} against outage")


def offset_plot(assessment: Assessment) -> str:
    """Quality score of every case against offset, under the longest outage (Figure 9)."""
    lines = []
    for view in assessment.cases:
        longest = int(np.argmax(view.tuples))
        lines.append((view.case, [o.offset for o in view.offsets], [o.quality[longest] for o in view.offsets]))
    return line_plot(lines, x="offset (source tuples)", y="quality score")


def local_plot(view: CaseView, campaign: Campaign) -> str:
    """Local quality score after the fault, with the recovery mark (Figures 10 and 11)."""
    worst = view.worst
    shown = min(len(worst.errors), max(20, int(worst.recovery * 1.4) + 5))
    sections = np.arange(worst.begin, worst.begin + shown)
    quality = worst.local_quality[:shown]

    def draw(axes: Axes) -> None:
        axes.axhspan(1 - campaign.threshold, 1 + campaign.threshold, color=FAINT, alpha=0.3, linewidth=0)
        axes.axhline(1.0, color=FAINT, linewidth=1)
        axes.plot(sections, quality, color=SERIES[0], marker="o" if shown <= 60 else "", markersize=3)
        if worst.recovery:
            at = worst.begin + worst.recovery - 1
            axes.axvline(at, color=SERIES[1], linestyle="--")
            axes.annotate(f" R = {worst.recovery}", (at, 0.98), xycoords=("data", "axes fraction"), va="top", color=INK)
        axes.margins(y=0.15)  # room above the line for the mark's figure
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel=f"section ({campaign.section:,} keys)", ylabel="local quality score")
        axes.set_title(f"{view.case}, offset {worst.offset:,}: I = {worst.impact:.2f}")

    return drawn(draw, label=f"local quality score after a fault of {view.case}")


def _summary(campaign: Campaign, facts: Mapping[str, Any], assessment: Assessment) -> str:
    ranked = _as_they_are(campaign, assessment) or list(assessment.ranking)
    most, least = ranked[0], ranked[-1]
    replicas = sum(case.failover_s is not None for case in campaign.cases)
    into = _counted(len(campaign.cases) - replicas, "target") + (
        f" and {_counted(replicas, 'replicated group')}" if replicas else ""
    )
    return (
        f"{campaign.size:,} injections of {campaign.fault['kind']} into {into} over "
        f"{facts['source']['tuples']:,} source tuples, scored by {assessment.score.expression}. Losing {most.case} hurts most "
        f"(quality impact {most.impact:.2f}, {_counted(most.recovery, 'section')} to recover), losing {least.case} least "
        f"({least.impact:.2f}, {least.recovery})."
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _spread_warning(assessment: Assessment, campaign: Campaign) -> str:
    return (
        f"Careful: the score varies by {assessment.spread:.1%} between golden runs, more than the threshold of "
        f"{campaign.threshold:.0%}. What looks like the effect of a fault may be the application's own variation; choose a "
        "steadier score."
    )


def _ranking_rows(campaign: Campaign, assessment: Assessment) -> list[tuple[str, str, str]]:
    return [(str(rank), v.case, str(advise(assessment, v))) for rank, v in enumerate(_as_they_are(campaign, assessment), start=1)]


def _as_they_are(campaign: Campaign, assessment: Assessment) -> list[CaseView]:
    """The ranking without the cases that ask what a replica would change."""
    return [view for view in assessment.ranking if campaign.case(view.case).failover_s is None]


def what_if_rows(campaign: Campaign, assessment: Assessment) -> list[tuple[str, ...]]:
    """Every protected target, before and after (Figure 12)."""
    rows: list[tuple[str, ...]] = []
    for case in campaign.cases:
        if case.failover_s is None:
            continue
        after = assessment.case(case.name)
        for other in campaign.cases:
            if other.failover_s is None and set(other.target) <= set(case.target):
                before = assessment.case(other.name)
                rows.append(
                    (
                        other.name,
                        "+".join(case.target),
                        f"{case.failover_s:g} s",
                        f"{before.impact:.2f}",
                        f"{after.impact:.2f}",
                        _times(before.impact, after.impact),
                        str(before.recovery),
                        str(after.recovery),
                        _times(before.recovery, after.recovery),
                    )
                )
    return rows


def _what_if(campaign: Campaign, assessment: Assessment) -> list[str]:
    rows = what_if_rows(campaign, assessment)
    if not rows:
        return []
    return [heading("What if: an active replica"), table(WHAT_IF, rows, names=("replicated group",))]


def _times(before: float, after: float) -> str:
    if after == 0:
        return "all" if before else "-"
    return f"{before / after:.1f}"


def _other_scores(campaign: Campaign, assessments: Sequence[Assessment]) -> list[str]:
    if len(assessments) < 2:
        return []
    rows = [
        (
            assessment.score.expression,
            " > ".join(view.case for view in _as_they_are(campaign, assessment)),
            f"{assessment.spread:.2%}",
        )
        for assessment in assessments
    ]
    return [
        heading("The same outcomes under other scores"),
        table(("score", "from most to least critical", "spread of golden runs"), rows, words=("from most to least critical",)),
    ]


def _how(campaign: Campaign, facts: Mapping[str, Any]) -> list[str]:
    source = facts["source"]
    shared = (
        "Trials shared Spark jobs, each in a lane of its own; a sample of them was compared with runs of their own."
        if facts["why_slow"] is None
        else f"Every trial was a run of the whole trace, because {facts['why_slow']}."
    )
    order = (
        "Every run of this application gives the same output, so repetitions repeat it."
        if facts["deterministic"]
        else f"The arrival order of joined streams wandered by up to {campaign.jitter} tuples from run to run."
    )
    return [
        f"Offsets (source tuples): {', '.join(f'{offset:,}' for offset in campaign.offsets)}. Outages (s): "
        f"{', '.join(f'{outage:g}' for outage in campaign.outages_s)}, at the {' and '.join(campaign.paces)} rate of each target. "
        f"Repetitions: {campaign.repetitions}; golden runs: {campaign.golden_runs}.",
        f"The sources carry {source['average']:,.0f} tuples a second on average and {source['peak']:,.0f} at the peak.",
        shared,
        order,
        f"Campaign {campaign.identity}, seed {campaign.seed}.",
    ]


def _score_document(campaign: Campaign, assessment: Assessment) -> dict[str, Any]:
    return {
        "score": assessment.score.expression,
        "golden": list(assessment.golden),
        "spread": assessment.spread,
        "spread_warning": assessment.spread_warning,
        "ranking": [view.case for view in _as_they_are(campaign, assessment)],
        "what_if": [list(row) for row in what_if_rows(campaign, assessment)],
        "cases": [_case_document(assessment, view) for view in assessment.cases],
    }


def _case_document(assessment: Assessment, view: CaseView) -> dict[str, Any]:
    advice = advise(assessment, view)
    return {
        "case": view.case,
        "outage_impact": view.outage_impact,
        "data_dependency": {
            "deviation": view.dependency.deviation,
            "accepted": view.dependency.accepted,
            "p": view.dependency.p,
        },
        "recovery": view.recovery,
        "impact": view.impact,
        "verdict": advice.verdict,
        "advice": str(advice),
        "outages": [{"seconds": s, "rate": pace, "tuples": n} for (s, pace), n in zip(view.outages, view.tuples, strict=True)],
        "offsets": [
            {
                "offset": of_offset.offset,
                "quality": list(of_offset.quality),
                "recovery": of_offset.recovery,
                "impact": of_offset.impact,
                "repetitions": list(repeated),
            }
            for of_offset, repeated in zip(view.offsets, view.repeated, strict=True)
        ],
    }


def _finite(value: Any) -> Any:
    """The same with null for what JSON has no number for."""
    if isinstance(value, Mapping):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
