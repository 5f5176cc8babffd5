"""Writes trace files row group by row group, so that a trace exists completely or not at all."""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import TraceError

ROW_GROUP = 262_144
TIME = pa.timestamp("us", tz="UTC")


class RowGroups:
    """Writes a Parquet file and holds at most one row group in memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._schema, self._waiting, self._rows = schema, list[pa.Table](), 0
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", compression_level=1)

    def add(self, table: pa.Table) -> None:
        self._waiting.append(table)
        self._rows += table.num_rows
        while self._rows >= ROW_GROUP:
            whole = pa.concat_tables(self._waiting)
            self._writer.write_table(whole.slice(0, ROW_GROUP).combine_chunks(), row_group_size=ROW_GROUP)
            self._waiting = [whole.slice(ROW_GROUP)]
            self._rows -= ROW_GROUP

    def __enter__(self) -> "RowGroups":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None and self._rows:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks(), row_group_size=ROW_GROUP)
        self._writer.close()


@contextmanager
def fresh_file(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a hidden file next to `path`. It becomes `path` when the block succeeds, and is removed otherwise."""
    if path.is_dir():
        raise TraceError(f"{path} is a folder, and this trace is one file: name a file, such as {path / 'trace.parquet'}")
    check_free(path, force)
    with explain_errors(path):
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        with explain_errors(path):
            yield part / path.name
            flush(part / path.name)
            (part / path.name).replace(path)
            flush(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def check_free(path: Path, force: bool) -> None:
    """Raise TraceError unless a trace can be written to `path`."""
    if not path.parent.is_dir():
        raise TraceError(f"the folder {path.parent} of the trace {path.name} does not exist: create it, or write elsewhere")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise TraceError(f"the folder {path.parent} of the trace {path.name} cannot be written to: choose another")
    if path.exists() and not force:
        raise TraceError(f"{path} exists already: use --force to replace it, or write elsewhere")


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Turn a file system error into one that states what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            free = shutil.disk_usage(path.parent).free
            raise TraceError(
                f"no room for the trace {path} ({error.strerror or error}; {free / 1e6:,.0f} MB free): nothing was written; "
                "free some space, give fewer --events or write elsewhere"
            ) from error
        raise TraceError(f"the trace {path} could not be written ({error.strerror or error}): nothing was written") from error


def flush(path: Path) -> None:
    """Flush a file or folder to disk, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
