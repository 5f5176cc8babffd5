"""Check the first law on a sample of the trace. Without it, a replay does not predict the running application."""

from itertools import count

import numpy as np
from pyspark.sql import functions as F

from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.progress import Progress, silent
from holdfast.engine.epochs import ByBounds, join_spans, spans_of, with_epochs
from holdfast.engine.first_law import broken_operators
from holdfast.errors import ApplicationError

CHECKED = "operators checked against the first law"
SAMPLE, EPOCHS, CUTS = 2000, 8, 4
"""Source tuples in the sample, epochs in the sample, and runs that the epochs are divided into."""


def require_first_law(context: CampaignContext, *, progress: Progress = silent) -> None:
    """Raise ApplicationError if an operator's output on the beginning of the trace depends on the epochs.

    Epochs are cut by seq here, so that the sample has several epochs at any rate.
    """
    seqs = context.rows.seq[:SAMPLE]
    sample = {name: frame.where(F.col("seq") <= int(seqs[-1])).drop("epoch") for name, frame in context.sources.items()}
    ends = np.unique(np.linspace(0, len(seqs) - 1, EPOCHS + 1).astype(np.int64)[1:-1])
    sources = with_epochs(sample, ByBounds(tuple(int(seq) for seq in seqs[ends])))
    spans = list(spans_of(sources))
    step = -(-len(spans) // CUTS)
    joined = [join_spans(spans[at : at + step]) for at in range(0, len(spans), step)]
    operators, checked = len(context.graph.operators), count()

    def report_operator(operator: str) -> None:
        progress(CHECKED, next(checked), operators)

    broken = broken_operators(context.spark, context.graph, sources, joined, progress=report_operator)
    progress(CHECKED, operators, operators)
    if broken:
        raise ApplicationError(f"application '{context.app.name}'", [str(operator) for operator in broken])
