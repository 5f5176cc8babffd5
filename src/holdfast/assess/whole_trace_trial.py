"""Run one trial as a replay of the whole trace. It is slow but always correct; batched trials are checked against it."""

from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.golden_runs import Golden, section_parts
from holdfast.assess.injection import Injection, injected
from holdfast.assess.outcome import TrialOutcome, difference
from holdfast.engine.operator_call import naming_failed_operator


def run_whole_trace(context: CampaignContext, injection: Injection, golden: Golden) -> TrialOutcome:
    """Return the outcome of one trial compared with the golden run of the same seed."""
    graph = injected(context.jittered(golden.seed), [injection])
    with naming_failed_operator(context.graph, "a trial"):
        faulty = section_parts(context, context.output(graph))
    return difference(faulty, golden.parts)
