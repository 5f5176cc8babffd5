"""What a replica offers to the log: rows first, then the record that makes them visible."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

import pyarrow as pa

from holdfast.engine.row_comparison import first_difference
from holdfast.errors import TrimmedError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.row_files import checksum, read_record_rows, write_rows
from holdfast.log.timeline import Timeline

Emit = Callable[[str, dict[str, object]], None]
"""Writes an event of a kind into the history."""

POLL_S = 0.01


@dataclass
class OutputWriter:
    """The streams that one replica of a task makes.

    `patience_s` is how long a record of another replica is waited for before this one writes its own: 0 for the primary and for
    eager secondaries. A quiet secondary that waited in vain stops waiting until it sees another's record again. `waited_s` is how
    long that was in all.
    """

    store: Store
    task: int
    producer: str
    timeline: Timeline
    tell: Emit
    patience_s: float = 0.0
    clock: Callable[[], float] = time.time
    log: EpochLog = field(init=False)
    waited_s: float = field(default=0.0, init=False)
    _silent: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.log = EpochLog(self.store)

    def publish(self, stream: str, epoch: int, *, rows: pa.Table, quality: Quality, lineage: tuple[str, ...] = ()) -> Record | None:
        """Make an epoch's rows part of the stream, unless another replica has. Returns the record that stands: this one or the
        other's; None where the epoch was trimmed."""
        named = checksum(rows)
        held = self._awaited(stream, epoch, quality)
        if held is not None:
            self._compare(held, rows, named, quality, lineage)
            return held
        folder = f"data/{quote(stream, safe='')}/{self.task}"
        files = (write_rows(self.store, rows, folder=folder),) if rows.num_rows else ()
        seqs = rows["seq"].to_numpy() if rows.num_rows else None
        record = Record(
            stream=stream,
            task=self.task,
            epoch=epoch,
            quality=quality,
            files=files,
            rows=rows.num_rows,
            first_seq=int(seqs.min()) if seqs is not None else None,
            last_seq=int(seqs.max()) if seqs is not None else None,
            checksum=named,
            producer=self.producer,
            lineage=lineage,
            closed_s=self.timeline.closes_s(epoch),
            committed_s=self.clock(),
        )
        offered = self.log.offer(record)
        if offered.accepted_as is None:
            self.store.remove(list(files))
            if offered.divergence is not None:
                self._compare(offered.divergence.held, rows, named, quality, lineage)
            return self._held(stream, epoch, quality)
        self.tell(
            "commit",
            {
                "stream": stream,
                "task": self.task,
                "epoch": epoch,
                "as": offered.accepted_as,
                "quality": quality.value,
                "rows": rows.num_rows,
                "closed_s": record.closed_s,
                "producer": self.producer,
            },
        )
        return record

    def _awaited(self, stream: str, epoch: int, quality: Quality) -> Record | None:
        """The record that makes an offer superfluous, waited for as long as patience lasts."""
        held = self._held(stream, epoch, quality)
        if held is not None or self.patience_s == 0:
            self._silent = self._silent and held is None
            return held
        begun = time.monotonic()
        until = begun + (0.0 if self._silent else self.patience_s)
        while held is None and time.monotonic() < until:
            time.sleep(POLL_S)
            held = self._held(stream, epoch, quality)
        self._silent = held is None
        self.waited_s += time.monotonic() - begun
        return held

    def _held(self, stream: str, epoch: int, quality: Quality) -> Record | None:
        first = self.log.first(stream, self.task, epoch=epoch)
        if first is None or quality is not Quality.EXACT or first.quality is Quality.EXACT:
            return first
        return self.log.final(stream, self.task, epoch=epoch)

    def _compare(self, held: Record, rows: pa.Table, named: str, quality: Quality, lineage: tuple[str, ...]) -> None:
        """Emit of a divergence: exact rows of the same inputs that differ by more than the last digits of a sum."""
        if not (held.quality is quality is Quality.EXACT) or held.checksum == named or held.lineage != lineage:
            return
        try:
            theirs = read_record_rows(self.store, held)
        except TrimmedError:
            return  # everyone has read them
        apart = first_difference(rows, pa.concat_tables(theirs) if theirs else rows.schema.empty_table())
        if apart is not None:
            self.tell(
                "divergence",
                {
                    "stream": held.stream,
                    "task": self.task,
                    "epoch": held.epoch,
                    "held_by": held.producer,
                    "made_by": self.producer,
                    "seq": apart.seq,
                    "theirs": str(apart.right),
                    "ours": str(apart.left),
                },
            )
