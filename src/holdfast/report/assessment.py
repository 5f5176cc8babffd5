"""The report of an assessment as JSON, CSV and an HTML page."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from holdfast.assess.advice import advise
from holdfast.assess.assessment import Assessment, CaseView, assess_results, unprotected_ranking
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import outage_name
from holdfast.assess.damage import CERTAIN, CONFIDENCE, METHOD, certainty
from holdfast.assess.targets import Choice
from holdfast.assess.what_if import compare_with_replicas
from holdfast.documents.whole_files import write_whole
from holdfast.report.assessment_plots import growth_plots, local_plot, offset_plot, outage_plot
from holdfast.report.assessment_words import how_it_was_run, local_caption, percent, spread_warning, summary, title
from holdfast.report.json_values import finite
from holdfast.report.page import cards, heading, html_page, paragraph, table

RANKING = ("operator", "its loss", "output lost (s)", "wrong for (s)", "recovery (s)", "loses more than the next")
COLUMNS = ("operator", "outage impact C", "data dependency D", "recovery R", "quality impact I")
WHAT_IF = (
    *("when it fails", "replicated group", "failover"),
    *("I before", "I after", "times less", "R before", "R after", "times less "),
)


def write_reports(results: Results, choices: Sequence[Choice]) -> dict[str, Any]:
    """Write report.json, report.csv and report.html into the folder of a campaign's results, and return the JSON document."""
    campaign, facts, assessments = results.campaign, results.read("facts") or {}, assess_results(results)
    document = assessment_document(campaign, facts, assessments, choices)
    write_whole(results.folder / "report.json", assessment_json(document))
    write_whole(results.folder / "report.csv", assessment_csv(assessments))
    write_whole(results.folder / "report.html", assessment_page(campaign, facts, assessments, choices))
    return document


def assessment_document(
    campaign: Campaign, facts: Mapping[str, Any], assessments: Sequence[Assessment], choices: Sequence[Choice]
) -> dict[str, Any]:
    """Return the content of the page as plain values."""
    return {
        "campaign": campaign.document(),
        "identity": campaign.identity,
        "trials": campaign.size,
        "facts": {name: value for name, value in facts.items() if name != "affected"},
        "choices": [
            {"name": c.name, "chosen": c.chosen, "tried": tried == "yes", "why": list(c.why), "like": c.like}
            for c, (_, tried, _) in zip(choices, _tried_rows(campaign, choices), strict=False)
        ],
        "scores": [_score_document(campaign, assessment, choices) for assessment in assessments],
    }


def assessment_json(document: Mapping[str, Any]) -> str:
    return json.dumps(finite(document), indent=2)


def assessment_csv(assessments: Sequence[Assessment]) -> str:
    """Return one line per score, case, offset and outage, with the quality score and the case's metrics."""
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
                        (
                            assessment.score.expression,
                            view.case,
                            of_offset.offset,
                            outage_name(outage_s),
                            pace,
                            tuples,
                            quality,
                            *figures,
                        )
                    )
    return text.getvalue()


def assessment_page(
    campaign: Campaign, facts: Mapping[str, Any], assessments: Sequence[Assessment], choices: Sequence[Choice]
) -> str:
    """Return the HTML page: which operators need protection and why, with the plots of Figures 8 to 12."""
    first = assessments[0]
    parts = [
        paragraph(summary(campaign, facts, first)),
        *(paragraph(f"Warning: {spread_warning(each, campaign)}") for each in assessments if each.spread_warning),
        heading("What to protect, what is lost otherwise, and how certain that is"),
        table(RANKING, _ranking_rows(campaign, first), words=("its loss",)),
        paragraph(
            f"An outage of {first.cases[0].longest_s:g} s without a replica: means over {len(campaign.offsets)} offsets, in "
            f"parentheses their {CONFIDENCE:.0%} confidence interval ({METHOD}). Output lost: the score that is missing or wrong, "
            "as seconds in which the output scores as much. Certain: a paired t-test over the offsets. What a replica costs, and "
            "what a budget should buy, is the subject of holdfast advise.",
            note=True,
        ),
        heading("Why"),
        table(("operator", "because"), _reason_rows(campaign, first, choices), words=("because",)),
        heading("The four metrics"),
        table(COLUMNS, [metric_row(view) for view in first.cases]),
        paragraph(
            "C: rank correlation of outage and quality. D: standard deviation of quality over offsets, and whether the analysis "
            "of variance accepts (A) or rejects (R) that offsets do not matter. "
            f"R: sections of {campaign.section:,} seqs until {percent(campaign.percentile)} of the sections more than "
            f"{percent(campaign.threshold)} off have passed; a + says that the output had not settled when the trace ended. I: "
            "their squared errors, summed. R and I are of the longest outage and the worst offset.",
            note=True,
        ),
        *_what_if(campaign, first),
        heading("Quality against outage"),
        paragraph(
            "Each point is an outage, from the shortest at the average rate to the longest at the peak rate, at the offset of the "
            "largest quality impact; the line is fitted to them by least squares.",
            note=True,
        ),
        cards([outage_plot(view) for view in first.cases]),
        heading("Quality against offset, longest outage"),
        cards([offset_plot(first)]),
        heading("Local quality after the longest outage"),
        paragraph(local_caption(campaign), note=True),
        cards([local_plot(view, campaign) for view in first.cases]),
        *_growth(campaign, first),
        *_other_scores(campaign, assessments),
        heading("Which operators were tried"),
        table(("operator", "tried", "why"), _tried_rows(campaign, choices), words=("why",), names=("tried",)),
        heading("How it was run"),
        *(paragraph(line, note=True) for line in how_it_was_run(campaign, facts, first)),
    ]
    return html_page(title(campaign), parts)


