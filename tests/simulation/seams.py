"""Replaces, while a schedule runs, what would be slow or different in every run: the encoding of rows, and random names.

Rows stay objects: what is stored is the number of a table. All else is the real code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from holdfast.log import Record, checkpoints, local_folder, row_files
from holdfast.log.position import Position
from holdfast.runtime import input_reader, output_writer
from holdfast.runtime.sinks import sink_replica, write_claims
from holdfast.runtime.sources import staged_batches

from . import rows

_real_decode = Record.decode
_real_checksum = row_files.checksum
_real_partition_numbers = row_files.partition_numbers
_records: dict[bytes, Record] = {}


class Codec:
    """The tables and positions that the processes of one schedule have stored, and the random names that they have drawn."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._names = 0

    def encode_rows(self, table: pa.Table) -> bytes:
        self._values.append(rows.intern(table))
        return b"rows %d." % (len(self._values) - 1)

    def decode_rows(self, content: bytes) -> pa.Table:
        return self._decode(content, b"rows ")

    def encode_position(self, position: Position) -> bytes:
        self._values.append(position)
        return b"position %d." % (len(self._values) - 1)

    def decode_position(self, content: bytes, name: str) -> Position:
        return self._decode(content, b"position ")

    def uuid4(self) -> Name:
        self._names += 1
        return Name(self._names)

    def _decode(self, content: bytes, prefix: bytes) -> Any:
        if not content.startswith(prefix) or not content.endswith(b"."):
            raise pa.ArrowInvalid("it is truncated")
        return self._values[int(content[len(prefix) : -1])]


class Name:
    """Stands for a random UUID."""

    def __init__(self, number: int) -> None:
        self.int, self.hex = number, f"{number:032x}"


def decode_record(content: bytes) -> Record:
    """Return a record. Each distinct content is decoded once, because many actors read the same records."""
    record = _records.get(content)
    if record is None:
        if len(_records) > 100_000:
            _records.clear()
        record = _records[content] = _real_decode(content)
    return record


def checksum(table: pa.Table) -> str:
    """Return the checksum of a table. It is computed once for each distinct table."""
    return rows.remembered(table, _real_checksum)


def partition_numbers(table: pa.Table, key: tuple[str, ...], *, parts: int) -> Any:
    """Return the real numbers, computed once for each distinct table."""
    return rows.remembered(table, _divide(key, parts))


@cache
def _divide(key: tuple[str, ...], parts: int) -> Any:
    return lambda table: _real_partition_numbers(table, key, parts=parts)


@contextmanager
def installed(codec: Codec) -> Iterator[None]:
    """Let the real modules use the codec of a schedule."""
    attributes = [
        (row_files, "encode_parquet", codec.encode_rows),
        (row_files, "decode_parquet", codec.decode_rows),
        (row_files, "uuid4", codec.uuid4),
        (local_folder, "uuid4", codec.uuid4),
        (write_claims, "uuid4", codec.uuid4),
        (sink_replica, "encode_parquet", codec.encode_rows),
        (staged_batches, "encode_parquet", codec.encode_rows),
        (staged_batches, "decode_parquet", codec.decode_rows),
        (checkpoints, "_encode", codec.encode_position),
        (checkpoints, "_decode", codec.decode_position),
        (output_writer, "checksum", checksum),
        (input_reader, "partition_numbers", partition_numbers),
        (Record, "decode", staticmethod(decode_record)),
    ]
    patches = [patch.object(module, name, value) for module, name, value in attributes]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()
