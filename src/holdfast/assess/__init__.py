"""What losing an operator does to the output, measured by fault injection (DEBS'11)."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

__all__ = [
    "OUTAGES_S",
    "PACES",
    "Assessment",
    "Campaign",
    "CampaignContext",
    "Case",
    "CaseView",
    "OffsetView",
    "OutageLocator",
    "Results",
    "Runner",
    "Steps",
    "Target",
    "Way",
    "assess",
    "choose_targets",
    "correlation",
    "position",
    "read_campaign",
    "require_room",
    "require_same_so_far",
]

if TYPE_CHECKING:
    from holdfast.assess.assessment import Assessment, CaseView, OffsetView, assess
    from holdfast.assess.campaign import OUTAGES_S, PACES, Campaign
    from holdfast.assess.campaign_context import CampaignContext
    from holdfast.assess.campaign_folder import Results, read_campaign, require_room, require_same_so_far
    from holdfast.assess.case import Case, OutageLocator
    from holdfast.assess.metrics import correlation
    from holdfast.assess.progress import Steps
    from holdfast.assess.runner import Runner, Way
    from holdfast.assess.targets import Target, choose_targets, position
else:
    __getattr__ = lazy_exports(__name__)
