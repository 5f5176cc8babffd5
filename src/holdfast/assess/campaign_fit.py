"""Whether a campaign fits its trace: the rates at which targets lose tuples, and whether there are any to lose."""

from collections.abc import Iterable, Mapping

from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.case import Case, OutageLocator, Tempo
from holdfast.assess.injection import fractions
from holdfast.errors import CompoundError, HoldfastError

Rates = Mapping[frozenset[str], Tempo]
"""The rates of what operators, by all their names, or a source take in together."""


def require_room_for_outages(context: CampaignContext, campaign: Campaign, rates: Rates) -> None:
    """Raise CompoundError with every place where the trace has no room for some trial, before any is run."""
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
                errors[str(error)] = None  # an offset past the end is so for every case
    if errors:
        raise CompoundError("the campaign", list(errors))


def has_fractions(context: CampaignContext, case: Case) -> bool:
    """Whether values of a case's streams can diverge."""
    return any(fractions(context.schemas[stream]) for stream in context.injected_edges(case))


def divergence_errors(context: CampaignContext, cases: Iterable[Case]) -> list[str]:
    """What is wrong with the cases in whose streams no value can diverge: nothing there would seem to matter."""
    return [
        f"a divergence changes fractional numbers, and what it would change at {case.name} "
        f"({', '.join(context.injected_edges(case))}) has none; give other targets, or another fault"
        for case in cases
        if not has_fractions(context, case)
    ]


def case_tempo(context: CampaignContext, locator: OutageLocator, case: Case, rates: Rates) -> Tempo:
    """The rate at which a case loses tuples: as given for just these operators, else the sources' own, given or measured, scaled
    by how many of their tuples come to flow there; that of the sources where they count its outage."""
    if case.side == "input" and not case.at_once and frozenset(case.target) in rates:
        return rates[frozenset(case.target)]
    given = [rates.get(frozenset({source.name})) for source in context.graph.sources]
    known = [tempo for tempo in given if tempo is not None]
    together = Tempo(sum(tempo.average for tempo in known), sum(tempo.peak for tempo in known))
    return locator.tempo_of(context.graph, case, sources=together if len(known) == len(given) else None)
