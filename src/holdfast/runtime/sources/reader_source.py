"""A source that reads a Structured Streaming DataFrame. Its micro-batches are staged on arrival and assigned to epochs by time.

A batch is staged before Spark marks it as done, and the record of an epoch names the last batch that it contains. A source that is
killed at any moment therefore finds every batch either staged or in a record. Records hold for all incarnations. If two of them
overlap, for example because a node was cut off, they may read different batches for an epoch. The one whose record comes second
continues after the batches of the first. No batch is lost, and none is committed twice.
"""

import time
from collections.abc import Callable

import pyarrow as pa

from holdfast.app import Source
from holdfast.engine.operator_call import first_line
from holdfast.errors import HoldfastError
from holdfast.log import Quality, Record, Store
from holdfast.log.position import Position
from holdfast.log.row_files import partition_numbers
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import Replica, ReplicaContext
from holdfast.runtime.sources.reader_query import Query, describe_reader
from holdfast.runtime.sources.staged_batches import StagedBatches

LAST_BATCH_PREFIX = "batches up to "
NO_BATCH = -1


def reader_timeline(store: Store, *, epoch_s: float, now_s: float) -> Timeline:
    """Return the job's timeline. It has no end, and its epochs are counted from 1970."""
    first = int(now_s / epoch_s)
    return agree_on_timeline(store, Timeline(first, None, epoch_s, opened_s=first * epoch_s))


class ReaderSource(Replica):
    """A replica of a source with a reader. The `after` of its position is the number of the last committed batch.

    `schema` is the source's declared schema. `start_query` starts the query that fills `batches`; it is called again if a full or
    unreachable log has ended the query. `source_task` is the number of this task among all source tasks of the job, and how many
    there are. The seqs of new rows are derived from it, so that they ascend over all source tasks.
    """

    finished = False

    def __init__(
        self,
        context: ReplicaContext,
        *,
        source: Source,
        schema: pa.Schema,
        batches: StagedBatches,
        start_query: Callable[[], Query],
        source_task: tuple[int, int],
        output: OutputWriter,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(context, clock=clock)
        self._source, self._batches, self._start_query, self._source_task = source, batches, start_query, source_task
        self._schema = schema.append(pa.field("epoch", pa.int64()))
        self._output = output
        self._continue_after_records()
        self._query = start_query()

    def _continue_after_records(self) -> None:
        """Move to the last exact record, and past the last batch that any record names."""
        self._start_from_checkpoint(first_after=NO_BATCH)
        saved = self.clean_position
        log, stream, number = self._output.log, self.task.pe, self.task.task
        self._last_existing = log.last_epoch(stream, number, after=saved.epoch)
        epochs = range(saved.epoch + 1, self._last_existing + 1)
        batches = (_last_batch(log.newest(stream, number, epoch=epoch)) for epoch in epochs)
        last_batch = max([saved.after, *(batch for batch in batches if batch is not None)])
        exact = log.last_exact_epoch(stream, number, after=saved.epoch)
        self.clean_position = self.live_position = Position(exact, after=last_batch)

    def step(self) -> bool:
        """Commit the next epoch, if it is over, with the batches that have arrived since the previous one."""
        self._check_query()
        epoch, last_batch = self.clean_position.epoch + 1, self.clean_position.after
        if self._timeline.closes_s(epoch) > self._clock():
            return False
        # An epoch that has an absent record is corrected as empty: its rows are in later epochs, by their time of arrival.
        numbers = self._batches.list_after(last_batch) if epoch > self._last_existing else []
        tables = self._batches.read(numbers)
        if tables is None:
            return True  # another incarnation has just committed a batch: the next step finds its record
        rows = self._rows(tables, epoch)
        lineage = (f"{LAST_BATCH_PREFIX}{max([last_batch, *numbers])}",)
        record = self._output.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT, lineage=lineage)
        if record is None:  # the epoch was trimmed: another incarnation is far ahead
            self._continue_after_records()
            return True
        self.rows_read += rows.num_rows
        committed_batch = _last_batch(record)
        after = last_batch if committed_batch is None else max(last_batch, committed_batch)
        self.clean_position = self.live_position = Position(epoch, after=after)
        if self._is_checkpoint_due():
            self.save()
        return True

    def close(self) -> None:
        """Stop Spark's query, so that another incarnation can continue from its checkpoint."""
        self._query.stop()

    def _check_query(self) -> None:
        """Raise HoldfastError if the query has failed.

        The query needs the log. If the log fails, raise LogError instead, and restart the query once the log works again.
        """
        failure = self._query.exception()
        if failure is None:
            return
        self._batches.require_room()
        if not self._batches.log_has_failed:
            raise HoldfastError(f"{describe_reader(self._source)} stopped: {first_line(failure)}")
        self._query, self._batches.log_has_failed = self._start_query(), False

    def _rows(self, tables: list[pa.Table], epoch: int) -> pa.Table:
        rows = pa.concat_tables(tables) if tables else None
        if rows is not None and self._source.parallelism > 1:
            numbers = partition_numbers(rows, self._source.key, parts=self._source.parallelism)
            rows = rows.filter(pa.array(numbers == self.task.task))
        if rows is None or rows.num_rows == 0:
            return self._schema.empty_table()
        columns = {name: rows[name] for name in rows.column_names}
        number, source_tasks = self._source_task
        base = ((epoch - self._timeline.first) * source_tasks + number) << 32
        # Operators recognise new rows by their seq, so it must ascend by arrival. A batch of an older version may have its own.
        columns["seq"] = pa.array(range(base + 1, base + 1 + rows.num_rows), pa.int64())
        columns.setdefault("time", pa.array([int(self._timeline.closes_s(epoch) * 1e6)] * rows.num_rows, pa.timestamp("us", "UTC")))
        columns["epoch"] = pa.array([epoch] * rows.num_rows, pa.int64())
        return pa.table({name: columns[name] for name in self._schema.names}).cast(self._schema)


def _last_batch(record: Record | None) -> int | None:
    """Return the last batch that a source's record contains; None if the source did not produce the record."""
    lines = [line for line in record.lineage if line.startswith(LAST_BATCH_PREFIX)] if record is not None else []
    return int(lines[0].removeprefix(LAST_BATCH_PREFIX)) if lines else None
