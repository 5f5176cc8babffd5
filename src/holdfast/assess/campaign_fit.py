"""Whether a campaign fits its trace: the rates at which targets lose tuples, and whether there are any to lose."""

from collections.abc import Iterable, Mapping

from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.case import Case, Places, Tempo
from holdfast.assess.injection import fractions
from holdfast.errors import CompoundError, HoldfastError

Rates = Mapping[frozenset[str], Tempo]
"""The rates of what operators, by all their names, or a source take in together."""


def require_places(setting: CampaignContext, campaign: Campaign, rates: Rates) -> None:
    """Raise CompoundError with every place where the trace has no room for some trial, before any is run."""
    places = setting.places(
        campaign.cases, setting.stream_seqs({stream for case in campaign.cases for stream in setting.struck(case)})
    )
    errors: dict[str, None] = {}
    for case in campaign.cases:
        tempo = tempo_of(setting, places, case, rates)
        tuples = max(case.tuples(outage_s, tempo.at(pace)) for outage_s in campaign.outages_s for pace in campaign.paces)
        for offset in campaign.offsets:
            try:
                places.strike(setting.graph, case, offset=offset, tuples=tuples)
            except HoldfastError as error:
                errors[str(error)] = None  # an offset past the end is so for every case
    if errors:
        raise CompoundError("the campaign", list(errors))


def has_fractions(setting: CampaignContext, case: Case) -> bool:
    """Whether values of a case's streams can diverge."""
    return any(fractions(setting.schemas[stream]) for stream in setting.struck(case))


def unchangeable(setting: CampaignContext, cases: Iterable[Case]) -> list[str]:
    """What is wrong with the cases in whose streams no value can diverge: nothing there would seem to matter."""
    return [
        f"a divergence changes fractional numbers, and what it would change at {case.name} ({', '.join(setting.struck(case))}) has "
        "none; give other targets, or another fault"
        for case in cases
        if not has_fractions(setting, case)
    ]


def tempo_of(setting: CampaignContext, places: Places, case: Case, rates: Rates) -> Tempo:
    """The rate at which a case loses tuples: as given for just these operators, else the sources' own, given or measured, scaled
    by how many of their tuples come to flow there; that of the sources where they count its outage."""
    if case.side == "input" and not case.at_once and frozenset(case.target) in rates:
        return rates[frozenset(case.target)]
    given = [rates.get(frozenset({source.name})) for source in setting.graph.sources]
    known = [tempo for tempo in given if tempo is not None]
    together = Tempo(sum(tempo.average for tempo in known), sum(tempo.peak for tempo in known))
    return places.tempo_of(setting.graph, case, sources=together if len(known) == len(given) else None)
