"""Replaces, while a schedule runs, what would be slow or different in every run: encodings, work on rows, and random names.

Rows, records and positions stay objects: what is stored is the number of an object. Pure functions of rows are the real ones,
called once for each distinct argument. All else is the real code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from holdfast.control.observers import spark_job_observer
from holdfast.documents.job import Reading
from holdfast.engine.epochs import Span
from holdfast.log import Record, checkpoints, local_folder, row_files, stored_rows
from holdfast.log.position import Position
from holdfast.runtime import input_reader, output_writer, span_compute
from holdfast.runtime.sinks import sink_replica, write_claims
from holdfast.runtime.sources import reader_source, staged_batches, trace_source

from .rows import checksum, intern, partition_numbers, remembered, seq_bounds
from .workload import strategy_of


class Codec:
    """The objects that the processes of one schedule have stored, and the random names that they have drawn."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._names = 0

    def encode_rows(self, table: pa.Table) -> bytes:
        return self._encode(intern(table))

    def encode_value(self, value: Position | Record) -> bytes:
        return self._encode(value)

    def decode(self, content: bytes, name: str = "") -> Any:
        if not content.startswith(b"object ") or not content.endswith(b"."):
            raise pa.ArrowInvalid("it is truncated")
        return self._values[int(content[7:-1])]

    def uuid4(self) -> Name:
        self._names += 1
        return Name(self._names)

    def _encode(self, value: Any) -> bytes:
        self._values.append(value)
        return b"object %d." % (len(self._values) - 1)


class Name:
    """Stands for a random UUID."""

    def __init__(self, number: int) -> None:
        self.int, self.hex = number, f"{number:032x}"


def _rows_of(real: Any) -> Any:
    def function(table: pa.Table, span: Span) -> pa.Table:
        return remembered(real, (table,), (span.first, span.last), lambda table: real(table, span))

    return function


def _share(real: Any) -> Any:
    def function(parts: Sequence[pa.Table], reading: Reading, schema: pa.Schema) -> pa.Table:
        about = len(reading.tasks), reading.of, reading.share, reading.key
        return remembered(real, tuple(parts), about, lambda *parts: real(parts, reading, schema))

    return function


@contextmanager
def installed(codec: Codec) -> Iterator[None]:
    """Let the real modules use the codec of a schedule."""
    attributes: list[tuple[Any, str, Any]] = [
        (row_files, "encode_parquet", codec.encode_rows),
        (row_files, "decode_parquet", codec.decode),
        (row_files, "uuid4", codec.uuid4),
        (local_folder, "uuid4", codec.uuid4),
        (write_claims, "uuid4", codec.uuid4),
        (sink_replica, "encode_parquet", codec.encode_rows),
        (staged_batches, "encode_parquet", codec.encode_rows),
        (staged_batches, "decode_parquet", codec.decode),
        (checkpoints, "_encode", codec.encode_value),
        (checkpoints, "_decode", codec.decode),
        (Record, "encode", lambda record: codec.encode_value(record)),
        (Record, "decode", staticmethod(codec.decode)),
        (output_writer, "checksum", checksum),
        (stored_rows, "checksum", checksum),
        (stored_rows, "_seq_bounds", seq_bounds),
        (input_reader, "partition_numbers", partition_numbers),
        (reader_source, "partition_numbers", partition_numbers),
        (input_reader, "share_of", _share(input_reader.share_of)),
        (span_compute, "rows_of", _rows_of(span_compute.rows_of)),
        (spark_job_observer, "read_document", strategy_of),
        (trace_source, "rows_of", _rows_of(trace_source.rows_of)),
    ]
    originals = [(module, name, vars(module)[name]) for module, name, _ in attributes]
    for module, name, value in attributes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in originals:
            setattr(module, name, value)
