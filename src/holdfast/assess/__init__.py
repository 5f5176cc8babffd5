"""Measure by fault injection how much losing each operator damages the output (DEBS'11).

Read campaign.py first (the trials), then runner.py (how they run) and metrics.py (the four metrics and their equations). request.py
and campaign_setup.py build a campaign from the options of `holdfast assess`. A trial runs over the whole trace
(whole_trace_trial.py) or, much faster, in a shared Spark job with others (batched.py).
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.assess.assessment import Assessment, CaseView, OffsetView, assess
    from holdfast.assess.campaign import OUTAGES_S, PACES, Campaign
    from holdfast.assess.campaign_context import CampaignContext
    from holdfast.assess.campaign_folder import Results, read_campaign, require_room, require_same_campaign
    from holdfast.assess.campaign_run import run_campaign
    from holdfast.assess.campaign_setup import (
        DEFAULT_OPTIONS,
        build_campaign,
        describe_partial_subject,
        describe_subject,
        parsed_trace,
        select_scores,
    )
    from holdfast.assess.case import Case, OutageLocator
    from holdfast.assess.fitting import SECTION, longest_loss, spread_offsets
    from holdfast.assess.metrics import correlation
    from holdfast.assess.progress import Steps
    from holdfast.assess.runner import Runner, Way
    from holdfast.assess.targets import Target, choose_targets, position
    from holdfast.progress_display import show_progress
else:
    __getattr__ = lazy_exports(__name__)
