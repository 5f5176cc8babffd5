"""Writes a sink's epochs to a Delta table, each in one commit with an application transaction."""

import zlib
from typing import Any

import pyarrow as pa

from holdfast.app.writers import WriteToken
from holdfast.connectors.written_epochs import NONE, WrittenEpochs
from holdfast.errors import HoldfastError

COMMIT_TRIES = 20
LAST_RUN = "holdfast-run"
"""The application transaction that names the run which has written the table last, by the checksum of its id."""


class DeltaWriter:
    """A writer for a sink: `app.sink("out", stream, writer=DeltaWriter("s3://bucket/results"))`.

    The table gets the stream's columns and the column `epoch_column`; it is created if it does not exist. A commit adds the rows
    of one epoch, and a correction replaces exactly the rows of its epoch. Each commit also stores the epoch as an application
    transaction. A writer that was stopped for a while, or is called twice, finds the epoch there and writes nothing. `options` are
    storage options such as credentials.

    A table belongs to one sink of one log. A sink with a new log takes the table over, and the previous sink then fails. Before
    that, delete the rows of epochs that the new log will write again.
    """

    takes_arrow = True

    def __init__(self, path: str, *, epoch_column: str = "epoch", options: dict[str, str] | None = None) -> None:
        self._path, self._epoch_column, self._options = path, epoch_column, options or {}

    def __call__(self, rows: pa.Table, epoch: int, quality: str, *, token: WriteToken) -> None:
        """Write the rows of an epoch, unless the table has them."""
        try:
            import deltalake
            from deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError
        except ImportError as error:
            raise HoldfastError("DeltaWriter needs the package deltalake; run: pip install 'holdfast[delta]'") from error
        names = [name for name in rows.column_names if name != self._epoch_column]
        table = rows.select(names).append_column(self._epoch_column, pa.array([epoch] * rows.num_rows, pa.int64()))
        for attempt in range(1, COMMIT_TRIES + 1):
            try:
                self._commit(deltalake, table, token)
                return
            except CommitFailedError as error:  # another commit came first: look again at which epochs the table has
                if attempt == COMMIT_TRIES:
                    raise HoldfastError(
                        f"the Delta table '{self._path}' was changed by others during all {COMMIT_TRIES} attempts to write epoch "
                        f"{epoch}; stop the other writer, or let it write less often"
                    ) from error
            except SchemaMismatchError as error:
                reason = str(error).strip().splitlines()[0]
                raise HoldfastError(
                    f"the Delta table '{self._path}' has other columns than the sink: {reason}; alter it, or use another table"
                ) from error
            except (DeltaError, OSError) as error:
                reason = str(error).strip().splitlines()[0]
                raise HoldfastError(f"the Delta table '{self._path}' cannot be written: {reason}") from error

    def _commit(self, deltalake: Any, rows: pa.Table, token: WriteToken) -> None:
        exists: bool = deltalake.DeltaTable.is_deltatable(self._path, storage_options=self._options)
        target: Any = deltalake.DeltaTable(self._path, storage_options=self._options) if exists else self._path
        applications = {kind: f"holdfast-{token.run}-{kind}" for kind in ("first", "final")}
        run = zlib.crc32(token.run.encode())
        if exists:
            stored = {kind: target.transaction_version(name) for kind, name in applications.items()}
            if WrittenEpochs(**{kind: NONE if epoch is None else epoch for kind, epoch in stored.items()}).has(token):
                return
            if stored["first"] is not None and target.transaction_version(LAST_RUN) != run:
                raise HoldfastError(
                    f"the Delta table '{self._path}' is also written by another sink or job, which has taken it over; give each "
                    "its own table"
                )
        transactions = [deltalake.Transaction(applications[token.kind], token.epoch), deltalake.Transaction(LAST_RUN, run)]
        properties = deltalake.CommitProperties(app_transactions=transactions, max_commit_retries=0)
        replaces = {"mode": "overwrite", "predicate": f"{self._epoch_column} = {token.epoch}"} if token.kind == "final" else {}
        options = {} if exists else {"storage_options": self._options}
        deltalake.write_deltalake(target, rows, commit_properties=properties, **{"mode": "append", **replaces, **options})
