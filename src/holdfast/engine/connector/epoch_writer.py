"""Writes a streaming query's batches as epochs of a stream: executors write the rows, the driver commits the record."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from holdfast.engine.connector.feeds import write_whole
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.row_files import row_folder
from holdfast.log.stored_rows import StoredRows, join_stored, store_rows


class WrittenRows(StoredRows, WriterCommitMessage):
    """What one Spark task wrote. The driver sees only this."""


class RowWriter(DataSourceStreamArrowWriter):
    """The part of a writer that runs on executors: it stores the rows of one Spark task as one file."""

    def __init__(self, root: str, folder: str, *, sync: bool = True) -> None:
        self._root, self._folder, self._sync = root, folder, sync

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return WrittenRows()
        rows = pa.Table.from_batches(batches)
        return WrittenRows(**vars(store_rows(Store(self._root, sync=self._sync), rows, folder=self._folder)))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        Store(self._root).remove([file for message in messages if isinstance(message, WrittenRows) for file in message.files])


class LogWriter(RowWriter):
    """Commits batch n of a query as epoch `first` + n of a stream, with create-if-absent.

    Spark commits a batch again if the driver died before it noted the first commit. The record of the first commit then counts.
    """

    def __init__(self, root: str, stream: str, *, first: int, quality: Quality, producer: str) -> None:
        super().__init__(root, row_folder(stream, 0))
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
            **vars(written),
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
        write_whole(self._outputs / f"{batchId}.json", json.dumps(vars(join_messages(messages))))


def join_messages(messages: list[WriterCommitMessage | None]) -> StoredRows:
    """Return what the Spark tasks wrote together."""
    return join_stored(message for message in messages if isinstance(message, WrittenRows))
