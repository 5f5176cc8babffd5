"""Compare two tables as bags of rows and find the first difference."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

DIGITS = 1e-9
"""The allowed relative difference of two floating-point sums of the same numbers in different order."""

CANCELLED = 1e-12
"""The allowed difference relative to the largest value of the column, for values from which subtraction cancelled most digits."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """The first row, in the order of seq, that only one table has. `left` or `right` is None if that table has no such row."""

    seq: int
    left: Row | None
    right: Row | None


def first_difference(left: pa.Table, right: pa.Table) -> Difference | None:
    """Return the first difference of two tables as bags of rows, or None. Rounding differences of floats are ignored.

    >>> a = pa.table({"seq": [1, 2], "x": [0.1 + 0.2, 5.0]})
    >>> first_difference(a, pa.table({"seq": [2, 1], "x": [5.0, 0.3]})) is None
    True
    >>> first_difference(a, pa.table({"seq": [1], "x": [0.3]})).left
    {'seq': 2, 'x': 5.0}
    """
    one, other = _ordered(left), _ordered(right.select(left.column_names).cast(left.schema))
    slack = {field.name: CANCELLED * _size(one[field.name]) for field in one.schema if pa.types.is_floating(field.type)}
    common = min(one.num_rows, other.num_rows)
    apart = np.flatnonzero(~_equal(one.slice(0, common), other.slice(0, common), slack))
    seqs = one["seq"].to_numpy(), other["seq"].to_numpy()
    start = 0  # both tables have the same rows before this index
    while True:
        later = apart[np.searchsorted(apart, start) :]
        if len(later) == 0 and one.num_rows == other.num_rows:
            return None
        at = int(later[0]) if len(later) else common
        seq = min(int(column[at]) for column in seqs if at < len(column))
        start = int(np.searchsorted(seqs[0], seq))
        ends = [int(np.searchsorted(column, seq, "right")) for column in seqs]
        mine, theirs = _unmatched(one.slice(start, ends[0] - start), other.slice(start, ends[1] - start), slack)
        if mine or theirs:
            return Difference(seq, mine, theirs)
        start = ends[0]


def _ordered(table: pa.Table) -> pa.Table:
    """Return the rows sorted by seq and epoch, then by exact columns, then by floats.

    Equal bags have the same order, except for rows that differ only by rounding or in nested values.
    """
    flat = [field.name for field in table.schema if _exact(field.type)]
    floating = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    names = sorted(flat, key=lambda name: (name != "seq", name != "epoch", name)) + floating
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


def _exact(kind: pa.DataType) -> bool:
    tests = ("is_integer", "is_boolean", "is_string", "is_large_string", "is_binary", "is_decimal", "is_date", "is_timestamp")
    return any(getattr(pa.types, test)(kind) for test in tests)


def _size(column: pa.ChunkedArray) -> float:
    """Return the largest absolute finite value of a column."""
    values = column.to_numpy().astype(float)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _equal(one: pa.Table, other: pa.Table, slack: Mapping[str, float]) -> NDArray[np.bool_]:
    """Return for each index whether the two rows are equal."""
    equal = np.ones(one.num_rows, bool)
    for field in one.schema:
        a, b = one[field.name], other[field.name]
        null = pc.is_null(a).to_numpy(), pc.is_null(b).to_numpy()
        if field.name in slack:  # nulls become NaN
            close = np.isclose(a.to_numpy(), b.to_numpy(), rtol=DIGITS, atol=slack[field.name], equal_nan=True)
            equal &= close & (null[0] == null[1])
        elif _exact(field.type):
            equal &= pc.fill_null(pc.equal(a, b), False).to_numpy() | (null[0] & null[1])
        else:
            equal &= np.fromiter(map(_alike, a.to_pylist(), b.to_pylist()), bool, one.num_rows)
    return equal


def _alike(a: Any, b: Any, slack: float = CANCELLED) -> bool:
    """Return whether two values, possibly nested, are equal up to rounding."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=DIGITS, abs_tol=slack) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return bool(a == b)


def _unmatched(one: pa.Table, other: pa.Table, slack: Mapping[str, float]) -> tuple[Row | None, Row | None]:
    """Return the first row of each table without a counterpart in the other. The order of the rows does not matter."""
    exact = [field.name for field in one.schema if _exact(field.type)]
    theirs = other.to_pylist()
    candidates: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(theirs):
        candidates[tuple(row[name] for name in exact)].append(place)
    lost: Row | None = None
    for row in one.to_pylist():
        places = candidates[tuple(row[name] for name in exact)]
        matches = (p for p in places if all(_alike(v, theirs[p][name], slack.get(name, CANCELLED)) for name, v in row.items()))
        match = next(matches, None)
        if match is not None:
            places.remove(match)
        else:
            lost = lost or row
    spare = sorted(place for places in candidates.values() for place in places)
    return lost, theirs[spare[0]] if spare else None
