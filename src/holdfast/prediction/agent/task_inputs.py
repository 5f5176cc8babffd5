"""The inputs of a watched task: their records in order, when each was committed, and their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from holdfast.documents.job import Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.row_files import partition_numbers, read_record_rows

MOST_ROWS = 50_000
"""The most rows of an epoch's input that an agent reads, to bound its cost."""


class TaskInput:
    """One task of one stream that the watched task reads.

    `next` is the next epoch to read. `missing_s` is when its record was last looked for and not there.
    """

    def __init__(self, reading: Reading, store: Store, number: int) -> None:
        self.name = reading.name or reading.stream
        self.label = f"{self.name}/{number}"
        self.reading, self.stream, self.number = reading, reading.stream, number
        self._store, self.log = store, EpochLog(store)
        self.next = 0
        self.missing_s: float | None = None

    def next_record(self, now_s: float) -> Record | None:
        """Return the next record and advance; None if it is not committed yet."""
        record = self.log.first(self.stream, self.number, epoch=self.next)
        if record is None:
            self.missing_s = now_s
        else:
            self.next += 1
        return record

    def skip_to(self, epoch: int) -> None:
        """Continue with this epoch, unless a later one is next."""
        if epoch > self.next:
            self.next, self.missing_s = epoch, None

    def rows(self, record: Record) -> pa.Table | None:
        """Return the rows of a record that the watched task reads; None if there are none or they cannot be read.

        The files may have been trimmed or be broken. The agent must not fail where its task does.
        """
        try:
            tables = read_record_rows(self._store, record)
        except (HoldfastError, pa.ArrowException, OSError):
            return None
        if not tables:
            return None
        table, reading = pa.concat_tables(tables, promote_options="permissive"), self.reading
        if reading.of == 1:
            return table
        return table.filter(pa.array(partition_numbers(table, reading.key, parts=reading.of) == reading.share))


def input_rows(inputs: Sequence[TaskInput], epoch: int, *, final: bool) -> tuple[list[pa.Table], bool] | None:
    """Return the rows of every stream in an epoch, and whether all are exact; None if some are missing, absent or too many.

    With `final`, only final records count. Otherwise first records count too, as for the task itself.
    """
    records = []
    for task_input in inputs:
        record = task_input.log.final(task_input.stream, task_input.number, epoch=epoch)
        if record is None and not final:
            record = task_input.log.first(task_input.stream, task_input.number, epoch=epoch)
        if record is None or record.quality is Quality.ABSENT:
            return None
        records.append(record)
    if sum(record.rows for record in records) > MOST_ROWS:
        return None
    tables: dict[str, list[pa.Table]] = {}
    for task_input, record in zip(inputs, records, strict=True):
        rows = task_input.rows(record)
        if rows is not None:
            tables.setdefault(task_input.name, []).append(rows)
    if set(tables) != {task_input.name for task_input in inputs}:
        return None
    exact = all(record.quality is Quality.EXACT for record in records)
    return [pa.concat_tables(parts, promote_options="permissive") for parts in tables.values()], exact


def input_stores(task: Task, store: Store, logs: Mapping[str, str]) -> list[Store]:
    """Return the store of each input: the job's own, or that of the job whose stream it is. Raises HoldfastError."""
    missing = sorted({r.job for r in task.reads if r.job is not None} - set(logs))
    if missing:
        raise HoldfastError(f"task '{task.name}' reads a stream of job '{missing[0]}', whose log is unknown")
    return [store if reading.job is None else Store(logs[reading.job]) for reading in task.reads]
