"""What a campaign's options leave open, chosen to fit the trace; whatever is chosen is said."""

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
"""Keys of a section (DEBS'11, section 6.3)."""
MOST_S = 1e9
"""An outage that no trace has room for, as long as one needs to be to find that out."""
FILLED = 4
"""Sections that the longest outage fills at least: in fewer, what it does is lost among what it does not touch."""


def cases_reaching(graph: Graph, cases: Sequence[Case], sink: str) -> list[Case]:
    """The cases that can change what reaches a sink."""
    upstream = graph.upstream(sink)
    others = [case.name for case in cases if upstream.isdisjoint(case.target)]
    if others:
        say(f"left out, because they do not lead to sink '{sink}', which is scored (--sink): {', '.join(others)}")
    return [case for case in cases if not upstream.isdisjoint(case.target)]


def cases_with_tuples(graph: Graph, cases: Sequence[Case], locator: OutageLocator) -> list[Case]:
    """The cases that have tuples to lose at all."""
    idle = [case for case in cases if not locator.count(graph, case)]
    for side, what in (("input", "reaches"), ("output", "leaves")):
        names = [case.name for case in idle if case.side == side]
        if names:
            say(f"left out, because nothing {what} {'it' if len(names) == 1 else 'them'} on this trace: {', '.join(names)}")
    return [case for case in cases if locator.count(graph, case)]


def cases_with_fractions(context: CampaignContext, cases: Sequence[Case]) -> list[Case]:
    """The cases in whose streams values can diverge; all of them where none can, which the campaign refuses."""
    insensitive = [case.name for case in cases if not has_fractions(context, case)]
    if not insensitive or len(insensitive) == len(cases):
        return list(cases)
    say(f"left out, because there are no fractional numbers that could diverge: {', '.join(insensitive)}")
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
    """How many tuples the longest outage takes from a case."""
    tempo = case_tempo(context, locator, case, rates)
    return max(case.tuples(min(longest_s, MOST_S), tempo.at(pace)) for pace in paces)


def default_outages(context: CampaignContext) -> tuple[float, ...]:
    """The paper's outages, without those that at the peak rate take more than half of the trace; the shortest in any case."""
    half = len(context.rows.seq) / 2
    fitting = tuple(outage for outage in OUTAGES_S if outage * context.rows.tempo.peak <= half) or OUTAGES_S[:1]
    if fitting != OUTAGES_S:
        left = ", ".join(f"{outage:g}" for outage in OUTAGES_S if outage not in fitting)
        say(f"outages of {left} s are left out: at the peak rate they take more than half of the trace (--outage says otherwise)")
    return fitting


def default_section(context: CampaignContext, longest_s: float) -> int:
    """The paper's section, or the largest round one that the longest outage fills several of at the peak rate."""
    seq = context.rows.seq
    apart = (int(seq[-1]) - int(seq[0]) + 1) / len(seq)
    keys = context.rows.tempo.peak * min(longest_s, MOST_S) * apart / FILLED
    papers = SECTION * max(1, round(apart))  # the paper's keys have no gaps
    if keys >= papers:
        return papers
    digits: int = 10 ** math.floor(math.log10(max(keys, 1.0)))
    section = next(step * digits for step in (5, 2, 1) if step * digits <= max(keys, 1.0))
    say(f"sections have {section:,} keys, so that the longest outage fills {FILLED} of them (--section says otherwise)")
    return section


def spread_offsets(graph: Graph, locator: OutageLocator, lost: Mapping[Case, int]) -> tuple[int, ...]:
    """Five offsets spread over as much of the trace as leaves room for what every case loses; CompoundError where none does."""
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
