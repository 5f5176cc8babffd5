"""Runs an application's functions on Spark: over a whole trace as one plan, epoch by epoch, or as streaming queries. Read
`whole_trace.py` first, then `pe.py`."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

__all__ = [
    "ByTime",
    "Injection",
    "open_session",
    "open_trace",
    "require_there",
    "run_batch",
    "spans_of",
    "task_of",
    "with_epochs",
]

if TYPE_CHECKING:
    from holdfast.engine.epochs import ByTime, spans_of, with_epochs
    from holdfast.engine.session import open_session
    from holdfast.engine.task_division import task_of
    from holdfast.engine.trace_reader import open_trace, require_there
    from holdfast.engine.whole_trace import Injection, run_batch
else:
    __getattr__ = lazy_exports(__name__)
