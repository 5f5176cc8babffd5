"""What a sink has written: a Parquet file per epoch as it was in time, and another where that was corrected."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store

OutputVersion = Literal["newest", "first", "exact"]

FILE = re.compile(r"(\d{20})\.(first|final)\.(\w+)\.parquet")


@dataclass(frozen=True)
class OutputFile:
    """One file of a sink."""

    name: str
    epoch: int
    kind: str
    quality: Quality


def list_output_files(out: Store, sink: str, *, which: OutputVersion = "newest") -> list[OutputFile]:
    """The files that together are a sink's output, by epoch.

    `newest`: each epoch's correction where there is one, else what was there in time. `first`: what was there in time, never
    corrected. `exact`: only epochs that are exact by now.
    """
    if which not in ("newest", "first", "exact"):
        raise HoldfastError(f"a sink's output is read as 'newest', 'first' or 'exact', got '{which}'")
    found: dict[int, OutputFile] = {}
    prefix = f"{quote(sink, safe='')}/"
    for name in sorted(out.names(prefix)):
        match = FILE.fullmatch(name.rsplit("/", 1)[1])
        if match is None:
            continue
        file = OutputFile(name, int(match[1]), match[2], Quality(match[3]))
        if which == "first" and file.kind == "final":
            continue
        if which == "exact" and file.quality is not Quality.EXACT:
            continue
        held = found.get(file.epoch)
        if held is None or file.kind == "final":
            found[file.epoch] = file
    return [found[epoch] for epoch in sorted(found)]


def read_output(out: str | Path | Store, sink: str, *, which: OutputVersion = "newest") -> pa.Table:
    """The rows of a sink, with the quality that each of them has, in the order of epochs; without rows where none were written."""
    store = out if isinstance(out, Store) else Store(out, what="output")
    tables = []
    for file in list_output_files(store, sink, which=which):
        rows = pq.read_table(pa.BufferReader(store.read(file.name) or b""))
        tables.append(rows.append_column("quality", pa.array([file.quality.value] * rows.num_rows, pa.string())))
    return pa.concat_tables(tables) if tables else pa.table({})


def file_name(epoch: int, kind: str, quality: Quality) -> str:
    return f"{epoch:020d}.{kind}.{quality.value}.parquet"
