"""One run of the whole trace per trial: always right, and the measure of every shortcut."""

from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.golden_runs import Golden, section_parts
from holdfast.assess.injection import Injection, injected
from holdfast.assess.outcome import TrialOutcome, difference
from holdfast.engine.operator_call import running


def run_whole_trace(context: CampaignContext, injection: Injection, golden: Golden) -> TrialOutcome:
    """The outcome of one trial, told from the golden run of the same seed."""
    graph = injected(context.jittered(golden.seed), [injection])
    with running(context.graph, "a trial"):
        faulty = section_parts(context, context.output(graph))
    return difference(faulty, golden.parts)
