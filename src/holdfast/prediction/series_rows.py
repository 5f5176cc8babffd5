"""Between a stream's rows and the numbers of its series."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.prediction.column_roles import EPOCH, SEQ, Columns
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints


def ordered(columns: Columns, rows: pa.Table) -> pa.Table:
    """The rows with the stream's columns, in order of seq. Raises HoldfastError if a column is missing."""
    missing = [name for name in columns.schema.names if name not in rows.column_names]
    if missing:
        raise HoldfastError(f"rows to learn from lack {', '.join(missing)}; they have: {', '.join(rows.column_names)}")
    table = rows.select(columns.schema.names)
    if SEQ not in columns.schema.names or table.num_rows < 2:
        return table
    seq = table[SEQ].to_numpy()
    return table if (seq[1:] >= seq[:-1]).all() else table.take(pa.array(np.argsort(seq, kind="stable")))


def keys_of(keys: Sequence[str], table: pa.Table) -> list[Hashable]:
    """The key of each row: a value, or a tuple of several; NaN is one key and not as many as there are rows."""
    parts = [_plain(table[name]) for name in keys]
    if len(parts) == 1:
        return parts[0]
    return list(zip(*parts, strict=True)) if parts else [()] * table.num_rows


def _plain(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if not pa.types.is_floating(column.type):
        return values
    return ["NaN" if value != value else value for value in values]  # NaN alone differs from itself


def numbers_of(columns: Columns, table: pa.Table) -> Floats:
    """The numbers of each row as floats, a column each; NaN for null."""
    values = np.empty((table.num_rows, len(columns.numbers)))
    for number, name in enumerate(columns.numbers):
        values[:, number] = floats_of(table[name])
    return values


def floats_of(column: pa.ChunkedArray) -> Floats:
    """A column of numbers as floats; NaN for null."""
    floats: Floats = column.combine_chunks().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def written(columns: Columns, last: pa.Table, *, epoch: int, numbers: Floats, advancing: Ints, told: Bools) -> pa.Table:
    """Predicted rows in the stream's schema and in order of seq: `last` has keys and carried columns, a row for each.

    An advancing column of which nothing was ever `told` stays without a value, where it may.
    """
    made: dict[str, pa.Array | pa.ChunkedArray] = {name: last[name] for name in last.column_names}
    size = len(numbers)
    for place, (name, whole) in enumerate(zip(columns.numbers, columns.whole, strict=True)):
        made[name] = _numbers(numbers[:, place], columns.schema.field(name), whole=whole)
    for place, name in enumerate(columns.advancing):
        field = columns.schema.field(name)
        known = told[place] or not field.nullable
        made[name] = pa.array(advancing[:, place]).cast(field.type) if known else pa.nulls(size, field.type)
    for name in columns.blank:
        made[name] = pa.nulls(size, columns.schema.field(name).type)
    if EPOCH in columns.schema.names:
        made[EPOCH] = pa.array(np.full(size, epoch), columns.schema.field(EPOCH).type)
    table = pa.table([made[name] for name in columns.schema.names], schema=columns.schema)
    if SEQ not in columns.advancing:
        return table
    order = np.argsort(advancing[:, columns.advancing.index(SEQ)], kind="stable")
    return table.take(pa.array(order))


def spread(seq: Ints, seqs: tuple[int, int]) -> None:
    """Put a column of seqs evenly over a range, in the order it had: after its first and up to its last."""
    order = np.argsort(seq, kind="stable")
    after, last = seqs
    count = max(1, len(seq))
    seq[order] = after + ((np.arange(len(seq)) + 1) * (last - after) + count - 1) // count


def _numbers(values: Floats, field: pa.Field, *, whole: bool) -> pa.Array:
    """The values in the column's own type: whole where it is, in its range, null where there is none and there may be, else NaN."""
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
