"""The commits of an Iceberg table, read with pyiceberg."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from holdfast.connectors.iceberg_catalog import iceberg_errors, load_catalog
from holdfast.connectors.table_reader import TableCommit, TableFile
from holdfast.documents.source_inputs import IcebergInput
from holdfast.errors import HoldfastError


class IcebergHistory:
    """Implements TableHistory for Iceberg. A version is the sequence number of a snapshot of the branch `main`, 0 before the first.

    The maintenance of a table removes snapshots, and also the ids by which the others refer to them. Sequence numbers remain.
    """

    def __init__(self, options: IcebergInput, *, source: str) -> None:
        self._source, self.name = f"source '{source}'", f"the Iceberg table '{options.table}'"
        catalog = load_catalog(options.catalog, self._source)
        with iceberg_errors(self._source, self.name):
            self._table = catalog.load_table(options.table)
        if self._table.format_version == 1:
            raise HoldfastError(
                f"{self._source} cannot read {self.name}, because its format version 1 does not number the commits; upgrade it to "
                "version 2"
            )

    def newest(self) -> int:
        with iceberg_errors(self._source, self.name):
            snapshot = self._table.refresh().current_snapshot()
        return 0 if snapshot is None else int(snapshot.sequence_number)

    def columns(self) -> list[str]:
        return [field.name for field in self._table.schema().fields]

    def files_at(self, version: int) -> Sequence[TableFile]:
        self.newest()
        snapshot = next((each for each in self._table.snapshots() if each.sequence_number == version), None)
        if snapshot is None and version > 0:
            raise FileNotFoundError(f"version {version}")
        return [] if snapshot is None else self._files(self._table.scan(snapshot_id=snapshot.snapshot_id))

    def commits(self, after: int) -> Iterator[TableCommit]:
        from pyiceberg.table.snapshots import ancestors_of

        newest = self.newest()
        chain = list(ancestors_of(self._table.current_snapshot(), self._table.metadata))
        abandoned = {each.sequence_number for each in self._table.snapshots()} - {each.sequence_number for each in chain}
        if after > newest or after in abandoned:
            raise HoldfastError(
                f"{self._source} has read {self.name} up to version {after}, which the table does not continue: it was rolled back "
                "or created again; start the job with a new log"
            )
        for snapshot in reversed(chain):
            if (snapshot.sequence_number or 0) > after:
                yield self._commit(snapshot)

    def _commit(self, snapshot: Any) -> TableCommit:
        operation, parent_id = snapshot.summary.operation.value, snapshot.parent_snapshot_id
        parent = None if parent_id is None else self._table.snapshot_by_id(parent_id)
        files: Sequence[TableFile] = ()
        if operation == "append":
            scan = self._table.incremental_append_scan(to_snapshot_id_inclusive=snapshot.snapshot_id)
            files = self._files(scan if parent_id is None else scan.from_snapshot_id_exclusive(parent_id))
        return TableCommit(
            snapshot.sequence_number,
            snapshot.sequence_number - 1 if parent is None else parent.sequence_number,
            snapshot.timestamp_ms / 1000,
            files,
            changes_rows=operation in ("overwrite", "delete"),
        )

    def _files(self, scan: Any) -> list[TableFile]:
        with iceberg_errors(self._source, self.name):
            tasks = sorted(scan.plan_files(), key=lambda task: str(task.file.file_path))
        return [TableFile(task.file.file_path, task.file.record_count, partial(self._read, task)) for task in tasks]

    def _read(self, task: Any) -> pa.Table:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        with iceberg_errors(self._source, self.name):
            scan = ArrowScan(self._table.metadata, self._table.io, self._table.schema(), AlwaysTrue())
            return scan.to_table([task])
