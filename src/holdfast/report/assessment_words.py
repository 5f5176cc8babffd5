"""The sentences of an assessment's page: what was found, how it is to be read, and how it was run."""

import math
from collections.abc import Mapping
from typing import Any

from holdfast.assess.assessment import Assessment, CaseView, unprotected_ranking
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import outage_name


def summary(campaign: Campaign, facts: Mapping[str, Any], assessment: Assessment) -> str:
    """What was done and what was found, in two sentences."""
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
        found = "No section of the output left the threshold"
    elif most is least:
        found = f"{most.case} has a quality impact of {most.impact:,.2f}, {_recovered(most)}"
    else:
        struck = "losing" if campaign.fault["kind"] == "loss" else f"{campaign.fault['kind']} at"
        found = (
            f"{struck.capitalize()} {most.case} hurts most (quality impact {most.impact:,.2f}, {_recovered(most)}), "
            f"{struck} {least.case} least ({least.impact:,.2f}, {_recovered(least)})"
        )
    return (
        f"{campaign.size:,} injections of {what} {place} {into} over "
        f"{facts['source']['tuples']:,} source tuples, scored by {assessment.score.expression}. {found}."
    )


def title(campaign: Campaign) -> str:
    """What the page is called."""
    kind, name = campaign.fault["kind"], campaign.subject.get("application", "the application")
    return f"What {'losing' if kind == 'loss' else f'{kind} at'} an operator costs {name}"


def _recovered(view: CaseView) -> str:
    return "not settled when the trace ended" if view.lasting else f"{_counted(view.recovery, 'section')} to recover"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def percent(share: float) -> str:
    """A share in per cent, with as many digits as it has.

    >>> percent(0.03), percent(0.005)
    ('3%', '0.5%')
    """
    return f"{100 * share:g}%"


def spread_warning(assessment: Assessment, campaign: Campaign) -> str:
    """That a score varies too much without a fault (section 3)."""
    much = f"by {assessment.spread:.1%}" if math.isfinite(assessment.spread) else "around zero"
    return (
        f"{assessment.score.expression} varies {much} between golden runs, more than the threshold of "
        f"{percent(campaign.threshold)}. What looks like the effect of a fault may be the application's own variation; choose a "
        "steadier score."
    )


def local_caption(campaign: Campaign) -> str:
    """What the plots of local quality show."""
    return (
        f"Section by section from the fault on, at the offset of the largest quality impact, as a share of what golden runs score. "
        f"The band is the threshold of {percent(campaign.threshold)}. The dashed line marks the recovery R at this offset: by then "
        f"{percent(campaign.percentile)} of the sections outside the band have passed. The table above has the longest R of all "
        "offsets."
    )


def spread_line(campaign: Campaign, facts: Mapping[str, Any], assessment: Assessment) -> str:
    """How steady the score is without a fault (section 3)."""
    if facts["deterministic"]:
        return "Every run of this application gives the same output, so repetitions repeat it."
    wandered = f"The arrival order of joined streams wandered by up to {campaign.jitter} tuples from run to run"
    if len(assessment.golden) < 2:
        return f"{wandered}; one golden run does not tell how far the score varies with it."
    return (
        f"{wandered}: over {len(assessment.golden)} golden runs {assessment.score.expression} varies by "
        f"{assessment.spread:.2g} of its mean (standard deviation), where more than {campaign.threshold:g} would be warned about."
    )


def how_it_was_run(campaign: Campaign, facts: Mapping[str, Any], assessment: Assessment) -> list[str]:
    """Everything that one needs to run it again, and what was seen of the sources and the score."""
    source, outages = facts["source"], ", ".join(outage_name(outage_s) for outage_s in campaign.outages_s)
    shared = (
        "Trials shared Spark jobs, each in a slot of its own; a sample of them was compared with runs of their own."
        if facts["why_slow"] is None
        else f"Every trial was a run of the whole trace, because {facts['why_slow']}."
    )
    for case, why in facts.get("apart", {}).items():
        shared += f" Those of {case} were runs of the whole trace, because {why}."
    return [
        f"Offsets (source tuples): {', '.join(f'{offset:,}' for offset in campaign.offsets)}. Outages (s): "
        f"{outages}, at the {' and '.join(campaign.paces)} rate of each target. "
        f"Repetitions: {campaign.repetitions}; golden runs: {campaign.golden_runs}.",
        f"The sources carry {source['average']:,.0f} tuples a second on average and {source['peak']:,.0f} at the peak.",
        shared,
        spread_line(campaign, facts, assessment),
        f"Campaign {campaign.identity}, seed {campaign.seed}.",
    ]
