"""Rows in files of the log: what a process needs to know of rows that another process has written."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.log import Store
from holdfast.log.row_files import checksum, combine_checksums, read_rows, write_rows

NO_ROWS = "0-0000000000000000"


@dataclass(frozen=True)
class StoredRows:
    """Files of rows, with the number, the bounds of the seqs and the checksum of all their rows."""

    files: tuple[str, ...] = ()
    rows: int = 0
    checksum: str = NO_ROWS
    first_seq: int | None = None
    last_seq: int | None = None

    @property
    def num_rows(self) -> int:
        """The number of rows, as a table calls it."""
        return self.rows


def store_rows(store: Store, rows: pa.Table, *, folder: str) -> StoredRows:
    """Write rows as one file in a folder of the store, or none if there are no rows."""
    files = (write_rows(store, rows, folder=folder),) if rows.num_rows else ()
    return StoredRows(files, rows.num_rows, checksum(rows), *_seq_bounds(rows))


def load_rows(store: Store, stored: StoredRows) -> pa.Table:
    """Return stored rows as a table; without columns if there are no files."""
    return pa.concat_tables([read_rows(store, file) for file in stored.files]) if stored.files else pa.table({})


def join_stored(parts: Iterable[StoredRows]) -> StoredRows:
    """Return all parts as one."""
    parts = list(parts)
    return StoredRows(
        files=tuple(file for part in parts for file in part.files),
        rows=sum(part.rows for part in parts),
        checksum=combine_checksums(part.checksum for part in parts),
        first_seq=min((part.first_seq for part in parts if part.first_seq is not None), default=None),
        last_seq=max((part.last_seq for part in parts if part.last_seq is not None), default=None),
    )


def _seq_bounds(rows: pa.Table) -> tuple[int | None, int | None]:
    if not rows.num_rows or "seq" not in rows.column_names or not pa.types.is_integer(rows.schema.field("seq").type):
        return None, None
    bounds = pc.min_max(rows["seq"]).as_py()
    return bounds["min"], bounds["max"]
