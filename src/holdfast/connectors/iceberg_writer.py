"""Writes a sink's epochs to an Iceberg table, each in one commit that also stores which epochs the table has."""

import warnings
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from holdfast.app.writers import WriteToken
from holdfast.connectors.delta_writer import COMMIT_TRIES
from holdfast.connectors.iceberg_catalog import iceberg_errors, load_catalog
from holdfast.connectors.written_epochs import NONE, WrittenEpochs
from holdfast.errors import HoldfastError

LAST_RUN = "holdfast.run"
"""The property of a table that names the run which has written it last."""


class IcebergWriter:
    """A writer for a sink: `app.sink("out", stream, writer=IcebergWriter("prod", "shop.results"))`.

    `catalog` is a name that pyiceberg's configuration has, or the properties of a catalog. The table gets the stream's columns and
    the column `epoch_column`; it is created if it does not exist. A commit adds the rows of one epoch, and a correction replaces
    exactly the rows of its epoch. The commit also changes the table's properties `holdfast.<run>.first` and `.final`, which name
    the last epochs that the table has. A catalog accepts a commit only if nobody else has changed the table. So a writer that was
    stopped for a while, or is called twice, finds the epoch there and writes nothing. The snapshot's properties `holdfast.epoch`,
    `holdfast.kind` and `holdfast.quality` describe what the snapshot contains.

    A table belongs to one sink of one log. A sink with a new log takes the table over, and the previous sink then fails. Before
    that, delete the rows of epochs that the new log will write again.
    """

    takes_arrow = True

    def __init__(self, catalog: str | Mapping[str, str], table: str, *, epoch_column: str = "epoch") -> None:
        self._catalog_options, self._name, self._epoch_column = catalog, table, epoch_column
        self._what, self._target = f"the writer to '{table}'", f"the Iceberg table '{table}'"
        self._catalog: Any = None

    def __call__(self, rows: pa.Table, epoch: int, quality: str, *, token: WriteToken) -> None:
        """Write the rows of an epoch, unless the table has them."""
        if self._catalog is None:
            self._catalog = load_catalog(self._catalog_options, self._what)
        from pyiceberg.exceptions import CommitFailedException

        names = [name for name in rows.column_names if name != self._epoch_column]
        values = rows.select(names).append_column(self._epoch_column, pa.array([epoch] * rows.num_rows, pa.int64()))
        for _ in range(COMMIT_TRIES):
            try:
                with iceberg_errors(self._what, self._target), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # pyiceberg warns if a correction replaces no rows
                    self._commit(values, quality, token)
                return
            except CommitFailedException as error:  # another commit came first: look again at which epochs the table has
                failure = error
        raise HoldfastError(
            f"{self._target} was changed by others during all {COMMIT_TRIES} attempts to write epoch {epoch}; stop the other "
            "writer, or let it write less often"
        ) from failure

    def _commit(self, rows: pa.Table, quality: str, token: WriteToken) -> None:
        from pyiceberg.exceptions import NoSuchTableError
        from pyiceberg.expressions import EqualTo

        try:
            table = self._catalog.load_table(self._name)
        except NoSuchTableError:
            table = self._catalog.create_table_if_not_exists(self._name, schema=rows.schema)
        prefix = f"holdfast.{token.run}."
        if table.properties.get(f"{prefix}first") and table.properties.get(LAST_RUN) != token.run:
            raise HoldfastError(
                f"{self._target} is also written by another sink or job, which has taken it over; give each its own table"
            )
        written = {kind: int(table.properties.get(f"{prefix}{kind}", NONE)) for kind in ("first", "final")}
        if WrittenEpochs(**written).has(token):
            return
        columns = {field.name: field.type for field in table.schema().as_arrow()}
        try:
            rows = pa.table({name: rows[name].cast(columns[name]) for name in rows.column_names})
        except (KeyError, pa.ArrowException) as error:
            raise HoldfastError(
                f"{self._target} has other columns than the sink: {', '.join(columns)} instead of {', '.join(rows.column_names)} "
                f"({error}); alter it, or use another table"
            ) from error
        about = {"holdfast.epoch": str(token.epoch), "holdfast.kind": token.kind, "holdfast.quality": quality}
        transaction = table.transaction()
        transaction.set_properties({f"{prefix}{token.kind}": str(token.epoch), LAST_RUN: token.run})
        if token.kind == "first":
            transaction.append(rows, snapshot_properties=about)
        else:
            own_epoch = EqualTo(term=self._epoch_column, value=token.epoch)
            transaction.overwrite(rows, own_epoch, snapshot_properties=about)
        # Transaction.commit_transaction would repeat a refused commit without checking which epochs the table has by then.
        self._catalog.commit_table(table, transaction._requirements, transaction._updates)
