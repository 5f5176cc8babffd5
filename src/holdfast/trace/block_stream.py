"""Writes the blocks of a generator as a trace of one file."""

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
from holdfast.trace.trace_files import TIME, RowGroups, fresh_file
from holdfast.trace.trace_summary import Progress, RateMeter, TraceSummary

BLOCK = 65_536


class Generator(Protocol):
    """A kind of trace: its columns, and an endless sequence of rows."""

    @property
    def kind(self) -> str: ...

    @property
    def columns(self) -> tuple[pa.Field, ...]:
        """The columns after seq and time."""

    def blocks(self, seed: int) -> Iterator[pa.Table]:
        """Yield tables with `time` and the columns, sorted by time. They depend only on the seed."""

    def count(self, table: pa.Table) -> dict[str, int]:
        """Return how many of the table's rows have each property whose share the summary reports."""


def schema_of(columns: tuple[pa.Field, ...]) -> pa.Schema:
    """Return the schema of a stream: seq and time, then the columns."""
    return pa.schema([pa.field("seq", pa.int64(), nullable=False), pa.field("time", TIME, nullable=False), *columns])


def check_events(events: int) -> int:
    """Return the number of events if it is positive. Raises TraceError otherwise."""
    if events < 1:
        raise TraceError(f"a trace has at least 1 event, not {events}")
    return events


def write_stream(generator: Generator, path: Path, *, events: int, seed: int, force: bool, progress: Progress) -> TraceSummary:
    """Write the first `events` rows of a generator to `path` and return the summary."""
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
    shares = {f"{name}_share": count / rows for name, count in counts.items()}
    return TraceSummary(generator.kind, path, seed, rows, time.perf_counter() - began, size_bytes, rate.statistics() | shares)


def time_column(time_us: Ints) -> pa.Array:
    """Return microseconds since 1970 as a column of times in UTC."""
    return pa.array(time_us).view(TIME)


def times_us(table: pa.Table) -> Ints:
    """Return a table's times as microseconds since 1970."""
    return np.asarray(table["time"].combine_chunks().view(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)


def strings(codes: Ints, names: pa.Array) -> pa.Array:
    """Return the column of names for these codes."""
    return names.take(pa.array(codes))
