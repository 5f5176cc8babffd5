"""Select the rows that an operator keeps under its rule. Works on Arrow tables, without Spark."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.app import Keep, LastRows
from holdfast.engine.epochs import Span

Kept = dict[str, pa.Table]
"""The state of a PE at an epoch: the kept rows of each stateful input, and the state tables."""


def still_needed(rows: pa.Table, rule: Keep, span: Span) -> pa.Table:
    """Return the rows of an input, kept and new, that epochs after the span still depend on.

    >>> from holdfast.app import last_rows
    >>> trades = pa.table({"seq": [1, 2, 3, 4], "ticker": ["A", "B", "A", "A"]})
    >>> still_needed(trades, last_rows(2, by="ticker"), Span(0, 0, 0, 4)).column("seq").to_pylist()
    [2, 3, 4]
    """
    return rows.filter(is_needed(rows, rule, span))


def is_needed(rows: pa.Table, rule: Keep, span: Span) -> pa.Array | pa.ChunkedArray:
    """Return for each row of an input whether epochs after the span still depend on it."""
    if isinstance(rule, LastRows):
        return pa.array(_ages(rows, rule.by) <= rule.n)
    return pc.greater(rows["epoch"], span.last - rule.n)


def rows_of(table: pa.Table, span: Span) -> pa.Table:
    """Return the rows of a stream that belong to a span."""
    return table.filter(is_inside(table, span))


def is_inside(table: pa.Table, span: Span) -> pa.ChunkedArray:
    """Return for each row of a stream whether it belongs to a span."""
    name, low, high = ("epoch", span.first, span.last) if "epoch" in table.column_names else ("seq", span.after + 1, span.until)
    return pc.fill_null(pc.and_(pc.greater_equal(table[name], low), pc.less_equal(table[name], high)), False)


def rows_added(rows: pa.Table, span: Span) -> pa.Table:
    """Return the rows that a span adds to a stream, selected by epoch if there is that column, otherwise by seq."""
    if "epoch" in rows.column_names:
        inside = pc.and_(pc.greater_equal(rows["epoch"], span.first), pc.less_equal(rows["epoch"], span.last))
        return rows.filter(inside)
    return rows.filter(pc.greater(rows["seq"], span.after))


def _ages(rows: pa.Table, by: tuple[str, ...]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return for each row how many rows of its key are newer, plus 1. Rows with the same seq have the same age."""
    count = rows.num_rows
    if count == 0:
        return np.zeros(0, np.int64)
    seq = rows["seq"].to_numpy()
    key = _codes(rows, by)
    order = np.lexsort((-seq, key))
    place = np.arange(count)
    starts_key = np.r_[True, key[order][1:] != key[order][:-1]]
    starts_seq = starts_key | np.r_[True, seq[order][1:] != seq[order][:-1]]
    first_of_key = np.maximum.accumulate(np.where(starts_key, place, 0))
    first_of_seq = np.maximum.accumulate(np.where(starts_seq, place, 0))
    ages = np.empty(count, np.int64)
    ages[order] = first_of_seq - first_of_key + 1
    return ages


def _codes(rows: pa.Table, by: tuple[str, ...]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return a number per row. Rows have the same number if their key columns are equal."""
    codes = np.zeros(rows.num_rows, np.int64)
    for name in by:
        column = rows[name]
        if pa.types.is_nested(column.type):  # Arrow cannot encode nested values
            column = pa.chunked_array(
                [pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())]
            )
        encoded = column.combine_chunks().dictionary_encode()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        values = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        codes = np.unique(codes * (values.max() + 1) + values, return_inverse=True)[1].astype(np.int64)
    return codes
