"""Writes an endless sequence of blocks as a trace of one file."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from holdfast.errors import TraceError
from holdfast.trace.popularity import Ints
from holdfast.trace.seeds import check_seed
from holdfast.trace.trace_account import Progress, RateMeter, Written
from holdfast.trace.trace_files import TIME, RowGroups, fresh_file

BLOCK = 65_536


class Generator(Protocol):
    """One kind of trace: its columns, and its rows without end."""

    @property
    def kind(self) -> str: ...

    @property
    def columns(self) -> tuple[pa.Field, ...]:
        """The columns after seq and time."""

    def blocks(self, seed: int) -> Iterator[pa.Table]:
        """Tables of `time` and the columns, in order of time. They depend on the seed, not on how many are asked for."""

    def count(self, table: pa.Table) -> dict[str, int]:
        """How many of the table's rows have each property whose share is worth reporting."""


def schema_of(columns: tuple[pa.Field, ...]) -> pa.Schema:
    """The schema of a stream: seq and time first."""
    return pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("time", TIME, nullable=False), *columns])


def check_events(events: int) -> int:
    """The number itself, if a trace can have so many rows."""
    if events < 1:
        raise TraceError(f"a trace has at least 1 event, not {events}")
    return events


def write_stream(generator: Generator, path: Path, *, events: int, seed: int, force: bool, progress: Progress) -> Written:
    """Writes the first `events` rows of a generator to `path`; returns the account."""
    check_events(events)
    check_seed(seed)
    began, rows, rate, counts = time.perf_counter(), 0, RateMeter(), Counter[str]()
    schema = schema_of(generator.columns)
    with fresh_file(path, force=force) as part:
        with RowGroups(part, schema) as file:
            for block in generator.blocks(seed):
                table = block.slice(0, events - rows)
                seq = pa.array(np.arange(rows + 1, rows + 1 + table.num_rows))
                file.add(table.add_column(0, "seq", seq).cast(schema))
                rate.add(times_us(table))
                counts.update(generator.count(table))
                rows += table.num_rows
                progress(rows)
                if rows == events:
                    break
        size_bytes = part.stat().st_size
    shares = {f"{name}_share": met / rows for name, met in counts.items()}
    return Written(generator.kind, path, seed, rows, time.perf_counter() - began, size_bytes, rate.statistics() | shares)


def time_column(time_us: Ints) -> pa.Array:
    """Microseconds since 1970 as a column of times in UTC."""
    return pa.array(time_us).view(TIME)


def times_us(table: pa.Table) -> Ints:
    """A table's column of times as microseconds since 1970."""
    return np.asarray(table["time"].combine_chunks().view(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)


def strings(codes: Ints, names: pa.Array) -> pa.Array:
    """The column of names that the codes stand for."""
    return names.take(pa.array(codes))
