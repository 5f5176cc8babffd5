"""What a task reads: the records of its inputs, and the rows behind them."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from holdfast.documents.job import Reading
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Record, Store
from holdfast.log.row_files import partition_numbers, read_record_rows

Records = tuple[Record, ...]
"""The records of one epoch, one per input task, in the order of the readings."""


class InputReader:
    """The inputs of one task. `stores` holds, per reading, the store that the stream's log lives in."""

    def __init__(self, reads: Sequence[Reading], stores: Sequence[Store], schemas: Mapping[str, pa.Schema]) -> None:
        self._reads, self._stores, self._schemas = reads, stores, schemas
        self._logs = [EpochLog(store) for store in stores]

    def firsts(self, epoch: int) -> Records | None:
        """What was there in time of every input, or None while one of them has nothing."""
        return self._all(epoch, final=False)

    def finals(self, epoch: int) -> Records | None:
        """The exact records of every input, or None while one of them has none."""
        return self._all(epoch, final=True)

    def rows(self, epochs: Sequence[Records]) -> dict[str, pa.Table]:
        """The rows of a run of epochs, per stream, each task's own share of them, ordered by seq. Raises TrimmedError."""
        made: dict[str, pa.Table] = {}
        for reading, store, places in zip(self._reads, self._stores, self._places(), strict=True):
            name = reading.name or reading.stream
            schema = self._schemas[name]
            parts = [
                _shaped(rows, schema, reading, records[place].epoch)
                for records in epochs
                for place in places
                for rows in read_record_rows(store, records[place])
            ]
            table = pa.concat_tables(parts) if parts else schema.empty_table()
            if reading.of > 1:
                table = table.filter(pa.array(partition_numbers(table, reading.key, parts=reading.of) == reading.share))
            if len(places) > 1:
                table = table.sort_by("seq")
            made[name] = table
        return made

    def _all(self, epoch: int, *, final: bool) -> Records | None:
        found: list[Record] = []
        for reading, log in zip(self._reads, self._logs, strict=True):
            for task in reading.tasks:
                record = (log.final if final else log.first)(reading.stream, task, epoch=epoch)
                if record is None:
                    return None
                found.append(record)
        return tuple(found)

    def _places(self) -> list[range]:
        """Where the records of each reading stand among those of an epoch."""
        places, start = [], 0
        for reading in self._reads:
            places.append(range(start, start + len(reading.tasks)))
            start += len(reading.tasks)
        return places


def _shaped(rows: pa.Table, schema: pa.Schema, reading: Reading, epoch: int) -> pa.Table:
    """The rows with the columns that the reader declares. Another job's rows may lack the number of their epoch."""
    if reading.job is not None and "epoch" in schema.names and "epoch" not in rows.column_names:
        kind = schema.field("epoch").type
        rows = rows.append_column("epoch", pa.array([epoch] * rows.num_rows, kind))
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing:
        raise HoldfastError(
            f"source '{reading.name}' declares column '{missing[0]}', which stream '{reading.job}:{reading.stream}' does not have; "
            f"its columns are: {', '.join(rows.column_names)}"
        )
    return rows.select(schema.names).cast(schema)
