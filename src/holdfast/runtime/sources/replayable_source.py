"""A source that reads data which can be read again: a Kafka topic or files.

An epoch is a range of the data. The range is claimed in the log before it is read, so every replica reads the same rows. A source
can therefore have active replicas. After a failure it loses nothing: it reads the claimed ranges again, and commits final records
for the epochs that were committed as absent.
"""

import json
import time
from collections.abc import Callable

import pyarrow as pa

from holdfast.app.writers import FencedError, WriteToken
from holdfast.connectors.replayable import RangeReader
from holdfast.log import Quality
from holdfast.log.position import Position
from holdfast.log.range_claims import Positions, Range, RangeClaims
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import Replica, ReplicaContext


class ReplayableSource(Replica):
    """One replica of a task of a replayable source.

    `schema` is the source's declared schema. `source_task` is the number of this task among all source tasks of the job, and how
    many there are; the seqs of the rows are derived from it, so that they ascend over all source tasks. A secondary reads only
    what the primary has not committed the contract's `patience_s` after the epoch's end.
    """

    finished = False

    def __init__(
        self,
        context: ReplicaContext,
        *,
        schema: pa.Schema,
        reader: RangeReader,
        claims: RangeClaims,
        source_task: tuple[int, int],
        output: OutputWriter,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(context, clock=clock)
        self._schema = schema.append(pa.field("epoch", pa.int64()))
        self._reader, self._claims, self._source_task, self._output = reader, claims, source_task, output
        self._patience_s = 0.0
        self._start = self._start_after_records()

    @property
    def rows_behind(self) -> dict[str, int]:
        return self._reader.backlog(self._start)

    def set_rank(self, rank: int) -> None:
        super().set_rank(rank)
        self._patience_s = self.contract.patience_s if rank > 0 else 0.0

    def step(self) -> bool:
        """Commit the next epoch if it is over and no other replica has committed it."""
        epoch = self.clean_position.epoch + 1
        now_s = self._clock()
        if self._timeline.closes_s(epoch) > now_s:
            return False
        is_committed = self._output.log.final(self.task.pe, self.task.task, epoch=epoch) is not None
        if not is_committed and self._timeline.closes_s(epoch) + self._patience_s > now_s:
            return False
        claimed = self._claims.claim(epoch, lambda: self._propose(epoch, now_s))
        if claimed is None:  # another replica is far ahead
            self._start = self._start_after_records()
            return True
        if not is_committed:
            try:
                self._publish(epoch, claimed)
            except FencedError:  # another replica writes the epoch's dead letters now
                return False
        self._start = claimed.end
        self.clean_position = self.live_position = Position(epoch)
        if self._is_checkpoint_due():
            self.save()
        return True

    def save(self) -> None:
        """Save a checkpoint, and remove the claims before it."""
        before = self._saved_epoch
        super().save()
        if self._saved_epoch > before:
            self._claims.remove_until(self._saved_epoch)

    def close(self) -> None:
        self._reader.close()

    def _start_after_records(self) -> Positions:
        """Move to the last exact record, and return where the range of the next epoch starts."""
        while True:
            self._start_from_checkpoint()
            saved = self.clean_position.epoch
            exact = self._output.log.last_exact_epoch(self.task.pe, self.task.task, after=saved)
            self.clean_position = self.live_position = Position(exact)
            if exact < self._timeline.first:
                name = self.task.name if self._reader.has_own_positions else self.task.pe
                return self._claims.agree_on_start(name, self._reader.first)
            claimed = self._claims.read(exact)
            if claimed is not None:
                return claimed.end
            if self._checkpoints.latest_epoch(self.task.name) == saved:
                raise self._claims.missing(exact)

    def _propose(self, epoch: int, now_s: float) -> Range:
        """Return the range for an epoch: up to the newest row or, if later epochs are over too, up to the end of the epoch."""
        is_past = self._timeline.closes_s(epoch + 1) <= now_s
        newest = self._reader.newest(self._start, before_s=self._timeline.closes_s(epoch) if is_past else None)
        return Range(self._start, newest)

    def _publish(self, epoch: int, claimed: Range) -> None:
        before = self._reader.bad_messages, self._reader.lost_rows
        rows = self._numbered(self._reader.read(claimed), epoch)
        skipped, lost = self._reader.bad_messages - before[0], self._reader.lost_rows - before[1]
        if skipped:
            self._reader.write_dead_letters(WriteToken(self._claims.run_id(), epoch, "first", claim=1))
        if skipped or lost:
            self._output.emit("incomplete input", {"task": self.task.name, "epoch": epoch, "skipped": skipped, "lost": lost})
        lineage = (json.dumps(claimed.end, sort_keys=True),)
        self._output.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT, lineage=lineage)
        self.rows_read += rows.num_rows

    def _numbered(self, rows: pa.Table, epoch: int) -> pa.Table:
        """Return the rows with their seq and epoch and, if they have no time, the end of the epoch."""
        columns = {name: rows[name] for name in rows.column_names if name != "time" or rows[name].null_count < rows.num_rows}
        number, source_tasks = self._source_task
        base = ((epoch - self._timeline.first) * source_tasks + number) << 32
        columns["seq"] = pa.array(range(base + 1, base + 1 + rows.num_rows), pa.int64())
        columns["epoch"] = pa.array([epoch] * rows.num_rows, pa.int64())
        columns.setdefault("time", pa.array([int(self._timeline.closes_s(epoch) * 1e6)] * rows.num_rows, pa.timestamp("us", "UTC")))
        return pa.table({name: columns[name] for name in self._schema.names}).cast(self._schema)
