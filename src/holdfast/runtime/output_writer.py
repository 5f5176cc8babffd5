"""Writes a replica's output to the log. The record committed first counts: usually the primary's, or an active secondary's if the
primary is late.

The orchestrator gives each replica a rank, and rank 0 is the primary (`PeReplica.set_rank`). The primary and eager secondaries
write at once. A quiet secondary waits for another replica's record before it writes its own. The rows are written first; the
record makes them visible.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast.engine.row_comparison import first_difference
from holdfast.errors import TrimmedError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.row_files import checksum, read_record_rows, row_folder
from holdfast.log.stored_rows import StoredRows, load_rows, store_rows
from holdfast.log.timeline import Timeline
from holdfast.runtime.machine_time import MACHINE_TIME, MachineTime

Emit = Callable[[str, dict[str, object]], None]
"""Writes an event of the given kind into the history."""

POLL_S = 0.01


@dataclass
class OutputWriter:
    """Commits the output streams of one replica of a task.

    `patience_s` is how long to wait for another replica's record: 0 for the primary and for eager secondaries. After a wait in
    vain, a quiet secondary writes at once until it reads another replica's record again. `waited_s` is the total waiting time.
    """

    store: Store
    task: int
    producer: str
    timeline: Timeline
    emit: Emit
    patience_s: float = 0.0
    time: MachineTime = MACHINE_TIME
    log: EpochLog = field(init=False)
    waited_s: float = field(default=0.0, init=False)
    _others_silent: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.log = EpochLog(self.store)

    def publish(
        self, stream: str, epoch: int, *, rows: pa.Table | StoredRows, quality: Quality, lineage: tuple[str, ...] = ()
    ) -> Record | None:
        """Commit an epoch of a stream, unless another replica has committed it. Stored rows that are not used are removed.

        Return the record in the log: this replica's or the other's; None if the epoch was trimmed.
        """
        rows_checksum = rows.checksum if isinstance(rows, StoredRows) else checksum(rows)
        existing = self._await_other_record(stream, epoch, quality)
        if existing is not None:
            self._report_divergence(existing, rows, rows_checksum, quality, lineage)
            self._discard(rows)
            return existing
        stored = rows if isinstance(rows, StoredRows) else store_rows(self.store, rows, folder=row_folder(stream, self.task))
        record = Record(
            stream=stream,
            task=self.task,
            epoch=epoch,
            quality=quality,
            **vars(stored),
            producer=self.producer,
            lineage=lineage,
            closed_s=self.timeline.closes_s(epoch),
            committed_s=self.time.wall_s(),
        )
        result = self.log.offer(record)
        if result.accepted_as is None:
            if result.divergence is not None:
                self._report_divergence(result.divergence.committed, rows, rows_checksum, quality, lineage)
            self._discard(stored)
            return self._existing_record(stream, epoch, quality)
        self.emit(
            "commit",
            {
                "stream": stream,
                "task": self.task,
                "epoch": epoch,
                "as": result.accepted_as,
                "quality": quality.value,
                "rows": stored.num_rows,
                "closed_s": record.closed_s,
                "producer": self.producer,
            },
        )
        return record

    def _discard(self, rows: pa.Table | StoredRows) -> None:
        if isinstance(rows, StoredRows):
            self.store.remove(list(rows.files))

    def _await_other_record(self, stream: str, epoch: int, quality: Quality) -> Record | None:
        """Return the record that makes this replica's superfluous. Wait for it up to `patience_s`."""
        record = self._existing_record(stream, epoch, quality)
        if record is not None or self.patience_s == 0:
            self._others_silent = self._others_silent and record is None
            return record
        start_s = self.time.elapsed_s()
        deadline_s = start_s + (0.0 if self._others_silent else self.patience_s)
        while record is None and self.time.elapsed_s() < deadline_s:
            self.time.sleep(POLL_S)
            record = self._existing_record(stream, epoch, quality)
        self._others_silent = record is None
        self.waited_s += self.time.elapsed_s() - start_s
        return record

    def _existing_record(self, stream: str, epoch: int, quality: Quality) -> Record | None:
        lookup = self.log.final if quality is Quality.EXACT else self.log.first
        return lookup(stream, self.task, epoch=epoch)

    def _report_divergence(
        self, committed: Record, rows: pa.Table | StoredRows, rows_checksum: str, quality: Quality, lineage: tuple[str, ...]
    ) -> None:
        """Emit a divergence if exact rows of the same inputs differ by more than the last digits of a sum."""
        are_exact = committed.quality is quality is Quality.EXACT
        if not are_exact or committed.checksum == rows_checksum or committed.lineage != lineage:
            return
        try:
            tables = read_record_rows(self.store, committed)
        except TrimmedError:
            return  # all consumers have read them
        ours = load_rows(self.store, rows) if isinstance(rows, StoredRows) else rows
        difference = first_difference(ours, pa.concat_tables(tables) if tables else ours.schema.empty_table())
        if difference is not None:
            self.emit(
                "divergence",
                {
                    "stream": committed.stream,
                    "task": self.task,
                    "epoch": committed.epoch,
                    "held_by": committed.producer,
                    "made_by": self.producer,
                    "seq": difference.seq,
                    "theirs": str(difference.right),
                    "ours": str(difference.left),
                },
            )
