"""Reads a task's input from the log: the records of its input streams and the rows that they name."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pyarrow as pa

from holdfast.documents.job import Reading
from holdfast.engine.connector.feeds import EpochFiles, files_of
from holdfast.engine.stored_frame import StoredInput
from holdfast.errors import HoldfastError, TrimmedError
from holdfast.log import EpochLog, Record, Store
from holdfast.log.row_files import partition_numbers, read_record_rows

REQUESTS = ThreadPoolExecutor(32, thread_name_prefix="requests")
"""Reads independent objects of remote logs at the same time."""

Result = TypeVar("Result")
Records = tuple[Record, ...]
"""The input records of one epoch: one per input task, in the order of the readings."""


class InputReader:
    """The inputs of one task. `stores` holds, for each reading, the store of the log that has the stream."""

    def __init__(self, reads: Sequence[Reading], stores: Sequence[Store], schemas: Mapping[str, pa.Schema]) -> None:
        self._reads, self._stores, self._schemas = reads, stores, schemas
        self._logs = [EpochLog(store) for store in stores]
        self._awaited = 0

    @property
    def streams(self) -> list[str]:
        """The names by which the application knows the inputs."""
        return [reading.name or reading.stream for reading in self._reads]

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
            of_reading = [record for records in epochs for record in records[tasks]]
            read = [partial(read_record_rows, store, record) for record in of_reading]
            tables_of = _call_all(read, at_once=store.remote)
            parts = [
                _conform(rows, schema, reading, record.epoch)
                for record, part in zip(of_reading, tables_of, strict=True)
                for rows in part or ()
            ]
            tables[name] = share_of(parts, reading, schema)
        return tables

    def files(self, records: Records) -> dict[str, EpochFiles]:
        """Return the files of the rows of an epoch per stream, for a query to read."""
        files: dict[str, EpochFiles] = {}
        for name, reading, store in zip(self.streams, self._reads, self._stores, strict=True):
            own, records = records[: len(reading.tasks)], records[len(reading.tasks) :]
            files[name] = files_of(own, store.root)
        return files

    def stored(self, epochs: Sequence[Records]) -> dict[str, StoredInput]:
        """Return the files of several epochs per stream, and which of their rows this task reads."""
        inputs: dict[str, StoredInput] = {}
        start = 0
        for reading, store in zip(self._reads, self._stores, strict=True):
            tasks = slice(start, start + len(reading.tasks))
            start = tasks.stop
            files = tuple(file for records in epochs for file in files_of(records[tasks], store.root).files)
            inputs[reading.name or reading.stream] = StoredInput(
                files, foreign=reading.job is not None, key=reading.key, share=reading.share, of=reading.of
            )
        return inputs

    def require_not_trimmed(self, epochs: Sequence[Records]) -> None:
        """Raise TrimmedError if an epoch was trimmed since its records were read."""
        logs = [log for reading, log in zip(self._reads, self._logs, strict=True) for _ in reading.tasks]
        for records in epochs:
            for record, log in zip(records, logs, strict=True):
                if log.is_trimmed(record):
                    raise TrimmedError(f"epoch {record.epoch} of '{record.stream}' was trimmed while it was read")

    def _records(self, epoch: int, *, final: bool) -> Records | None:
        """Return the records of an epoch, or None while one is missing.

        While one is missing, only that one is looked up. The rest are then looked up at the same time if the log is remote.
        """
        look_ups = [
            partial(log.final if final else log.first, reading.stream, task, epoch=epoch)
            for reading, log in zip(self._reads, self._logs, strict=True)
            for task in reading.tasks
        ]
        awaited = look_ups[self._awaited]()
        if awaited is None:
            return None
        others = look_ups[: self._awaited] + look_ups[self._awaited + 1 :]
        records = list(_call_all(others, at_once=any(store.remote for store in self._stores)))
        records.insert(self._awaited, awaited)
        if None in records:
            self._awaited = records.index(None)
            return None
        return tuple(record for record in records if record is not None)


def _call_all(functions: Sequence[Callable[[], Result | None]], *, at_once: bool) -> list[Result | None]:
    """Return the results of functions, called at once or in order. Called in order, those after one without a result are not
    called and have none."""
    if at_once:
        return list(REQUESTS.map(lambda function: function(), functions))
    results: list[Result | None] = [None] * len(functions)
    for place, function in enumerate(functions):
        results[place] = function()
        if results[place] is None:
            break
    return results


def share_of(parts: Sequence[pa.Table], reading: Reading, schema: pa.Schema) -> pa.Table:
    """Return this task's share of the rows of an input, ordered by seq."""
    table = pa.concat_tables(parts) if len(parts) > 1 else parts[0] if parts else schema.empty_table()
    if reading.of > 1:
        table = table.filter(pa.array(partition_numbers(table, reading.key, parts=reading.of) == reading.share))
    return table.sort_by("seq") if len(parts) > 1 else table


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
