"""Check that a campaign fits its trace: the rates at which cases lose tuples, and whether there are enough tuples to lose."""

from collections.abc import Iterable, Mapping

from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.case import Case, OutageLocator, Tempo
from holdfast.assess.injection import fractions
from holdfast.errors import CompoundError, HoldfastError

Rates = Mapping[frozenset[str], Tempo]
"""Known input rates, by the set of operators (or the source) that they belong to."""


def require_room_for_outages(context: CampaignContext, campaign: Campaign, rates: Rates) -> None:
    """Raise CompoundError unless the trace has room for the longest outage of every case at every offset."""
    locator = context.locator(
        campaign.cases, context.stream_seqs({stream for case in campaign.cases for stream in context.injected_edges(case)})
    )
    errors: dict[str, None] = {}
    for case in campaign.cases:
        tempo = case_tempo(context, locator, case, rates)
        tuples = max(case.tuples(outage_s, tempo.at(pace)) for outage_s in campaign.outages_s for pace in campaign.paces)
        for offset in campaign.offsets:
            try:
                locator.locate(context.graph, case, offset=offset, tuples=tuples)
            except HoldfastError as error:
                errors[str(error)] = None  # one message for an offset that is past the end for every case
    if errors:
        raise CompoundError("the campaign", list(errors))


def has_fractions(context: CampaignContext, case: Case) -> bool:
    """Return whether a case's streams have fractional numbers, which a divergence can change."""
    return any(fractions(context.schemas[stream]) for stream in context.injected_edges(case))


def divergence_errors(context: CampaignContext, cases: Iterable[Case]) -> list[str]:
    """Return an error message for each case whose streams have no value that a divergence can change."""
    return [
        f"a divergence changes fractional numbers, but the streams that it would change at {case.name} "
        f"({', '.join(context.injected_edges(case))}) have none; give other targets, or another fault"
        for case in cases
        if not has_fractions(context, case)
    ]


def case_tempo(context: CampaignContext, locator: OutageLocator, case: Case, rates: Rates) -> Tempo:
    """Return the rate at which a case loses tuples.

    It is the known rate of exactly these operators. Otherwise it is the rate of the sources (known or measured) times the
    case's share of the source tuples.
    """
    if case.side == "input" and not case.at_once and frozenset(case.target) in rates:
        return rates[frozenset(case.target)]
    tempos = [rates.get(frozenset({source.name})) for source in context.graph.sources]
    known_tempos = [tempo for tempo in tempos if tempo is not None]
    together = Tempo(sum(tempo.average for tempo in known_tempos), sum(tempo.peak for tempo in known_tempos))
    return locator.tempo_of(context.graph, case, sources=together if len(known_tempos) == len(tempos) else None)
