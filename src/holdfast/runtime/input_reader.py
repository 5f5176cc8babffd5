"""Reads a task's input from the log: the records of its input streams and the rows that they name."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from holdfast.documents.job import Reading
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Record, Store
from holdfast.log.row_files import partition_numbers, read_record_rows

Records = tuple[Record, ...]
"""The input records of one epoch: one per input task, in the order of the readings."""


class InputReader:
    """The inputs of one task. `stores` holds, for each reading, the store of the log that has the stream."""

    def __init__(self, reads: Sequence[Reading], stores: Sequence[Store], schemas: Mapping[str, pa.Schema]) -> None:
        self._reads, self._stores, self._schemas = reads, stores, schemas
        self._logs = [EpochLog(store) for store in stores]

    def first_records(self, epoch: int) -> Records | None:
        """Return the first record of every input, or None while one is missing."""
        return self._records(epoch, final=False)

    def final_records(self, epoch: int) -> Records | None:
        """Return the final record of every input, or None while one is missing."""
        return self._records(epoch, final=True)

    def rows(self, epochs: Sequence[Records]) -> dict[str, pa.Table]:
        """Return the rows of several epochs per stream, ordered by seq, limited to this task's share.

        Raises TrimmedError if the rows were trimmed since the records were read.
        """
        tables: dict[str, pa.Table] = {}
        start = 0
        for reading, store in zip(self._reads, self._stores, strict=True):
            tasks = slice(start, start + len(reading.tasks))
            start = tasks.stop
            name = reading.name or reading.stream
            schema = self._schemas[name]
            parts = [
                _conform(rows, schema, reading, record.epoch)
                for records in epochs
                for record in records[tasks]
                for rows in read_record_rows(store, record)
            ]
            tables[name] = share_of(parts, reading, schema)
        return tables

    def _records(self, epoch: int, *, final: bool) -> Records | None:
        records: list[Record] = []
        for reading, log in zip(self._reads, self._logs, strict=True):
            for task in reading.tasks:
                record = (log.final if final else log.first)(reading.stream, task, epoch=epoch)
                if record is None:
                    return None
                records.append(record)
        return tuple(records)


def share_of(parts: Sequence[pa.Table], reading: Reading, schema: pa.Schema) -> pa.Table:
    """Return this task's share of the rows of an input, ordered by seq."""
    table = pa.concat_tables(parts) if len(parts) > 1 else parts[0] if parts else schema.empty_table()
    if reading.of > 1:
        table = table.filter(pa.array(partition_numbers(table, reading.key, parts=reading.of) == reading.share))
    return table.sort_by("seq") if len(reading.tasks) > 1 and len(parts) > 1 else table


def _conform(rows: pa.Table, schema: pa.Schema, reading: Reading, epoch: int) -> pa.Table:
    """Return the rows with the columns of the schema. Rows of another job may lack the epoch column; it is added then."""
    if reading.job is not None and "epoch" in schema.names and "epoch" not in rows.column_names:
        rows = rows.append_column("epoch", pa.array([epoch] * rows.num_rows, schema.field("epoch").type))
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing:
        raise HoldfastError(
            f"source '{reading.name}' declares column '{missing[0]}', which stream '{reading.job}:{reading.stream}' does not have; "
            f"its columns are: {', '.join(rows.column_names)}"
        )
    return rows if rows.schema.equals(schema) else rows.select(schema.names).cast(schema)
