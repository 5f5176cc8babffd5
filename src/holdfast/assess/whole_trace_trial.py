"""One run of the whole trace per trial: always right, and the measure of every shortcut."""

from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.golden_runs import Golden, section_parts
from holdfast.assess.injection import Strike, injected
from holdfast.assess.outcome import TrialOutcome, difference
from holdfast.engine.operator_call import running


def run_slow(setting: CampaignContext, strike: Strike, golden: Golden) -> TrialOutcome:
    """The outcome of one trial, told from the golden run of the same seed."""
    graph = injected(setting.jittered(golden.seed), [strike])
    with running(setting.graph, "a trial"):
        faulty = section_parts(setting, setting.output(graph))
    return difference(faulty, golden.parts)
