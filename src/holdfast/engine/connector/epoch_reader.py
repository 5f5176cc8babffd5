"""Offers epochs to a streaming query, exactly one per micro-batch."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from holdfast.engine.connector.feeds import EpochFile, EpochFiles, Feed
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.row_files import read_rows, sort_rows

POLL_S = 0.01
OFFER_WAIT_S = 0.2
"""How long a reader waits for the next epoch before it answers that there is none. A query that is stopped waits this long."""

ORDERED_ROWS = 200_000
"""Up to this many rows, an epoch is read as one partition in the order of its rows. Functions such as `first` and
`dropDuplicates` then give the same result in every replica. A larger epoch is read as one partition per file."""


@dataclass
class FilePartition(InputPartition):
    """The files that one Spark task reads, and whether their rows are put in order."""

    files: tuple[EpochFile, ...]
    in_order: bool

    def __init__(self, files: tuple[EpochFile, ...], in_order: bool) -> None:
        super().__init__(None)
        self.files, self.in_order = files, in_order


class EpochReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads one stream of a feed for a streaming query. An offset is the number of the last epoch that was read.

    Spark asks every reader of a query separately, each in a process of its own, whether there is more. The readers that share a
    `group` (a folder on the driver's machine) give the same answer in the same round, so all inputs of a join advance together:
    whoever is asked first decides for the round. A decision that is older than the reader belongs to an earlier run of the query.
    """

    def __init__(self, feed: Feed, stream: str, schema: StructType, *, group: Path, is_new_group: bool = False) -> None:
        self._feed, self._stream, self._schema, self._group = feed, stream, schema, group
        self._started_s = 0.0 if is_new_group else time.time()
        self._round = (0, -1)
        self._wait_s, self._last = OFFER_WAIT_S, None

    def __getstate__(self) -> dict[str, Any]:
        """Return what executors need to read a partition."""
        return {"_schema": self._schema}

    def initialOffset(self) -> dict[str, Any]:
        return {"epoch": self._feed.first_number() - 1}

    def prepareForTriggerAvailableNow(self) -> None:
        self._wait_s = 0.0

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        number = int(start["epoch"])
        self._round = (number, self._round[1] + 1 if self._round[0] == number else 0)
        return {"epoch": number + 1} if self._decide(number + 1) else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[FilePartition]:
        parts = [self._feed.files(self._stream, number) for number in range(start["epoch"] + 1, end["epoch"] + 1)]
        return plan_partitions(parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FilePartition)
        return read_partition(partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Remove the decisions of rounds that no reader of this query needs any more."""
        for path in self._group.iterdir():
            if path.name.split(".")[0].isdigit() and int(path.name.split(".")[0]) < end["epoch"] - 1:
                path.unlink(missing_ok=True)

    def _decide(self, number: int) -> bool:
        """Return whether the group reads an epoch in this round."""
        self._group.mkdir(parents=True, exist_ok=True)
        path = self._group / f"{self._round[0]}.{self._round[1]}"
        deadline_s = time.monotonic() + self._wait_s
        while True:
            decision = self._read_decision(path)
            if decision is not None:
                return decision
            is_complete = self._feed.is_complete(number)
            if is_complete or time.monotonic() >= deadline_s:
                try:
                    path.symlink_to("yes" if is_complete else "no")  # atomic, with its content
                    return is_complete
                except FileExistsError:
                    continue
            time.sleep(POLL_S)

    def _read_decision(self, path: Path) -> bool | None:
        try:
            if path.lstat().st_mtime < self._started_s:
                path.unlink(missing_ok=True)
                return None
            return path.readlink().name == "yes"
        except FileNotFoundError:
            return None


def plan_partitions(parts: list[EpochFiles]) -> list[FilePartition]:
    """Return one ordered partition, or one partition per file if there are many rows; none if there are no rows."""
    files = [file for part in parts for file in part.files]
    if sum(part.rows for part in parts) <= ORDERED_ROWS:
        return [FilePartition(tuple(files), True)] if files else []
    return [FilePartition((file,), False) for file in files]


def read_partition(partition: FilePartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition in exactly the types that Spark expects."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    tables = [_conform(read_rows(Store(file.root), file.name), file, arrow) for file in partition.files]
    if partition.in_order and len(tables) > 0:
        tables = [sort_rows(pa.concat_tables(tables))]
    for table in tables:
        yield from table.select(arrow.names).cast(arrow).combine_chunks().to_batches()


def _conform(rows: pa.Table, file: EpochFile, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns `epoch` and `quality` if the schema has them. Raises HoldfastError if it has others."""
    for name, value, kind in (("epoch", file.epoch, pa.int64()), ("quality", file.quality, pa.string())):
        if name in schema.names and name not in rows.column_names:
            rows = rows.append_column(name, pa.array([value] * rows.num_rows, kind))
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing:
        raise HoldfastError(
            f"the schema asks for column '{missing[0]}', which file '{file.name}' does not have; "
            f"its columns are: {', '.join(rows.column_names)}"
        )
    return rows
