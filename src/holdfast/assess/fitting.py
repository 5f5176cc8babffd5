"""Choose campaign values that the options do not give so that they fit the trace, and report the choices."""

import math
from collections.abc import Mapping, Sequence

from holdfast.app import Graph
from holdfast.assess.campaign import OUTAGES_S
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_fit import Rates, case_tempo, has_fractions
from holdfast.assess.case import Case, OutageLocator, Pace
from holdfast.errors import CompoundError
from holdfast.terminal import say

SECTION = 5000
"""Seqs per section (DEBS'11, section 6.3)."""
MOST_S = 1e9
"""The longest outage for which tuples are counted. No trace has room for it."""
FILLED = 4
"""The least number of sections that the longest outage must fill, so that its effect is visible in them."""


def cases_reaching(graph: Graph, cases: Sequence[Case], sink: str) -> list[Case]:
    """Return the cases whose faults can reach a sink."""
    upstream = graph.upstream(sink)
    others = [case.name for case in cases if upstream.isdisjoint(case.target)]
    if others:
        say(f"skipped, because they do not lead to sink '{sink}', which is scored (--sink): {', '.join(others)}")
    return [case for case in cases if not upstream.isdisjoint(case.target)]


def cases_with_tuples(graph: Graph, cases: Sequence[Case], locator: OutageLocator) -> list[Case]:
    """Return the cases that have tuples to lose."""
    idle = [case for case in cases if not locator.count(graph, case)]
    for side, what in (("input", "reaches"), ("output", "leaves")):
        names = [case.name for case in idle if case.side == side]
        if names:
            say(f"skipped, because nothing {what} {'it' if len(names) == 1 else 'them'} on this trace: {', '.join(names)}")
    return [case for case in cases if locator.count(graph, case)]


def cases_with_fractions(context: CampaignContext, cases: Sequence[Case]) -> list[Case]:
    """Return the cases whose values can diverge; all of them if there is none, which the campaign rejects."""
    insensitive = [case.name for case in cases if not has_fractions(context, case)]
    if not insensitive or len(insensitive) == len(cases):
        return list(cases)
    say(f"skipped, because there are no fractional numbers that could diverge: {', '.join(insensitive)}")
    return [case for case in cases if case.name not in insensitive]


def longest_loss(
    context: CampaignContext,
    locator: OutageLocator,
    case: Case,
    longest_s: float,
    *,
    paces: Sequence[Pace],
    rates: Rates,
) -> int:
    """Return the number of tuples that a case loses in the longest outage."""
    tempo = case_tempo(context, locator, case, rates)
    return max(case.tuples(min(longest_s, MOST_S), tempo.at(pace)) for pace in paces)


def default_outages(context: CampaignContext) -> tuple[float, ...]:
    """Return the paper's outages except those that exceed half of the trace at the peak rate; at least the shortest."""
    half = len(context.rows.seq) / 2
    fitting = tuple(outage for outage in OUTAGES_S if outage * context.rows.tempo.peak <= half) or OUTAGES_S[:1]
    if fitting != OUTAGES_S:
        too_long = ", ".join(f"{outage:g}" for outage in OUTAGES_S if outage not in fitting)
        say(f"skipping outages of {too_long} s: at the peak rate they exceed half of the trace; override with --outage")
    return fitting


def default_section(context: CampaignContext, longest_s: float) -> int:
    """Return the paper's section length, or a shorter round length if the longest outage would not fill FILLED sections."""
    seq = context.rows.seq
    gap = (int(seq[-1]) - int(seq[0]) + 1) / len(seq)
    longest = max(1.0, context.rows.tempo.peak * min(longest_s, MOST_S) * gap / FILLED)
    paper_section = SECTION * max(1, round(gap))  # the paper's seqs have no gaps
    if longest >= paper_section:
        return paper_section
    digits: int = 10 ** math.floor(math.log10(longest))
    section = next(step * digits for step in (5, 2, 1) if step * digits <= longest)
    say(f"using sections of {section:,} seqs, so that the longest outage fills {FILLED} of them; override with --section")
    return section


def spread_offsets(graph: Graph, locator: OutageLocator, lost: Mapping[Case, int]) -> tuple[int, ...]:
    """Return five offsets spread over the part of the trace that leaves room for every case; CompoundError if there is none."""
    room = {case: locator.room(graph, case, tuples=tuples) for case, tuples in lost.items()}
    short = [case for case, offsets in room.items() if not offsets]
    if short:
        raise CompoundError(
            "the campaign",
            [
                f"the longest outage is longer than the trace: it takes {lost[case]:,} tuples from {case.name}, which has "
                f"{locator.count(graph, case):,}; give shorter outages with --outage, or a longer trace"
                for case in short
            ],
        )
    least = min(room.values(), default=0)
    return tuple(sorted({int(least * share) for share in (0.1, 0.3, 0.5, 0.7, 0.9)}))
