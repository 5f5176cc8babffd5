"""A Structured Streaming reader as a source: its micro-batches are staged as they come, and cut into epochs by time of arrival.

A batch is on the log's storage before Spark takes note that it is done, and an epoch's record says up to which batch it goes. So a
source that is killed at any moment finds every batch either staged or in a record. What a record says holds for everyone: where two
incarnations overlap, as when a node was cut off, they may see different batches of an epoch, and the one that came second goes on
behind what the first one took. None is lost and none is taken twice.
"""

import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.app import Source
from holdfast.documents.job import Contract, Task
from holdfast.engine.operator_call import first_line
from holdfast.errors import HoldfastError, LogError
from holdfast.log import Quality, Record, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.row_files import partition_numbers
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.sources.reader_query import Query, describe_reader
from holdfast.runtime.sources.staged_batches import StagedBatches

UP_TO = "batches up to "
NONE_TAKEN = -1


def reader_timeline(store: Store, *, epoch_s: float) -> Timeline:
    """The job's timeline: it has no end, and its epochs are counted from 1970."""
    first = int(time.time() / epoch_s)
    return agree_on_timeline(store, Timeline(first, None, epoch_s, opened_s=first * epoch_s))


class ReaderSource:
    """One task of a source with a reader. `schema` is what the source declares; `start` starts the query that fills `staged`, again
    where the log was full or away and that has ended it. `place` is where the task stands among all source tasks of the job, and
    how many there are: from it follow seqs that ascend over all of them."""

    quality = Quality.EXACT
    finished = False

    def __init__(
        self,
        task: Task,
        contract: Contract,
        *,
        source: Source,
        schema: pa.Schema,
        staged: StagedBatches,
        start: Callable[[], Query],
        place: tuple[int, int],
        outbox: OutputWriter,
        checkpoints: Checkpoints,
        timeline: Timeline,
        checkpointed: Callable[[int], None] = lambda epoch: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.task, self.saves_every = task, contract.checkpoint_epochs
        self._source, self._staged, self._start, self._place = source, staged, start, place
        self._schema = schema.append(pa.field("epoch", pa.int64()))
        self._outbox, self._checkpoints, self._timeline = outbox, checkpoints, timeline
        self._checkpointed, self._clock = checkpointed, clock
        self.rows_read = 0
        self.restore()
        self._query, self._log_was_away = start(), False

    def restore(self) -> None:
        """Go on behind the last exact record, and behind the last batch that any record names."""
        saved = self._checkpoints.latest(self.task.name) or Position(self._timeline.first - 1, after=NONE_TAKEN)
        log, stream, number = self._outbox.log, self.task.pe, self.task.task
        self._saved = saved.epoch
        self._missed = log.last_epoch(stream, number, after=saved.epoch)
        named = (_taken_by(log.newest(stream, number, epoch=epoch)) for epoch in range(saved.epoch + 1, self._missed + 1))
        taken = max([saved.after, *(last for last in named if last is not None)])
        self.clean = self.live = Position(log.last_exact_epoch(stream, number, after=saved.epoch), after=taken)

    def step(self) -> bool:
        """Commit the next epoch if it is over, with the batches that have come since the one before; whether there was one."""
        self._see_to_query()
        epoch, taken = self.clean.epoch + 1, self.clean.after
        if self._timeline.closes_s(epoch) > self._clock():
            return False
        # Where something stood in for this source, its rows are in later epochs: they are counted by arrival here.
        batches = self._staged.waiting(after=taken) if epoch > self._missed else []
        tables = self._staged.read(batches)
        if tables is None:
            return True  # they are in a record since: it is there at the next look
        rows = self._rows(tables, epoch)
        lineage = (f"{UP_TO}{max([taken, *batches])}",)
        stands = self._outbox.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT, lineage=lineage)
        if stands is None:  # another incarnation has long gone past it
            self.restore()
            return True
        self.rows_read += rows.num_rows
        last = _taken_by(stands)
        self.clean = self.live = Position(epoch, after=taken if last is None else max(taken, last))
        if epoch - self._saved >= self.saves_every:
            self.save()
        return True

    def _see_to_query(self) -> None:
        """Raise HoldfastError where the query has failed. It cannot do without the log, nor can Spark: where that is why, raise
        LogError for as long, and start the query again when the log is back."""
        failed = self._query.exception()
        if failed is None:
            return
        try:
            self._staged.require_room()
        except LogError:
            self._log_was_away = True
            raise
        if not self._log_was_away:
            raise HoldfastError(f"{describe_reader(self._source)} stopped: {first_line(failed)}")
        self._query, self._log_was_away = self._start(), False

    def save(self) -> None:
        """Remember how far the source has come, and the last batch up to there."""
        self._checkpoints.save(self.task.name, self.clean)
        self._saved = self.clean.epoch
        self._checkpointed(self._saved)

    def close(self) -> None:
        """Stop Spark's query: another incarnation may go on from its checkpoint."""
        self._query.stop()

    def _rows(self, tables: list[pa.Table], epoch: int) -> pa.Table:
        rows = pa.concat_tables(tables) if tables else None
        if rows is not None and self._source.parallelism > 1:
            rows = rows.filter(
                pa.array(partition_numbers(rows, self._source.key, parts=self._source.parallelism) == self.task.task)
            )
        if rows is None or rows.num_rows == 0:
            return self._schema.empty_table()
        columns = {name: rows[name] for name in rows.column_names}
        place, places = self._place
        base = ((epoch - self._timeline.first) * places + place) << 32
        columns.setdefault("seq", pa.array(range(base + 1, base + 1 + rows.num_rows), pa.int64()))
        columns.setdefault("time", pa.array([int(self._timeline.closes_s(epoch) * 1e6)] * rows.num_rows, pa.timestamp("us", "UTC")))
        columns["epoch"] = pa.array([epoch] * rows.num_rows, pa.int64())
        made = pa.table({name: columns[name] for name in self._schema.names}).cast(self._schema)
        if pc.any(pc.is_null(made["seq"])).as_py():
            said = "gives rows without a seq; leave the column out to have them numbered on arrival"
            raise HoldfastError(f"{describe_reader(self._source)} {said}")
        return made.sort_by("seq")


def _taken_by(record: Record | None) -> int | None:
    """The last batch that a record of a source says it goes up to; None where something else stood in for it."""
    lines = [line for line in record.lineage if line.startswith(UP_TO)] if record is not None else []
    return int(lines[0].removeprefix(UP_TO)) if lines else None
