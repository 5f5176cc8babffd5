"""What a watched PE reads, as its agent sees it: each input's records in their order, when they came, and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from holdfast.documents.job import Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.row_files import partition_numbers, read_record_rows

MOST_ROWS = 50_000
"""Of an epoch's input: where there are more, reading them costs more than an agent should."""


class Input:
    """One task of one stream that the watched task reads, how far it was seen, and when its next epoch was looked for in vain."""

    def __init__(self, reading: Reading, store: Store, number: int) -> None:
        self.name = reading.name or reading.stream
        self.label = f"{self.name}/{number}"
        self.reading, self.stream, self.number = reading, reading.stream, number
        self._store, self.log = store, EpochLog(store)
        self.next = 0
        self.missing_s: float | None = None

    def look(self, now_s: float) -> Record | None:
        """The next record, once."""
        record = self.log.first(self.stream, self.number, epoch=self.next)
        if record is None:
            self.missing_s = now_s
        else:
            self.next += 1
        return record

    def skip_to(self, epoch: int) -> None:
        """Go on with this epoch, unless it was seen."""
        if epoch > self.next:
            self.next, self.missing_s = epoch, None

    def rows(self, record: Record) -> pa.Table | None:
        """The rows of a record that are the watched task's; None where there are none, or they cannot be read: they were trimmed
        since, or that is the task's error, which its agent must not share."""
        try:
            found = read_record_rows(self._store, record)
        except (HoldfastError, pa.ArrowException, OSError):
            return None
        if not found:
            return None
        table, reading = pa.concat_tables(found, promote_options="permissive"), self.reading
        if reading.of == 1:
            return table
        return table.filter(pa.array(partition_numbers(table, reading.key, parts=reading.of) == reading.share))


def input_rows(inputs: Sequence[Input], epoch: int, *, final: bool) -> tuple[list[pa.Table], bool] | None:
    """The rows of every stream in an epoch, and whether all are final; None where some are missing, absent or too many.

    `final`: of final records only. Otherwise of what is there: what the task itself would have read.
    """
    records = []
    for each in inputs:
        record = each.log.final(each.stream, each.number, epoch=epoch)
        if record is None and not final:
            record = each.log.first(each.stream, each.number, epoch=epoch)
        if record is None or record.quality is Quality.ABSENT:
            return None
        records.append(record)
    if sum(record.rows for record in records) > MOST_ROWS:
        return None
    tables: dict[str, list[pa.Table]] = {}
    for each, record in zip(inputs, records, strict=True):
        rows = each.rows(record)
        if rows is not None:
            tables.setdefault(each.name, []).append(rows)
    if set(tables) != {each.name for each in inputs}:
        return None
    exact = all(record.quality is Quality.EXACT for record in records)
    return [pa.concat_tables(parts, promote_options="permissive") for parts in tables.values()], exact


def by_our_clock(committed_s: float, *, missing_s: float | None, now_s: float) -> float:
    """When something was committed, told from its node's clock within what our own allows: after it was looked for in vain.

    A node's clock that is behind would let everything look late else.
    """
    return min(committed_s if missing_s is None else max(committed_s, missing_s), now_s)


def stores_of(task: Task, store: Store, logs: Mapping[str, str]) -> list[Store]:
    """The store of each input: the job's own, or that of the job whose stream it is. Raises HoldfastError."""
    missing = sorted({r.job for r in task.reads if r.job is not None} - set(logs))
    if missing:
        raise HoldfastError(f"task '{task.name}' reads a stream of job '{missing[0]}', whose log is not known here")
    return [store if reading.job is None else Store(logs[reading.job]) for reading in task.reads]
