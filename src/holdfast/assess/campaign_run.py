"""Run a campaign in its results folder, or finish one that was interrupted."""

from contextlib import nullcontext
from pathlib import Path

from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_fit import Rates, require_room_for_outages
from holdfast.assess.campaign_folder import Results
from holdfast.assess.first_law_check import require_first_law
from holdfast.assess.progress import Progress
from holdfast.assess.runner import Runner, Way
from holdfast.progress_display import show_progress
from holdfast.terminal import say


def run_campaign(
    context: CampaignContext,
    campaign: Campaign,
    out: Path,
    *,
    way: Way = "auto",
    check: bool = True,
    parallel: int = 2,
    rates: Rates | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run all trials of a campaign that have no outcome in the folder yet, and return its results.

    `check` tests the first law on a sample of the trace before the first trial. Progress goes to `progress`; without one it is
    shown on stderr.
    """
    require_room_for_outages(context, campaign, rates or {})
    results = Results(out, campaign)
    if results.finished():
        return results
    with results.locked(), nullcontext(progress) if progress else show_progress() as report_progress:
        try:
            if check and not results.done():
                require_first_law(context, progress=report_progress)
            facts = results.read("facts")
            compared = facts is not None and facts["why_slow"] is None  # by the process that began the campaign
            runner = Runner(context, campaign, way=way, verify=not compared, rates=rates, progress=report_progress)
            if runner.why_none_batched:
                say(f"each trial is a run of the whole trace: {runner.why_none_batched}")
            elif runner.not_batched:
                reason = next(iter(runner.not_batched.values()))
                say(f"each trial of {', '.join(runner.not_batched)} is a run of the whole trace: {reason}")
            runner.run(results, parallel=parallel, progress=report_progress)
        except KeyboardInterrupt:
            context.spark.sparkContext.cancelAllJobs()
            say(f"{len(results.done()):,} of {campaign.size:,} trials are done; run the same command again to continue")
            raise
    return results
