"""Writes a streaming query's batches as epochs of a stream: executors write the rows, the driver commits the record."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from holdfast.engine.connector.feeds import write_whole
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.object_names import quoted
from holdfast.log.row_files import checksum, combine_checksums, write_rows


@dataclass
class WrittenRows(WriterCommitMessage):
    """What one Spark task wrote. The driver sees only this."""

    files: tuple[str, ...] = ()
    rows: int = 0
    checksum: str = "0-0000000000000000"
    first_seq: int | None = None
    last_seq: int | None = None


class RowWriter(DataSourceStreamArrowWriter):
    """The part of a writer that runs on executors: it stores the rows of one Spark task as one file."""

    def __init__(self, root: str, folder: str, *, sync: bool = True) -> None:
        self._root, self._folder, self._sync = root, folder, sync

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return WrittenRows()
        rows = pa.Table.from_batches(batches)
        seqs = rows["seq"] if "seq" in rows.column_names and pa.types.is_integer(rows["seq"].type) else None
        bounds = pc.min_max(seqs).as_py() if seqs is not None else {"min": None, "max": None}
        file = write_rows(Store(self._root, sync=self._sync), rows, folder=self._folder)
        return WrittenRows((file,), rows.num_rows, checksum(rows), bounds["min"], bounds["max"])

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        Store(self._root).remove([file for message in messages if isinstance(message, WrittenRows) for file in message.files])


class LogWriter(RowWriter):
    """Commits batch n of a query as epoch `first` + n of a stream, with create-if-absent.

    Spark commits a batch again if the driver died before it noted the first commit. The record that is there then counts.
    """

    def __init__(self, root: str, stream: str, *, first: int, quality: Quality, producer: str) -> None:
        super().__init__(root, f"data/{quoted(stream)}/0")
        self._stream, self._first, self._quality, self._producer = stream, first, quality, producer

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        store, written = Store(self._root), join_messages(messages)
        record = Record(
            stream=self._stream,
            task=0,
            epoch=self._first + batchId,
            quality=self._quality,
            producer=self._producer,
            committed_s=time.time(),
            **written,
        )
        result = EpochLog(store).offer(record)
        if result.accepted_as is None:
            store.remove(list(record.files))
        if result.divergence is not None:
            raise HoldfastError(f"{result.divergence}; a query of this stream must give the same rows when an epoch is repeated")


class BatchWriter(RowWriter):
    """Hands batch n of a replica's query to the replica, as a file in `outputs`. The replica commits the record."""

    def __init__(self, root: str, folder: str, *, outputs: str, sync: bool) -> None:
        super().__init__(root, folder, sync=sync)
        self._outputs = Path(outputs)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        write_whole(self._outputs / f"{batchId}.json", json.dumps(join_messages(messages)))


def join_messages(messages: list[WriterCommitMessage | None]) -> dict[str, Any]:
    """Return the fields of a record that follow from what the Spark tasks wrote."""
    written = [message for message in messages if isinstance(message, WrittenRows)]
    return {
        "files": tuple(file for message in written for file in message.files),
        "rows": sum(message.rows for message in written),
        "first_seq": min((m.first_seq for m in written if m.first_seq is not None), default=None),
        "last_seq": max((m.last_seq for m in written if m.last_seq is not None), default=None),
        "checksum": combine_checksums(message.checksum for message in written),
    }
