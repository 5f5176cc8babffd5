"""How far a replica has read: an epoch, and the kept rows at that epoch."""

from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from holdfast.log.stored_rows import StoredRows

KeptRows: TypeAlias = pa.Table | StoredRows
"""Kept rows of one input or state table: in this process, or in files of the log."""


@dataclass(frozen=True)
class Position:
    """The state of a task after an epoch.

    `after` is the highest seq that the task has read; for a source with a reader it is the last batch. `tainted` is the last epoch
    whose incomplete input still affects the kept rows; None if the rows are clean.
    """

    epoch: int
    kept_rows: dict[str, KeptRows] = field(default_factory=dict)
    after: int = 0
    tainted: int | None = None


def stored_files(position: Position) -> set[str]:
    """Return the files of the log that hold kept rows of a position."""
    return {file for rows in position.kept_rows.values() if isinstance(rows, StoredRows) for file in rows.files}
