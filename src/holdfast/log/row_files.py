"""The rows of an epoch: stored as a Parquet file in the log's store, compared by a checksum, divided among tasks by key."""

import io
import zlib
from collections.abc import Callable, Iterable
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.errors import HoldfastError, TrimmedError
from holdfast.log import EpochLog, Record, Store
from holdfast.log.object_names import quoted

Hashes = NDArray[np.uint64]

EPOCH_BITS = 32
"""A query's output of one epoch has fewer than 2 to this power rows."""

DIGITS = 9
"""How many significant digits of a floating-point number count. The order of a sum can change the later ones."""


def write_rows(store: Store, rows: pa.Table, *, folder: str) -> str:
    """Store the rows as a Parquet file with a unique name, and return that name."""
    name, content = f"{folder}/{uuid4().hex}.parquet", encode_parquet(rows)
    # If an object store's first answer was lost, the second attempt reports this very file as existing.
    if not store.create(name, content) and store.read(name) != content:
        raise HoldfastError(f"the log at '{store.root}' already has a file '{name}'; only holdfast may write there")
    return name


def row_folder(stream: str, task: int) -> str:
    """Return the folder of the row files of a task's stream."""
    return f"data/{quoted(stream)}/{task}"


def encode_parquet(rows: pa.Table) -> bytes:
    """Return the rows as the content of a Parquet file, in types that Spark reads."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", coerce_timestamps="us")
    return buffer.getvalue()


def decode_parquet(content: bytes) -> pa.Table:
    """Return the rows in the content of a Parquet file."""
    return pq.read_table(pa.BufferReader(content))


def read_rows(store: Store, name: str) -> pa.Table:
    """Return the rows of a file that `write_rows` stored. Raises HoldfastError if it is missing."""
    content = store.read(name)
    if content is None:
        raise HoldfastError(f"the log at '{store.root}' has lost the file '{name}', which a record names; was it deleted by hand?")
    return decode_parquet(content)


def read_record_rows(store: Store, record: Record) -> list[pa.Table]:
    """Return the rows of a record, one table per file. Raises TrimmedError if they were trimmed since the record was read."""
    try:
        return [read_rows(store, file) for file in record.files]
    except HoldfastError as error:
        if not EpochLog(store).is_trimmed(record):
            raise
        raise TrimmedError(f"epoch {record.epoch} of '{record.stream}' was trimmed while it was read") from error


def checksum(rows: pa.Table) -> str:
    """Return a checksum that ignores the order of the rows and the last digits of floating-point numbers.

    >>> a = pa.table({"seq": [1, 2], "x": [0.1 + 0.2, 5.0]})
    >>> checksum(a) == checksum(pa.table({"seq": [2, 1], "x": [5.0, 0.3]}))
    True
    >>> checksum(a) == checksum(pa.table({"seq": [1, 2], "x": [0.3, 5.1]}))
    False
    """
    total = np.full(rows.num_rows, 0x9E3779B97F4A7C15, np.uint64)
    with np.errstate(over="ignore"):
        for name in sorted(rows.column_names):
            total = _mix_bits(total * np.uint64(31) + _hash_column(rows[name]))
        return f"{rows.num_rows}-{int(np.add.reduce(total, dtype=np.uint64)):016x}"


def combine_checksums(checksums: Iterable[str]) -> str:
    """Return the checksum of all rows from the checksums of their parts.

    >>> whole = pa.table({"seq": [1, 2]})
    >>> combine_checksums([checksum(whole.slice(0, 1)), checksum(whole.slice(1))]) == checksum(whole)
    True
    """
    parts = [part.split("-") for part in checksums]
    return f"{sum(int(rows) for rows, _ in parts)}-{sum(int(total, 16) for _, total in parts) % 2**64:016x}"


def sort_rows(rows: pa.Table) -> pa.Table:
    """Return the rows in the order of seq; without seq, in an order that depends on the rows alone."""
    if "seq" in rows.column_names:
        return rows.sort_by("seq")
    flat = rows
    while any(pa.types.is_struct(field.type) for field in flat.schema):
        flat = flat.flatten()
    columns = [_sortable(flat.column(number)) for number in range(flat.num_columns)]
    names = [str(number) for number in range(len(columns))]
    if rows.num_rows < 2 or not columns:
        return rows
    return rows.take(pc.sort_indices(pa.table(columns, names), sort_keys=[(name, "ascending") for name in names]))


def number_rows(rows: pa.Table, *, epochs_before: int) -> pa.Table:
    """Return an epoch's rows of a query with a column `seq`: the rows are sorted, then numbered from the epoch.

    Every replica and every replay gives a row the same number. `epochs_before` is the number of epochs before this one.
    """
    if "seq" in rows.column_names:
        rows = rows.drop_columns("seq")
    base = (epochs_before << EPOCH_BITS) + 1
    return sort_rows(rows).append_column("seq", pa.array(range(base, base + rows.num_rows), pa.int64()))


def partition_numbers(rows: pa.Table, key: tuple[str, ...], *, parts: int) -> NDArray[np.int64]:
    """Return for each row the number of its part, from 0. It depends only on the key, so every machine and run agrees.

    Planner, profiler, studies and runtime all divide rows with this function.
    """
    if parts == 1:
        return np.zeros(rows.num_rows, np.int64)
    combined = None
    for name in key:
        text = pc.fill_null(_key_texts(rows[name]), "\0")
        combined = text if combined is None else pc.binary_join_element_wise(combined, text, "\x1f")
    if combined is None:
        raise HoldfastError(f"rows cannot be divided into {parts} parts without a key")
    return (_hash_distinct(combined, lambda value: zlib.crc32(str(value).encode())) % np.uint64(parts)).astype(np.int64)


def _key_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a text per value. Values that are one key to Spark have the same text, such as both floating-point zeros."""
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.chunked_array([[None if value is None else repr(value) for value in column.to_pylist()]], pa.string())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())  # the text must not depend on the time zone
    return (pc.add(column, 0.0) if pa.types.is_floating(column.type) else column).cast(pa.string())


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_nested(column.type) or pa.types.is_null(column.type):
        return pa.chunked_array([[None if value is None else repr(value) for value in column.to_pylist()]], pa.string())
    return column


