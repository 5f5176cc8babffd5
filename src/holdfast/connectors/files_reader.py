"""Reads ranges of files in a folder or an object store, in the order of their names."""

import io
import zlib

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from holdfast.connectors.replayable import RangeReader
from holdfast.documents.source_inputs import FilesInput
from holdfast.errors import ExternalError, HoldfastError, LogError
from holdfast.log import Store
from holdfast.log.range_claims import Positions, Range

AFTER = "after"
"""The key of a position: the name of the last file that was read."""
ENDINGS = (".parquet", ".jsonl", ".json", ".csv")


class FilesReader(RangeReader):
    """Implements RangeReader for files. A checksum of a file's name selects which of the `tasks` tasks reads it."""

    has_own_positions = False

    def __init__(self, options: FilesInput, schema: pa.Schema, *, source: str, task: int, tasks: int) -> None:
        self._options, self._what, self._task, self._tasks = options, f"source '{source}'", task, tasks
        self._schema = pa.schema([field for field in schema if field.name not in ("seq", "epoch")])
        self._store = Store(options.path, what="input")
        self.bad_messages = self.lost_rows = 0

    def first(self) -> Positions:
        names = self._list() if self._options.starting == "latest" else []
        return {AFTER: names[-1] if names else ""}

    def newest(self, start: Positions, *, before_s: float | None) -> Positions:
        after = str(start[AFTER])
        names = [name for name in self._list() if name > after]
        return {AFTER: names[: self._options.files_per_epoch][-1] if names else after}

    def read(self, rows: Range) -> pa.Table:
        start, end = str(rows.start[AFTER]), str(rows.end[AFTER])
        if start == end:
            return self._schema.empty_table()
        names = [name for name in self._list() if start < name <= end]
        if end not in names:
            raise HoldfastError(f"{self._what} needs the file '{end}' of '{self._options.path}', which was removed; restore it")
        own = [name for name in names if zlib.crc32(name.encode()) % self._tasks == self._task]
        return pa.concat_tables([self._schema.empty_table(), *(self._read_file(name) for name in own)])

    def _list(self) -> list[str]:
        try:
            return sorted(name for name in self._store.names("") if name.endswith(ENDINGS) and not _is_hidden(name))
        except LogError as error:
            raise ExternalError(f"{self._what}: {error}") from error

    def _read_file(self, name: str) -> pa.Table:
        content = io.BytesIO(self._store.read(name) or b"")
        try:
            if name.endswith(".parquet"):
                rows = pq.read_table(content)
            elif name.endswith(".csv"):
                rows = pc.read_csv(content, convert_options=pc.ConvertOptions(column_types=self._schema))
            else:
                parse = pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")
                rows = pj.read_json(content, parse_options=parse)
            if "time" in self._schema.names and "time" not in rows.column_names:
                rows = rows.append_column("time", pa.nulls(rows.num_rows))
            return rows.select(self._schema.names).cast(self._schema)
        except (pa.ArrowException, KeyError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise HoldfastError(f"{self._what} cannot read file '{name}' of '{self._options.path}': {reason}") from error


def _is_hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))
