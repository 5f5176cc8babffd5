"""Converts the rows of a stream to arrays of numbers, and predicted numbers to rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.prediction.column_roles import EPOCH, SEQ, ColumnRoles
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints


def sort_rows(columns: ColumnRoles, rows: pa.Table) -> pa.Table:
    """Return the rows with the stream's columns, sorted by seq. Raises HoldfastError if a column is missing."""
    missing = [name for name in columns.schema.names if name not in rows.column_names]
    if missing:
        raise HoldfastError(f"rows to learn from lack {', '.join(missing)}; they have: {', '.join(rows.column_names)}")
    table = rows.select(columns.schema.names)
    if SEQ not in columns.schema.names or table.num_rows < 2:
        return table
    seq = table[SEQ].to_numpy()
    return table if (seq[1:] >= seq[:-1]).all() else table.take(pa.array(np.argsort(seq, kind="stable")))


def row_keys(keys: Sequence[str], table: pa.Table) -> list[Hashable]:
    """Return the key of each row: a value, or a tuple for several key columns. All NaN are one key."""
    parts = [_key_values(table[name]) for name in keys]
    if len(parts) == 1:
        return parts[0]
    return list(zip(*parts, strict=True)) if parts else [()] * table.num_rows


def _key_values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return ["NaN" if value != value else value for value in values]  # NaN differs from itself


def number_matrix(columns: ColumnRoles, table: pa.Table) -> Floats:
    """Return the numbers of each row as floats, one column each; NaN for null."""
    values = np.empty((table.num_rows, len(columns.numbers)))
    for number, name in enumerate(columns.numbers):
        values[:, number] = to_floats(table[name])
    return values


def to_floats(column: pa.ChunkedArray) -> Floats:
    """Return a column of numbers as floats; NaN for null."""
    if pa.types.is_float64(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    floats: Floats = column.combine_chunks().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def build_rows(
    columns: ColumnRoles, last: pa.Table, *, epoch: int, numbers: Floats, advancing: Ints, ever_valued: Bools
) -> pa.Table:
    """Return predicted rows in the stream's schema, sorted by seq. `last` has the keys and carried columns of each row.

    A nullable advancing column that never had a value (`ever_valued`) stays null.
    """
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {name: last[name] for name in last.column_names}
    size = len(numbers)
    for index, (name, whole) in enumerate(zip(columns.numbers, columns.whole, strict=True)):
        arrays[name] = _number_array(numbers[:, index], columns.schema.field(name), whole=whole)
    for index, name in enumerate(columns.advancing):
        field = columns.schema.field(name)
        has_value = ever_valued[index] or not field.nullable
        arrays[name] = pa.array(advancing[:, index]).cast(field.type) if has_value else pa.nulls(size, field.type)
    for name in columns.blank:
        arrays[name] = pa.nulls(size, columns.schema.field(name).type)
    if EPOCH in columns.schema.names:
        arrays[EPOCH] = pa.array(np.full(size, epoch), columns.schema.field(EPOCH).type)
    table = pa.table([arrays[name] for name in columns.schema.names], schema=columns.schema)
    if SEQ not in columns.advancing:
        return table
    order = np.argsort(advancing[:, columns.advancing.index(SEQ)], kind="stable")
    return table.take(pa.array(order))


def spread_seqs(seq: Ints, seqs: tuple[int, int]) -> None:
    """Spread a column of seqs evenly over a range, in place and in the order they have: after its first and up to its last seq."""
    order = np.argsort(seq, kind="stable")
    after, last = seqs
    count = max(1, len(seq))
    seq[order] = after + ((np.arange(len(seq)) + 1) * (last - after) + count - 1) // count


def _number_array(values: Floats, field: pa.Field, *, whole: bool) -> pa.Array:
    """Return the values in the column's type, clipped to its range. NaN becomes null if the column is nullable."""
    if whole:
        limits = np.iinfo(field.type.to_pandas_dtype())
        most = float(limits.max)
        values = np.clip(np.rint(values), float(limits.min), most if most <= limits.max else np.nextafter(most, 0))
    elif pa.types.is_decimal(field.type):
        above = 10.0 ** (field.type.precision - field.type.scale)
        most = min(above - 10.0**-field.type.scale, np.nextafter(above, 0))
        values = np.clip(np.round(values, field.type.scale), -most, most)
    else:
        most = float(np.finfo(field.type.to_pandas_dtype()).max)
        values = np.clip(values, -most, most)
    if field.nullable:
        return pa.array(values, from_pandas=True).cast(field.type, safe=False)
    if not pa.types.is_floating(field.type):
        values = np.nan_to_num(values)
    return pa.array(values).cast(field.type, safe=False)


class SlotIndex:
    """The slot of each key, in the order in which keys were added. Keys that come in the same order again cost little."""

    def __init__(self, keys: Sequence[Hashable] = ()) -> None:
        self._slots: dict[Hashable, int] = {key: slot for slot, key in enumerate(keys)}
        self._recent: tuple[Sequence[Hashable], Ints] | None = None

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def keys(self) -> list[Hashable]:
        return list(self._slots)

    def add(self, keys: Sequence[Hashable]) -> Ints:
        """Return the slots of these keys. New keys get the next ones."""
        if self._recent is None or self._recent[0] != keys:
            slots = np.fromiter((self._slots.setdefault(key, len(self._slots)) for key in keys), np.int64, count=len(keys))
            self._recent = keys, slots
        return self._recent[1]

    def find(self, keys: Sequence[Hashable]) -> Ints:
        """Return the slots of these keys; -1 for unknown ones."""
        if self._recent is not None and self._recent[0] == keys:
            return self._recent[1]
        return np.fromiter((self._slots.get(key, -1) for key in keys), np.int64, count=len(keys))