def _ranking_rows(campaign: Campaign, assessment: Assessment) -> list[tuple[str, ...]]:
    """Return a row per operator: how important its loss is, the loss in seconds, and how certain its rank is."""
    ranked = unprotected_ranking(campaign, assessment)
    losses = [view.damage.output_s for view in ranked]
    certain = [*(certainty_text(certainty(one, other)) for one, other in pairwise(losses)), "-"]
    return [
        (
            view.case,
            advise(assessment, view).action.removeprefix("Its loss is "),
            str(view.damage.output),
            str(view.damage.affected),
            str(view.damage.recovery),
            rank,
        )
        for view, rank in zip(ranked, certain, strict=True)
    ]


def certainty_text(probability: float) -> str:
    """Return how certain a rank is.

    >>> certainty_text(0.999), certainty_text(0.7), certainty_text(float("nan"))
    ('certain (99.9%)', 'uncertain (70%): the losses overlap', 'unknown: one offset')
    """
    if math.isnan(probability):
        return "unknown: one offset"
    text = percent(round(probability, 3))
    return f"certain ({text})" if probability >= CERTAIN else f"uncertain ({text}): the losses overlap"


def metric_row(view: CaseView) -> tuple[str, ...]:
    """Return a row of Table 2. A + after the recovery time means that the output had not recovered when the trace ended."""
    recovery = f"{view.recovery}{'' if view.lasting is None else '+'}"
    return view.case, f"{view.outage_impact:.2f}", str(view.dependency), recovery, f"{view.impact:.2f}"


def _tried_rows(campaign: Campaign, choices: Sequence[Choice]) -> list[tuple[str, str, str]]:
    """Return a row per operator: whether it was injected into, or which other operator was instead, and why."""
    tried = {case.name for case in campaign.cases if case.failover_s is None}
    rows = []
    for choice in choices:
        instead = f"as {choice.like}" if choice.like in tried else "no"
        rows.append((choice.name, "yes" if choice.name in tried else instead, str(choice).partition(": ")[2]))
    listed_names = {choice.name for choice in choices}
    return rows + [(name, "yes", "it was requested") for name in sorted(tried - listed_names)]


def _growth(campaign: Campaign, assessment: Assessment) -> list[str]:
    if len(assessment.growth) < 2:
        return []
    name = unprotected_ranking(campaign, assessment)[0].case
    return [heading(f"How the damage of {name} grows with the outage"), cards(growth_plots(assessment, campaign))]


def _reason_rows(campaign: Campaign, assessment: Assessment, choices: Sequence[Choice]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for view in unprotected_ranking(campaign, assessment):
        because, others = advise(assessment, view).because, sharing(view, choices)
        same = f" The same goes for {', '.join(others)}, which behave{'s' if len(others) == 1 else ''} alike." if others else ""
        rows.append((view.case, f"{because[:1].upper()}{because[1:]}.{same}"))
    return rows


def sharing(view: CaseView, choices: Sequence[Choice]) -> list[str]:
    """Return the operators that were not tried, because they behave like this one."""
    return [choice.name for choice in choices if choice.like == view.case]


def what_if_rows(campaign: Campaign, assessment: Assessment) -> list[tuple[str, ...]]:
    """Return a row per protected target, without and with the replica (Figure 12)."""
    return [
        (
            each.failing,
            each.group,
            f"{outage_name(each.failover_s)} s",
            f"{each.impact_before:.2f}",
            f"{each.impact_after:.2f}",
            _times(each.impact_before, each.impact_after),
            str(each.recovery_before),
            str(each.recovery_after),
            _times(each.recovery_before, each.recovery_after),
        )
        for each in compare_with_replicas(campaign, assessment)
    ]


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
            " > ".join(view.case for view in unprotected_ranking(campaign, assessment)),
            f"{assessment.spread:.2%}",
        )
        for assessment in assessments
    ]
    return [
        heading("The same outcomes under other scores"),
        table(("score", "from most to least critical", "spread of golden runs"), rows, words=("from most to least critical",)),
    ]


def _score_document(campaign: Campaign, assessment: Assessment, choices: Sequence[Choice]) -> dict[str, Any]:
    ranked = unprotected_ranking(campaign, assessment)
    return {
        "score": assessment.score.expression,
        "golden": list(assessment.golden),
        "spread": assessment.spread,
        "spread_warning": assessment.spread_warning,
        "ranking": [view.case for view in ranked],
        "certainty": finite([certainty(a.damage.output_s, b.damage.output_s) for a, b in pairwise(ranked)]),
        "what_if": [asdict(each) for each in compare_with_replicas(campaign, assessment)],
        "growth": [{"seconds": s, "recovery": view.recovery, "impact": view.impact} for s, view in assessment.growth],
        "cases": [_case_document(assessment, view, choices) for view in assessment.cases],
    }


def _case_document(assessment: Assessment, view: CaseView, choices: Sequence[Choice]) -> dict[str, Any]:
    advice = advise(assessment, view)
    return {
        "case": view.case,
        "shared_by": sharing(view, choices),
        "outage_impact": view.outage_impact,
        "data_dependency": {
            "deviation": view.dependency.deviation,
            "accepted": view.dependency.accepted,
            "p": view.dependency.p,
        },
        "recovery": view.recovery,
        "settled": view.lasting is None,
        "impact": view.impact,
        "damage": {
            name: finite(asdict(interval)) | {"by_offset": list(values)}  # with one offset there is no interval
            for name, interval, values in (
                ("affected_s", view.damage.affected, view.damage.affected_s),
                ("output_s", view.damage.output, view.damage.output_s),
                ("recovery_s", view.damage.recovery, view.damage.recovery_s),
            )
        },
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
