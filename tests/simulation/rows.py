"""Rows as tuples and as Arrow tables. Equal tables are one object, so that what is computed from them is computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

Row = tuple[int, int, int, int]
"""The seq, the key, the value and the epoch of a row."""

NAMES = ("seq", "key", "value", "epoch")
SCHEMA = pa.schema({name: pa.int64() for name in NAMES})
DDL = "seq long, time timestamp, key long, value long"
LIMIT = 200_000

_tables: dict[tuple[Row, ...], pa.Table] = {}
_contents: dict[int, tuple[Row, ...]] = {}
_remembered: dict[tuple[int, Any], Any] = {}
EMPTY = SCHEMA.empty_table()


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
        content = tuple(zip(*(table.column(name).to_pylist() for name in NAMES), strict=True))
    return content


def intern(table: pa.Table) -> pa.Table:
    """Return the table that stands for all equal ones."""
    if id(table) in _contents or not table.schema.equals(SCHEMA):
        return table
    return to_table(to_rows(table))


def remembered(table: pa.Table, function: Callable[[pa.Table], Any]) -> Any:
    """Return what a pure function returns for a table. Interned tables are asked about once."""
    if id(table) not in _contents:
        if not table.schema.equals(SCHEMA):
            return function(table)
        table = to_table(to_rows(table))
    key = id(table), function
    if key not in _remembered:
        _remembered[key] = function(table)
    return _remembered[key]


def limit_memory() -> None:
    """Forget all tables if there are many. Call it only between two schedules."""
    if len(_tables) > LIMIT:
        _tables.clear()
        _contents.clear()
        _remembered.clear()
