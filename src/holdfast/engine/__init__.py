"""Runs an application's functions on Spark: over a whole trace as one plan, epoch by epoch, or as streaming queries. Read
`whole_trace.py` first, then `pe.py`."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.engine.epochs import ByTime, spans_of, with_epochs
    from holdfast.engine.session import open_session
    from holdfast.engine.task_division import task_of
    from holdfast.engine.trace_reader import open_trace, require_trace_exists
    from holdfast.engine.whole_trace import Injection, build_whole_trace
else:
    __getattr__ = lazy_exports(__name__)
