"""Rows as tuples and as Arrow tables. Equal tables are one object, so that what is computed from them is computed once."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.log import row_files

Row = tuple[int, int, int, int]
"""The seq, the key, the value and the epoch of a row."""

NAMES = ("seq", "key", "value", "epoch")
SCHEMA = pa.schema({name: pa.int64() for name in NAMES})
DDL = "seq long, time timestamp, key long, value long"
LIMIT = 200_000

_tables: dict[tuple[Row, ...], pa.Table] = {}
_contents: dict[int, tuple[Row, ...]] = {}
_remembered: dict[tuple[object, ...], Any] = {}
EMPTY = SCHEMA.empty_table()
_calls = count(1)


def to_table(content: tuple[Row, ...]) -> pa.Table:
    """Return the table with these rows."""
    table = _tables.get(content)
    if table is None:
        columns = list(zip(*content, strict=True)) or [()] * len(NAMES)
        table = pa.Table.from_arrays([pa.array(column, pa.int64()) for column in columns], schema=SCHEMA)
        _tables[content] = table
        _contents[id(table)] = content
    return table


def to_rows(table: pa.Table) -> tuple[Row, ...]:
    """Return the rows of a table."""
    content = _contents.get(id(table))
    if content is None:
        content = tuple(zip(*(table.column(name).to_numpy().tolist() for name in NAMES), strict=True))
    return content


def intern(table: pa.Table) -> pa.Table:
    """Return the table that stands for all equal ones."""
    if id(table) in _contents or not table.schema.equals(SCHEMA):
        return table
    return to_table(to_rows(table))


def remembered(real: object, tables: tuple[pa.Table, ...], about: object, call: Callable[..., Any]) -> Any:
    """Return what a pure function returns for some tables and other arguments. It is called once for equal ones.

    `real` identifies the function. Tables with other columns than SCHEMA are not remembered.
    """
    interned = [intern(table) for table in tables]
    if not all(id(table) in _contents for table in interned):
        return call(*tables)
    key = real, about, *map(id, interned)
    if key not in _remembered:
        result = call(*interned)
        _remembered[key] = intern(result) if isinstance(result, pa.Table) else result
    return _remembered[key]


def checksum(table: pa.Table) -> str:
    """Return a checksum that ignores the order of rows."""
    content = sorted(to_rows(table))
    return f"{len(content)}-{hash(tuple(content)) % 2**64:016x}"  # a hash of numbers is the same in every process


def seq_bounds(table: pa.Table) -> tuple[int | None, int | None]:
    """Return the lowest and highest seq."""
    seqs = [row[0] for row in to_rows(table)]
    return min(seqs, default=None), max(seqs, default=None)


def partition_numbers(table: pa.Table, key: tuple[str, ...], *, parts: int) -> NDArray[np.int64]:
    """Return the real numbers. The number of each key is computed once."""
    (name,) = key
    return np.array([_part_of(value, parts) for value in table[name].to_numpy().tolist()], np.int64)


@cache
def _part_of(value: int, parts: int) -> int:
    return int(row_files.partition_numbers(pa.table({"key": [value]}), ("key",), parts=parts)[0])


def limit_memory() -> None:
    """Forget all tables if there are many. Call it only between two schedules.

    Collect garbage only here, now and then: a schedule keeps most of what it allocates to its end.
    """
    gc.disable()
    if next(_calls) % 20 == 0:
        gc.collect()
        gc.freeze()  # the next collection does not look at what remains
    if len(_tables) + len(_remembered) > LIMIT:
        _tables.clear()
        _contents.clear()
        _remembered.clear()
