"""The Parquet files of a sink: one file per epoch, which a correction replaces in one step.

Every reader of the folder therefore sees each epoch once, in its newest version. Spark ignores names that begin with `_`: the
folder `_first` has the first outputs that were not exact, and `_corrected` an empty object for each epoch that was corrected.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store
from holdfast.log.object_names import quoted

OutputVersion = Literal["newest", "first", "exact"]

FILE_NAME = re.compile(r"(?:(_first|_corrected)/)?(\d{20})(?:\.(tentative|predicted|absent))?(?:\.parquet)?")
"""A name in a sink's folder: its folder, its epoch, and the quality of a first output."""


@dataclass(frozen=True)
class OutputFile:
    """One file of a sink."""

    name: str
    epoch: int
    quality: Quality


def write_first(out: Store, sink: str, epoch: int, quality: Quality, rows: bytes) -> bool:
    """Store the first output of an epoch. Return whether this call stored it. A delayed call changes nothing."""
    if quality is not Quality.EXACT:
        out.create(f"{quoted(sink)}/_first/{epoch:020d}.{quality.value}.parquet", rows)
    return out.create(f"{quoted(sink)}/{epoch:020d}.parquet", rows)


def write_correction(out: Store, sink: str, epoch: int, rows: bytes) -> bool:
    """Replace the first output of an epoch. Return whether this call is the first to replace it.

    A delayed call replaces the rows by themselves, because all replicas read them from the same final records.
    """
    out.replace(f"{quoted(sink)}/{epoch:020d}.parquet", rows)
    return out.create(f"{quoted(sink)}/_corrected/{epoch:020d}", b"")


def list_output_files(out: Store, sink: str, *, which: OutputVersion = "newest") -> list[OutputFile]:
    """Return the files of a sink's output, by epoch.

    `newest`: the correction of each epoch if there is one, else its first output. `first`: the first output, never a correction.
    `exact`: only epochs that are exact by now.
    """
    if which not in ("newest", "first", "exact"):
        raise HoldfastError(f"a sink's output is read as 'newest', 'first' or 'exact', got '{which}'")
    folder = f"{quoted(sink)}/"
    newest: dict[int, OutputFile] = {}
    first: dict[int, OutputFile] = {}
    corrected_epochs: set[int] = set()
    for name in out.names(folder):
        match = FILE_NAME.fullmatch(name.removeprefix(folder))
        if match is None:
            continue
        epoch = int(match[2])
        if match[1] == "_corrected":
            corrected_epochs.add(epoch)
        else:
            (first if match[1] else newest)[epoch] = OutputFile(name, epoch, Quality(match[3] or "exact"))
    files = []
    for epoch, file in sorted(newest.items()):
        if epoch in first and which == "first":
            file = first[epoch]
        elif epoch in first and epoch not in corrected_epochs:
            file = replace(file, quality=first[epoch].quality)
        if which != "exact" or file.quality is Quality.EXACT:
            files.append(file)
    return files


def read_output(out: str | Path | Store, sink: str, *, which: OutputVersion = "newest", until: int | None = None) -> pa.Table:
    """Return the rows of a sink in the order of epochs, up to an epoch, with a column for their quality; an empty table if there
    are none."""
    store = out if isinstance(out, Store) else Store(out, what="output")
    tables = []
    for file in list_output_files(store, sink, which=which):
        if until is not None and file.epoch > until:
            break
        rows = pq.read_table(pa.BufferReader(store.read(file.name) or b""))
        tables.append(rows.append_column("quality", pa.array([file.quality.value] * rows.num_rows, pa.string())))
    return pa.concat_tables(tables) if tables else pa.table({})
