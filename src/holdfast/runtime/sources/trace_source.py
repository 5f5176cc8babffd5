"""A recorded trace as a source: every epoch is committed when it would have been over, at a chosen speed."""

import time
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.documents.job import Contract, Task
from holdfast.engine.epochs import ByTime, Span, join_spans, spans_of, with_epochs
from holdfast.engine.first_law import rows_of
from holdfast.engine.operator_call import SPARK_ERRORS, first_line
from holdfast.engine.schema import arrow_schema
from holdfast.errors import TraceError
from holdfast.log import Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.row_files import partition_numbers
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.runtime.output_writer import OutputWriter

READ_ROWS = 200_000
"""How many rows are read ahead: with it, what a source holds in memory is bounded by the longest epoch."""


def trace_spans(sources: Mapping[str, DataFrame], epoch_s: float) -> Sequence[Span]:
    """The epochs of a trace, those without rows included."""
    return spans_of(with_epochs(sources, ByTime(epoch_s)))


def trace_timeline(store: Store, spans: Sequence[Span], *, epoch_s: float, speed: float) -> Timeline:
    """The job's timeline, from the first epoch of the trace to its last; the trace begins now, unless it has begun."""
    return agree_on_timeline(store, Timeline(spans[0].first, spans[-1].last, epoch_s, opened_s=time.time(), speed=speed))


FetchRows = Callable[[Span], pa.Table]
"""Reads the rows of a span that one task of a source has of a trace."""


def trace_row_fetcher(rows: DataFrame, task: Task, *, epoch_s: float, key: tuple[str, ...], tasks: int) -> FetchRows:
    """How the rows of a trace are read: ordered by seq, and of several `tasks` the share that is this one's. What is read raises
    TraceError where the trace is gone."""
    cut = with_epochs({task.pe: rows}, ByTime(epoch_s))[task.pe]
    schema = arrow_schema(cut.schema)

    def fetch(span: Span) -> pa.Table:
        wanted = cut.where((F.col("seq") > span.after) & (F.col("seq") <= span.until))
        try:
            found = wanted.toArrow().cast(schema).sort_by("seq")
        except SPARK_ERRORS as error:
            raise TraceError(f"the trace of source '{task.pe}' cannot be read any more: {first_line(error)}") from error
        return found if tasks == 1 else found.filter(pa.array(partition_numbers(found, key, parts=tasks) == task.task))

    return fetch


class TraceReadAhead:
    """The rows of a trace that are next, read some epochs ahead."""

    def __init__(self, fetch: FetchRows, spans: Sequence[Span]) -> None:
        self._fetch, self._spans = fetch, spans
        self._held: list[tuple[Span, pa.Table]] = []

    def read(self, epoch: int) -> None:
        """Have the rows of an epoch, and of as many behind it as are read at once."""
        while self._held and self._held[0][0].first < epoch:
            self._held.pop(0)
        if self._held or epoch > self._spans[-1].last:
            return
        start = epoch - self._spans[0].first
        wanted = list(self._spans[start : start + 1])
        while start + len(wanted) < len(self._spans) and self._spans[start + len(wanted)].until - wanted[0].after <= READ_ROWS:
            wanted.append(self._spans[start + len(wanted)])
        table = self._fetch(join_spans(wanted))
        self._held = [(span, rows_of(table, span)) for span in wanted]

    def at(self, epoch: int) -> tuple[Span, pa.Table]:
        """An epoch with its rows. They are held until a later one is asked for: what is made of them may have to be tried again."""
        self.read(epoch)
        span, rows = self._held[0]
        assert span.first == epoch
        return span, rows


class TraceSource:
    """One task of a source. It can replay, so it loses nothing: after a restart it goes on behind its last exact record, and makes
    good what was stood in for meanwhile."""

    quality = Quality.EXACT

    def __init__(
        self,
        task: Task,
        contract: Contract,
        *,
        ahead: TraceReadAhead,
        outbox: OutputWriter,
        checkpoints: Checkpoints,
        timeline: Timeline,
        checkpointed: Callable[[int], None] = lambda epoch: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.task, self.saves_every = task, contract.checkpoint_epochs
        self._ahead = ahead
        self._outbox, self._checkpoints, self._timeline = outbox, checkpoints, timeline
        self._checkpointed, self._clock = checkpointed, clock
        saved = checkpoints.latest(task.name) or Position(timeline.first - 1)
        self._saved = saved.epoch
        self.clean = self.live = Position(outbox.log.last_exact_epoch(task.pe, task.task, after=saved.epoch))
        self.rows_read = 0

    @property
    def finished(self) -> bool:
        return self._timeline.last is not None and self.clean.epoch >= self._timeline.last

    def step(self) -> bool:
        """Commit the next epoch if it is over; whether there was one."""
        epoch = self.clean.epoch + 1
        if self.finished or self._timeline.closes_s(epoch) > self._clock():
            self._ahead.read(epoch)
            return False
        span, rows = self._ahead.at(epoch)
        self._outbox.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT)
        self.rows_read += rows.num_rows
        self.clean = self.live = Position(epoch, after=span.until)
        if epoch - self._saved >= self.saves_every or self.finished:
            self.save()
        return True

    def save(self) -> None:
        """Remember how far the source has come."""
        if self.clean.epoch > self._saved:
            self._checkpoints.save(self.task.name, self.clean)
            self._saved = self.clean.epoch
            self._checkpointed(self._saved)

    def close(self) -> None:
        """Nothing is held that would outlive the loop."""
