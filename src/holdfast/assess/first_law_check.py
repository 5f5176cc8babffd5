"""Check the first law on a sample of the trace. Without it, a replay does not predict the running application."""

from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.progress import Progress, silent
from holdfast.engine.application_check import FirstLawCheck
from holdfast.errors import ApplicationError

CHECKED = "operators checked against the first law"
ROWS, PARTS = 2000, 4
"""Source tuples in the sample at first, and runs that its epochs are divided into."""


def require_first_law(context: CampaignContext, *, progress: Progress = silent) -> None:
    """Raise ApplicationError if an operator's output depends on the epochs, at the start and at other positions of the trace."""
    names = {operator.name for operator in context.graph.operators}
    check = FirstLawCheck(context.spark, context.graph, context.schemas, context.app.epoch_s, PARTS, seed=1)
    sources = {name: frame.drop("epoch") for name, frame in context.sources.items()}
    report = check.report(sources, rows=ROWS, only=names, progress=lambda done, total: progress(CHECKED, done, total))
    if report.errors:
        raise ApplicationError(f"application '{context.app.name}'", report.errors)
