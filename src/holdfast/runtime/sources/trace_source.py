"""A source that replays a recorded trace: it commits each epoch when the epoch would have ended, at a chosen speed."""

import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.documents.job import Task
from holdfast.engine.epochs import ByTime, Span, join_spans, spans_of, with_epochs
from holdfast.engine.kept_rows import rows_of
from holdfast.engine.operator_call import SPARK_ERRORS, first_line
from holdfast.engine.schema import arrow_schema
from holdfast.errors import TraceError
from holdfast.log import Quality, Store
from holdfast.log.position import Position
from holdfast.log.row_files import partition_numbers
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import Replica, ReplicaContext

READ_AHEAD_ROWS = 200_000
"""How many rows are read at once. A source holds no more rows in memory, unless one epoch is longer."""


def trace_spans(sources: Mapping[str, DataFrame], epoch_s: float) -> Sequence[Span]:
    """Return the epochs of a trace, including those without rows."""
    return spans_of(with_epochs(sources, ByTime(epoch_s)))


def trace_timeline(store: Store, spans: Sequence[Span], *, epoch_s: float, speed: float, now_s: float) -> Timeline:
    """Return the job's timeline, from the first to the last epoch of the trace.

    The trace starts now, unless another source has already started it.
    """
    return agree_on_timeline(store, Timeline(spans[0].first, spans[-1].last, epoch_s, opened_s=now_s, speed=speed))


FetchRows = Callable[[Span], pa.Table]
"""Returns the rows of a trace in a span of epochs, limited to one source task's share."""


def trace_row_fetcher(rows: DataFrame, task: Task, *, epoch_s: float, key: tuple[str, ...], tasks: int) -> FetchRows:
    """Return a function that reads a trace, ordered by seq, limited to the share of one of `tasks` source tasks.

    The function raises TraceError if the trace cannot be read any more.
    """
    trace = with_epochs({task.pe: rows}, ByTime(epoch_s))[task.pe]
    schema = arrow_schema(trace.schema)

    def fetch(span: Span) -> pa.Table:
        frame = trace.where((F.col("seq") > span.after) & (F.col("seq") <= span.until))
        try:
            table = frame.toArrow().cast(schema).sort_by("seq")
        except SPARK_ERRORS as error:
            raise TraceError(f"the trace of source '{task.pe}' cannot be read any more: {first_line(error)}") from error
        return table if tasks == 1 else table.filter(pa.array(partition_numbers(table, key, parts=tasks) == task.task))

    return fetch


class TraceReadAhead:
    """The next rows of a trace, read several epochs ahead."""

    def __init__(self, fetch: FetchRows, spans: Sequence[Span]) -> None:
        self._fetch, self._spans = fetch, spans
        self._loaded: list[tuple[Span, pa.Table]] = []

    def load(self, epoch: int) -> None:
        """Load the rows of an epoch, and of as many epochs after it as READ_AHEAD_ROWS allows. Drop earlier epochs."""
        while self._loaded and self._loaded[0][0].first < epoch:
            self._loaded.pop(0)
        if self._loaded or epoch > self._spans[-1].last:
            return
        start = epoch - self._spans[0].first
        spans = list(self._spans[start : start + 1])
        while start + len(spans) < len(self._spans) and self._spans[start + len(spans)].until - spans[0].after <= READ_AHEAD_ROWS:
            spans.append(self._spans[start + len(spans)])
        table = self._fetch(join_spans(spans))
        self._loaded = [(span, rows_of(table, span)) for span in spans]

    def get(self, epoch: int) -> tuple[Span, pa.Table]:
        """Return an epoch and its rows. They stay loaded until a later epoch is requested, because a commit may be retried."""
        self.load(epoch)
        span, rows = self._loaded[0]
        assert span.first == epoch
        return span, rows


class TraceSource(Replica):
    """A replica of a source that replays a trace. It loses nothing: after a restart it continues after its last exact record, and
    commits final records for the epochs that were committed as absent."""

    def __init__(
        self,
        context: ReplicaContext,
        *,
        read_ahead: TraceReadAhead,
        output: OutputWriter,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(context, clock=clock)
        self._read_ahead, self._output = read_ahead, output
        last_exact = output.log.last_exact_epoch(self.task.pe, self.task.task, after=self.clean_position.epoch)
        self.clean_position = self.live_position = Position(last_exact)

    def step(self) -> bool:
        """Commit the next epoch if it is over; read ahead otherwise."""
        epoch = self.clean_position.epoch + 1
        if self.finished or self._timeline.closes_s(epoch) > self._clock():
            self._read_ahead.load(epoch)
            return False
        span, rows = self._read_ahead.get(epoch)
        self._output.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT)
        self.rows_read += rows.num_rows
        self.clean_position = self.live_position = Position(epoch, after=span.until)
        if self._is_checkpoint_due():
            self.save()
        return True
