"""A replica of a sink: it writes each epoch when its first records are there, and once more when the epoch is corrected."""

import time
from collections.abc import Callable

import pyarrow as pa

from holdfast.app.writers import WriteKind
from holdfast.errors import TrimmedError
from holdfast.log import Quality, Store
from holdfast.log.output_files import write_correction, write_first
from holdfast.log.position import Position
from holdfast.log.row_files import encode_parquet
from holdfast.runtime.input_reader import InputReader, Records
from holdfast.runtime.output_writer import Emit
from holdfast.runtime.replica import Replica, ReplicaContext
from holdfast.runtime.sinks.claimed_writer import ClaimedWriter, WriteOutcome
from holdfast.runtime.tentative_output import sink_quality


class SinkReplica(Replica):
    """One replica of a sink. Several replicas write each epoch once.

    Without a writer, an epoch is a Parquet file, which is created once and replaced by its correction. With a writer, claims decide
    which replica writes. The replica that writes an epoch emits `output`. A replica that sees it written emits `existing`,
    because the other one may have died before it emitted `output`.
    """

    def __init__(
        self,
        context: ReplicaContext,
        *,
        inputs: InputReader,
        out: Store,
        emit: Emit,
        writer: ClaimedWriter | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(context, clock=clock)
        self._inputs, self._out, self._emit, self._writer = inputs, out, emit, writer
        self._inexact_epochs: set[int] = set()

    @property
    def quality(self) -> Quality:
        return Quality.TENTATIVE if self._inexact_epochs else Quality.EXACT

    def step(self) -> bool:
        """Write the next epoch and the next correction, or skip to a newer checkpoint. Return whether anything was done."""
        try:
            wrote_first = self._write_first()
            return self._write_correction() or wrote_first or self._skip_to_newer_checkpoint()
        except TrimmedError:
            self._next_checkpoint_poll_s = 0.0
            return self._skip_to_newer_checkpoint()

    def save(self) -> None:
        """Save a checkpoint, and remove the claims on epochs up to it."""
        before = self._saved_epoch
        super().save()
        if self._writer is not None and self._saved_epoch > before:
            self._writer.claims.remove_until(self._saved_epoch)

    def _skip_to_newer_checkpoint(self) -> bool:
        """Move to a newer checkpoint of another replica, if there is one; the inputs may be trimmed up to there."""
        newest = self._poll_newer_checkpoint()
        if newest is None:
            return False
        self._inexact_epochs = {epoch for epoch in self._inexact_epochs if epoch > newest}
        self._saved_epoch, self.live_position = newest, Position(max(newest, self.live_position.epoch))
        self._advance_clean()
        return True

    def _write_first(self) -> bool:
        epoch = self.live_position.epoch + 1
        if self._timeline.last is not None and epoch > self._timeline.last:
            return False
        records = self._inputs.first_records(epoch)
        if records is None:
            return False
        quality = sink_quality(records)
        if not self._write(epoch, records, "first", quality):
            return False
        self.live_position = Position(epoch)
        if quality is not Quality.EXACT:
            self._inexact_epochs.add(epoch)
        self._advance_clean()
        return True

    def _write_correction(self) -> bool:
        if not self._inexact_epochs or not self.contract.correction:
            return False
        epoch = min(self._inexact_epochs)
        records = self._inputs.final_records(epoch)
        if records is None or not self._write(epoch, records, "final", Quality.EXACT):
            return False
        self._inexact_epochs.remove(epoch)
        self._advance_clean()
        return True

    def _advance_clean(self) -> None:
        """Move the clean position to the epoch before the oldest one that waits for its correction."""
        clean = self.live_position.epoch
        if not self.contract.correction:
            self._inexact_epochs &= {clean}
        elif self._inexact_epochs:
            clean = min(self._inexact_epochs) - 1
        self.clean_position = Position(clean)
        if self._is_checkpoint_due():
            self.save()

    def _write(self, epoch: int, records: Records, kind: WriteKind, quality: Quality) -> bool:
        """Write an epoch. Return whether it is written, by this replica or another."""
        rows = sum(record.rows for record in records)
        about = {"sink": self.task.pe, "epoch": epoch, "as": kind, "quality": quality.value, "rows": rows}
        if self._writer is None:
            outcome: WriteOutcome = "wrote" if self._write_file(epoch, records, kind, quality) else "existing"
        else:
            outcome = self._writer.write(lambda: self._rows(records), epoch, kind, quality)
        if outcome == "wrote":
            self._emit("output", {**about, "latency_s": self._clock() - self._timeline.closes_s(epoch)})
        elif outcome != "wait":
            self._emit(outcome, about)
        return outcome in ("wrote", "existing")

    def _write_file(self, epoch: int, records: Records, kind: WriteKind, quality: Quality) -> bool:
        content = encode_parquet(self._rows(records))
        if kind == "first":
            return write_first(self._out, self.task.pe, epoch, quality, content)
        return write_correction(self._out, self.task.pe, epoch, content)

    def _rows(self, records: Records) -> pa.Table:
        (rows,) = self._inputs.rows([records]).values()
        self.rows_read += rows.num_rows
        return rows
