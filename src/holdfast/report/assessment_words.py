"""The sentences on an assessment's page: summary, captions, warnings, and how the campaign was run."""

import math
from collections.abc import Mapping
from typing import Any

from holdfast.assess.assessment import Assessment, CaseView, unprotected_ranking
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import outage_name


def summary(campaign: Campaign, facts: Mapping[str, Any], assessment: Assessment) -> str:
    """Return two sentences: what was injected, and which operators matter most and least."""
    ranked = unprotected_ranking(campaign, assessment) or list(assessment.ranking)
    most, least = ranked[0], ranked[-1]
    replicas = sum(case.failover_s is not None for case in campaign.cases)
    place = "into" if campaign.fault.get("side", "input") == "input" else "on the way out of"
    figures = ", ".join(f"{name} {value:g}" for name, value in campaign.fault.items() if name not in ("kind", "side"))
    what = campaign.fault["kind"] + (f" ({figures})" if figures else "")
    into = _counted(len(campaign.cases) - replicas, "target") + (
        f" and {_counted(replicas, 'replicated group')}" if replicas else ""
    )
    if not most.impact:
        finding = "No section of the output left the threshold"
    elif most is least:
        finding = f"{most.case} costs {_lost(most)}"
    else:
        failing = "losing" if campaign.fault["kind"] == "loss" else f"{campaign.fault['kind']} at"
        finding = (
            f"{failing.capitalize()} {most.case} hurts most: it costs {_lost(most)}. {failing.capitalize()} "
            f"{least.case} hurts least: {_lost(least)}"
        )
    return (
        f"{campaign.size:,} injections of {what} {place} {into} over "
        f"{facts['source']['tuples']:,} source tuples, scored by {assessment.score.expression}. {finding}."
    )


def title(campaign: Campaign) -> str:
    """Return the title of the page."""
    kind, name = campaign.fault["kind"], campaign.subject.get("application", "the application")
    return f"What {'losing' if kind == 'loss' else f'{kind} at'} an operator costs {name}"


def _lost(view: CaseView) -> str:
    return f"as much as {view.damage.output} s of output ({_recovered(view)})"


def _recovered(view: CaseView) -> str:
    return "not settled when the trace ended" if view.lasting else f"{view.recovery * view.section_s:.3g} s to recover"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def percent(share: float) -> str:
    """Return a share as a percentage without trailing zeros.

    >>> percent(0.03), percent(0.005)
    ('3%', '0.5%')
    """
    return f"{100 * share:g}%"


def spread_warning(assessment: Assessment, campaign: Campaign) -> str:
    """Return the warning for a score that varies too much without a fault (section 3)."""
    much = f"by {assessment.spread:.1%}" if math.isfinite(assessment.spread) else "around zero"
    return (
        f"{assessment.score.expression} varies {much} between golden runs, more than the threshold of "
        f"{percent(campaign.threshold)}. What looks like the effect of a fault may be the application's own variation; choose a "
        "steadier score."
    )


def local_caption(campaign: Campaign) -> str:
    """Return the caption of the plots of local quality."""
    return (
        f"Section by section from the fault on, at the offset of the largest quality impact, as a share of what golden runs score. "
        f"The band is the threshold of {percent(campaign.threshold)}. The dashed line marks the recovery R at this offset: by then "
        f"{percent(campaign.percentile)} of the sections outside the band have passed. The table above has the longest R of all "
        "offsets."
    )


def spread_line(campaign: Campaign, facts: Mapping[str, Any], assessment: Assessment) -> str:
    """Return how much the score varies without a fault (section 3)."""
    if facts["deterministic"]:
        return "Every run of this application gives the same output, so repetitions repeat it."
    variation = f"The arrival order of joined streams varied by up to {campaign.jitter} tuples from run to run"
    if len(assessment.golden) < 2:
        return f"{variation}; one golden run does not show how much the score varies with it."
    return (
        f"{variation}: over {len(assessment.golden)} golden runs {assessment.score.expression} varies by "
        f"{assessment.spread:.2g} of its mean (standard deviation), and more than {campaign.threshold:g} would cause a warning."
    )


def how_it_was_run(campaign: Campaign, facts: Mapping[str, Any], assessment: Assessment) -> list[str]:
    """Return the settings that are needed to repeat the campaign, and the rates of the sources and the spread of the score."""
    source, outages = facts["source"], ", ".join(outage_name(outage_s) for outage_s in campaign.outages_s)
    execution = (
        "Trials shared Spark jobs; a sample of them was compared with runs of the whole trace."
        if facts["why_slow"] is None
        else f"Every trial was a run of the whole trace, because {facts['why_slow']}."
    )
    for case, reason in facts.get("apart", {}).items():
        execution += f" Those of {case} were runs of the whole trace, because {reason}."
    return [
        f"Offsets (source tuples): {', '.join(f'{offset:,}' for offset in campaign.offsets)}. Outages (s): "
        f"{outages}, at the {' and '.join(campaign.paces)} rate of each target. "
        f"Repetitions: {campaign.repetitions}; golden runs: {campaign.golden_runs}.",
        f"The sources carry {source['average']:,.0f} tuples a second on average and {source['peak']:,.0f} at the peak.",
        execution,
        spread_line(campaign, facts, assessment),
        f"Campaign {campaign.identity}, seed {campaign.seed}.",
    ]
