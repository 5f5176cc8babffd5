"""The Parquet files of a sink: one file per epoch as it was in time, and a second one if the epoch was corrected."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store
from holdfast.log.object_names import quoted

OutputVersion = Literal["newest", "first", "exact"]

FILE_NAME = re.compile(r"(\d{20})\.(first|final)\.(\w+)\.parquet")


@dataclass(frozen=True)
class OutputFile:
    """One file of a sink."""

    name: str
    epoch: int
    kind: str
    quality: Quality


def list_output_files(out: Store, sink: str, *, which: OutputVersion = "newest") -> list[OutputFile]:
    """Return the files of a sink's output, by epoch.

    `newest`: the correction of each epoch if there is one, else its first output. `first`: the first output, never a correction.
    `exact`: only epochs that are exact by now.
    """
    if which not in ("newest", "first", "exact"):
        raise HoldfastError(f"a sink's output is read as 'newest', 'first' or 'exact', got '{which}'")
    by_epoch: dict[int, OutputFile] = {}
    for name in sorted(out.names(f"{quoted(sink)}/")):
        match = FILE_NAME.fullmatch(name.rsplit("/", 1)[1])
        if match is None:
            continue
        file = OutputFile(name, int(match[1]), match[2], Quality(match[3]))
        if which == "first" and file.kind == "final":
            continue
        if which == "exact" and file.quality is not Quality.EXACT:
            continue
        if file.epoch not in by_epoch or file.kind == "final":
            by_epoch[file.epoch] = file
    return [by_epoch[epoch] for epoch in sorted(by_epoch)]


def read_output(out: str | Path | Store, sink: str, *, which: OutputVersion = "newest") -> pa.Table:
    """Return the rows of a sink in the order of epochs, with a column for their quality; an empty table if there are none."""
    store = out if isinstance(out, Store) else Store(out, what="output")
    tables = []
    for file in list_output_files(store, sink, which=which):
        rows = pq.read_table(pa.BufferReader(store.read(file.name) or b""))
        tables.append(rows.append_column("quality", pa.array([file.quality.value] * rows.num_rows, pa.string())))
    return pa.concat_tables(tables) if tables else pa.table({})


def file_name(epoch: int, kind: str, quality: Quality) -> str:
    """Return the name of an epoch's file; `kind` is "first" or "final"."""
    return f"{epoch:020d}.{kind}.{quality.value}.parquet"