def _hash_column(column: pa.ChunkedArray) -> Hashes:
    if pa.types.is_floating(column.type):
        return _hash_floats(pc.fill_null(column, float("nan")).to_numpy().astype(np.float64))
    if pa.types.is_temporal(column.type) and not pa.types.is_date(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_integer(column.type):
        whole: Hashes = pc.fill_null(column.cast(pa.int64()), -(2**63) + 1).to_numpy().astype(np.int64).view(np.uint64)
        return whole
    return _hash_distinct(column, lambda value: zlib.crc32(repr(value).encode()) * 0x9E3779B1)


def _hash_floats(values: NDArray[np.float64]) -> Hashes:
    """Return hashes that are equal for numbers that agree in the digits that count; both zeros are equal."""
    safe = np.where(np.isfinite(values) & (values != 0), values, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # numbers too small to be scaled stay as they are
        scale = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(safe))))
        scaled = np.round(safe * scale) / scale
    rounded = np.where(np.isfinite(scaled), scaled, safe)
    rounded = np.where(np.isfinite(values), np.where(values == 0, 0.0, rounded), values)
    # Rounding to a power of ten leaves noise in the last bits, which the smaller type drops.
    with np.errstate(over="ignore", under="ignore"):
        bits: Hashes = rounded.astype(np.float32).view(np.uint32).astype(np.uint64)
    return bits


def _hash_distinct(column: pa.ChunkedArray, hash_value: Callable[[object], int]) -> Hashes:
    """Return a hash per row, computed once per distinct value."""
    if pa.types.is_nested(column.type):
        return np.array([zlib.crc32(repr(value).encode()) for value in column.to_pylist()], np.uint64)
    encoded = column.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    values = np.array([hash_value(value) & 0xFFFFFFFFFFFFFFFF for value in encoded.dictionary.to_pylist()] + [0], np.uint64)
    indices = pc.fill_null(encoded.indices, len(values) - 1).to_numpy(zero_copy_only=False)
    hashes: Hashes = values[indices]
    return hashes


def _mix_bits(values: Hashes) -> Hashes:
    """Spread every bit over all others, like the finaliser of a 64-bit hash."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
