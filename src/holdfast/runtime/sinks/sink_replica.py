"""Where a stream leaves the application: each epoch once as it was in time, and once more where that was corrected."""

from collections.abc import Callable
from urllib.parse import quote

import pyarrow as pa

from holdfast.documents.job import Contract, Task
from holdfast.errors import TrimmedError
from holdfast.log import Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.row_files import encode_parquet
from holdfast.log.timeline import Timeline
from holdfast.runtime.input_reader import InputReader, Records
from holdfast.runtime.output_writer import Emit
from holdfast.runtime.sinks.output_files import file_name
from holdfast.runtime.sinks.write_claims import WriteClaims

LOOK_S = 1.0
"""How often a replica that has nothing to do looks whether another has left it behind."""

Writer = Callable[[pa.Table, int, str], None]
"""Takes the rows of an epoch and their quality; called again with the same epoch it replaces what it wrote."""


class SinkReplica:
    """One replica of a sink. Its Parquet files are named by what they hold, so several replicas write each of them once; for
    another writer `WriteClaims` see to that.

    Whoever writes an epoch tells of an `output`. Whoever finds it written tells of that as `found`: the one that wrote it may have
    died before it could tell.
    """

    def __init__(
        self,
        task: Task,
        contract: Contract,
        *,
        inbox: InputReader,
        out: Store,
        checkpoints: Checkpoints,
        timeline: Timeline,
        tell: Emit,
        writer: Writer | None = None,
        checkpointed: Callable[[int], None] = lambda epoch: None,
        clock: Callable[[], float],
    ) -> None:
        self.task, self.saves_every = task, contract.checkpoint_epochs
        self._inbox, self._out, self._writer, self._tell, self._clock = inbox, out, writer, tell, clock
        self._writings = WriteClaims(out, task.name, checkpoints=checkpoints, clock=clock) if writer is not None else None
        self._checkpoints, self._timeline, self._checkpointed = checkpoints, timeline, checkpointed
        self._corrected = contract.correction
        self.clean = self.live = checkpoints.latest(task.name) or Position(timeline.first - 1)
        self._saved = self.clean.epoch
        self._inexact: set[int] = set()
        self._looks_again_s = 0.0
        self.rows_read = 0

    @property
    def finished(self) -> bool:
        return self._timeline.last is not None and self.clean.epoch >= self._timeline.last

    @property
    def quality(self) -> Quality:
        return Quality.TENTATIVE if self._inexact else Quality.EXACT

    def step(self) -> bool:
        """Write the next epoch, and the next correction; whether there was one of them. A replica that was left behind jumps."""
        try:
            first = self._write_first()
            return self._correct() or first or self._skipped()
        except TrimmedError:
            self._looks_again_s = 0.0
            return self._skipped()

    def save(self) -> None:
        """Remember up to where everything written is exact."""
        if self.clean.epoch > self._saved:
            self._checkpoints.save(self.task.name, Position(self.clean.epoch))
            self._saved = self.clean.epoch
            if self._writings is not None:
                self._writings.forget(self._saved)
            self._checkpointed(self._saved)

    def close(self) -> None:
        """Nothing is held that would outlive the loop."""

    def _skipped(self) -> bool:
        """Jump to a newer checkpoint of another replica where there is one: its inputs may be trimmed up to there."""
        if self._clock() < self._looks_again_s:
            return False
        self._looks_again_s = self._clock() + LOOK_S
        newest = self._checkpoints.latest_epoch(self.task.name)
        if newest is None or newest <= self.clean.epoch:
            return False
        self._inexact = {epoch for epoch in self._inexact if epoch > newest}
        self._saved, self.live = newest, Position(max(newest, self.live.epoch))
        self._follow()
        return True

    def _write_first(self) -> bool:
        epoch = self.live.epoch + 1
        if self._timeline.last is not None and epoch > self._timeline.last:
            return False
        records = self._inbox.firsts(epoch)
        if records is None:
            return False
        exact = all(record.quality is Quality.EXACT for record in records)
        if not self._write(epoch, records, "first", Quality.EXACT if exact else _worst(records)):
            return False
        self.live = Position(epoch)
        if not exact:
            self._inexact.add(epoch)
        self._follow()
        return True

    def _correct(self) -> bool:
        if not self._inexact or not self._corrected:
            return False
        epoch = min(self._inexact)
        records = self._inbox.finals(epoch)
        if records is None:
            return False
        if not self._write(epoch, records, "final", Quality.EXACT):
            return False
        self._inexact.remove(epoch)
        self._follow()
        return True

    def _follow(self) -> None:
        """Everything before the oldest epoch that waits for its correction is done with."""
        done = min(self._inexact) - 1 if self._inexact and self._corrected else self.live.epoch
        if not self._corrected:
            self._inexact = {epoch for epoch in self._inexact if epoch == self.live.epoch}
        self.clean = Position(done)
        if done - self._saved >= self.saves_every or self.finished:
            self.save()

    def _write(self, epoch: int, records: Records, kind: str, quality: Quality) -> bool:
        """Let an epoch leave; whether it has left, by this replica or another."""
        begun = self._writings.begin(epoch, kind) if self._writings is not None else "write"
        if begun == "wait":
            return False
        written = begun == "write" and self._written(epoch, self._rows(records), kind, quality)
        rows = sum(record.rows for record in records)
        about = {"sink": self.task.pe, "epoch": epoch, "as": kind, "quality": quality.value, "rows": rows}
        if written:
            self._tell("output", {**about, "latency_s": self._clock() - self._timeline.closes_s(epoch)})
        else:
            self._tell("found", about)
        return True

    def _rows(self, records: Records) -> pa.Table:
        (rows,) = self._inbox.rows([records]).values()
        self.rows_read += rows.num_rows
        return rows

    def _written(self, epoch: int, rows: pa.Table, kind: str, quality: Quality) -> bool:
        """Write an epoch; whether no other replica had."""
        if self._writer is None or self._writings is None:
            return self._out.create(f"{quote(self.task.pe, safe='')}/{file_name(epoch, kind, quality)}", encode_parquet(rows))
        try:
            self._writer(rows, epoch, quality.value)
        except Exception:
            self._writings.give_up(epoch, kind)
            raise
        return self._writings.end(epoch, kind)


def _worst(records: Records) -> Quality:
    """What an epoch of several inputs is worth: as little as the least of them."""
    order = [Quality.EXACT, Quality.TENTATIVE, Quality.PREDICTED, Quality.ABSENT]
    worst = max((record.quality for record in records), key=order.index)
    return Quality.TENTATIVE if len(records) > 1 and worst is Quality.ABSENT else worst
