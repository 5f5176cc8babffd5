"""The commits of a Delta table, read from its log without a JVM."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.connectors.table_reader import TableCommit, TableFile
from holdfast.documents.source_inputs import DeltaInput
from holdfast.errors import ExternalError, HoldfastError, LogError
from holdfast.log import Store

LOG_NAME = re.compile(r"_delta_log/(\d{20})\.(json|checkpoint\b.*)")


class DeltaHistory:
    """Implements TableHistory for Delta. A version is the number of a commit, from 0."""

    def __init__(self, options: DeltaInput, *, source: str) -> None:
        self._path, self._source = options.path, f"source '{source}'"
        self.name = f"the Delta table '{options.path}'"
        self._columns = self._open().schema().fields
        self._store = Store(options.path, what="Delta table")

    def newest(self) -> int:
        version: int = self._open().version()
        return version

    def columns(self) -> list[str]:
        return [field.name for field in self._columns]

    def files_at(self, version: int) -> Sequence[TableFile]:
        from deltalake.exceptions import DeltaError

        table = self._open()
        try:
            table.load_as_version(version)
        except DeltaError as error:
            raise FileNotFoundError(str(error)) from error
        if pa.table(table.deletion_vectors()).num_rows:
            raise HoldfastError(
                f"{self._source} cannot read {self.name}, because rows of its files were deleted by deletion vectors; purge them "
                "(REORG TABLE ... APPLY (PURGE)), or give the source 'starting': 'latest'"
            )
        actions = pa.table(table.get_add_actions()).sort_by("path").to_pylist()
        return [self._file(each["path"], each.get("partition") or {}, each["num_records"]) for each in actions]

    def commits(self, after: int) -> Iterator[TableCommit]:
        previous = after
        while True:
            content = self._read(f"_delta_log/{previous + 1:020d}.json")
            if content is not None:
                yield self._commit(previous, content)
                previous += 1
            elif previous >= 0 and self._read(f"_delta_log/{previous:020d}.json") is not None:
                return  # the log goes on to here; listing a long one at every look would be slow
            else:
                later = self._versions_from(previous)
                if not later and previous >= 0:
                    raise HoldfastError(
                        f"{self._source} has read {self.name} up to version {previous}, which the table does not have: it was "
                        "created again; start the job with a new log"
                    )
                readable = [version for version, is_commit in later.items() if is_commit and version > previous]
                if not readable:
                    return
                previous = min(readable) - 1

    def _commit(self, previous: int, content: bytes) -> TableCommit:
        actions: dict[str, list[dict[str, Any]]] = {}
        for line in content.splitlines():
            if line.strip():
                for kind, action in json.loads(line).items():
                    actions.setdefault(kind, []).append(action)
        if "metaData" in actions:
            self._columns = self._open().schema().fields
        about = actions.get("commitInfo", [{}])[0]
        time_ms = about.get("inCommitTimestamp", about.get("timestamp", 0))
        changes = any(remove.get("dataChange", True) for remove in actions.get("remove", [])) or "cdc" in actions
        adds = sorted((add for add in actions.get("add", []) if add["dataChange"]), key=lambda add: str(add["path"]))
        files = [self._file(add["path"], add["partitionValues"], _count_rows(add)) for add in adds]
        return TableCommit(previous + 1, previous, time_ms / 1000, () if changes else files, changes_rows=changes)

    def _file(self, path: str, partition: Mapping[str, Any], rows: int | None) -> TableFile:
        return TableFile(path, rows or 0, partial(self._read_file, unquote(path), partition))

    def _read_file(self, path: str, partition: Mapping[str, Any]) -> pa.Table:
        """Return the rows of a data file, with the columns by which the table is partitioned. The file lacks these columns."""
        content = self._read(path)
        if content is None:
            raise FileNotFoundError(path)
        table = pq.read_table(pa.BufferReader(content))
        for name, value in partition.items():
            column = pa.nulls(table.num_rows) if value in (None, "") else pa.repeat(pa.scalar(value), table.num_rows)
            table = table.append_column(name, column)
        return table

    def _versions_from(self, version: int) -> dict[int, bool]:
        """Return, for each version in the log from this one on, whether its commit is there; False if only its checkpoint is."""
        versions: dict[int, bool] = {}
        try:
            matches = [match for name in self._store.names("_delta_log/") if (match := LOG_NAME.fullmatch(name))]
        except LogError as error:
            raise ExternalError(f"{self._source}: {error}") from error
        for match in matches:
            if int(match[1]) >= version:
                versions[int(match[1])] = versions.get(int(match[1]), False) or match[2] == "json"
        return versions

    def _read(self, name: str) -> bytes | None:
        try:
            return self._store.read(name)
        except LogError as error:
            raise ExternalError(f"{self._source}: {error}") from error

    def _open(self) -> Any:
        """Return the table in its newest version."""
        try:
            import deltalake
            from deltalake.exceptions import DeltaError, TableNotFoundError
        except ImportError as error:
            raise HoldfastError(f"{self._source} needs the package deltalake; run: pip install 'holdfast[delta]'") from error
        try:
            table = deltalake.DeltaTable(self._path)
        except TableNotFoundError as error:
            raise HoldfastError(f"{self._source} reads {self.name}, which does not exist; create it or correct its path") from error
        except (DeltaError, OSError) as error:
            raise ExternalError(f"{self._source} cannot open {self.name}: {str(error).strip().splitlines()[0]}") from error
        if "columnMapping" in (table.protocol().reader_features or ()):
            raise HoldfastError(
                f"{self._source} cannot read {self.name}, because its columns are mapped to other names in its files"
            )
        return table


def _count_rows(add: Mapping[str, Any]) -> int:
    return int(json.loads(add.get("stats") or "{}").get("numRecords", 0))
