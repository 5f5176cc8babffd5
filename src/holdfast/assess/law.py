"""The first law on a sample: what is measured by replay speaks of the running application only where it holds."""

from pyspark.sql import functions as F

from holdfast.assess.setting import Setting
from holdfast.errors import ApplicationError
from holdfast.execute.cut import ByTime, join_spans, spans_of, with_epochs
from holdfast.execute.law import broken_operators

SAMPLE, CUTS = 2000, 4
"""Source tuples of the sample, and into how many pieces it is cut."""


def require_law(setting: Setting) -> None:
    """Raise ApplicationError if an operator's output on the beginning of the trace depends on how it is cut into epochs."""
    until = int(setting.rows.seq[min(SAMPLE, len(setting.rows.seq)) - 1])
    sample = {name: frame.where(F.col("seq") <= until).drop("epoch") for name, frame in setting.sources.items()}
    sources = with_epochs(sample, ByTime(setting.app.epoch_s))
    spans = list(spans_of(sources))
    step = -(-len(spans) // CUTS)
    joined = [join_spans(spans[at : at + step]) for at in range(0, len(spans), step)]
    broken = broken_operators(setting.spark, setting.graph, sources, joined)
    if broken:
        raise ApplicationError(f"application '{setting.app.name}'", [str(operator) for operator in broken])
