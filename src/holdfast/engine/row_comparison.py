"""Whether two tables hold the same rows, and where they first part."""

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
"""How far two floating-point sums of the same numbers in another order may lie apart, relative to their size."""

CANCELLED = 1e-12
"""How far they may lie apart where a difference has cancelled most of their size, relative to the largest of the column."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """The first row, in the order of seq, that one table has and the other has not; None where it has no such row."""

    seq: int
    left: Row | None
    right: Row | None


def first_difference(left: pa.Table, right: pa.Table) -> Difference | None:
    """Compare two tables as bags of rows; floating-point columns may differ in the last digits that order of summation moves.

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
    start = 0  # before this place both tables hold the same rows
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
    """The rows by seq and epoch, then by what can be compared exactly, then by the rest: equal bags come out alike but for rows
    that only last digits or nested values tell apart."""
    flat = [field.name for field in table.schema if _exact(field.type)]
    floating = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    names = sorted(flat, key=lambda name: (name != "seq", name != "epoch", name)) + floating
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


def _exact(kind: pa.DataType) -> bool:
    tests = ("is_integer", "is_boolean", "is_string", "is_large_string", "is_binary", "is_decimal", "is_date", "is_timestamp")
    return any(getattr(pa.types, test)(kind) for test in tests)


def _size(column: pa.ChunkedArray) -> float:
    """The largest finite value of a column, whatever its sign."""
    values = column.to_numpy().astype(float)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _equal(one: pa.Table, other: pa.Table, slack: Mapping[str, float]) -> NDArray[np.bool_]:
    """For each place whether the two rows there are equal."""
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
    """Equality of values however deep, with the same leave for last digits."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=DIGITS, abs_tol=slack) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_alike, a, b))
    return bool(a == b)


def _unmatched(one: pa.Table, other: pa.Table, slack: Mapping[str, float]) -> tuple[Row | None, Row | None]:
    """The first row of each table that has no counterpart in the other, where order does not tell which belong together."""
    exact = [field.name for field in one.schema if _exact(field.type)]
    theirs = other.to_pylist()
    waiting: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, row in enumerate(theirs):
        waiting[tuple(row[name] for name in exact)].append(place)
    lost: Row | None = None
    for row in one.to_pylist():
        places = waiting[tuple(row[name] for name in exact)]
        matches = (p for p in places if all(_alike(v, theirs[p][name], slack.get(name, CANCELLED)) for name, v in row.items()))
        found = next(matches, None)
        if found is not None:
            places.remove(found)
        else:
            lost = lost or row
    spare = sorted(place for places in waiting.values() for place in places)
    return lost, theirs[spare[0]] if spare else None
