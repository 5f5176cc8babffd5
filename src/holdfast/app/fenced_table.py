"""A database table as a sink's target: it keeps the newest rows of each epoch, whatever was delayed or written twice."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy import column as sql_column
from sqlalchemy import table as sql_table
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.schema import CreateTable

from holdfast.app.writers import WriteToken

INSERT_ROWS = 5_000
"""How many rows one statement inserts."""


class FencedTable:
    """Writes a sink's epochs to a table: `app.sink("out", stream, writer=FencedTable(url, "results").write)`.

    The table exists and has the stream's columns and a column for the epoch. `database` is a URL or an engine of SQLAlchemy; an
    engine with `creator` uses DB-API connections of your own. A second table, `<name>_fence` in the same schema, remembers the
    largest claim of each epoch; it is created if it does not exist.

    One transaction refuses an older token, deletes the epoch's rows and inserts the new ones. A second call with the same token
    replaces the rows by themselves. The rows of an epoch are therefore those of its newest claim, also if a writer stalls and
    continues after its successor, or is called twice.
    """

    def __init__(self, database: str | Engine, name: str, *, schema: str | None = None, epoch_column: str = "epoch") -> None:
        self._database, self._name, self._schema, self._epoch_column = database, name, schema, epoch_column
        self._fence = Table(
            f"{name}_fence",
            MetaData(),
            Column("run", String(64), primary_key=True),
            Column("epoch", BigInteger, primary_key=True, autoincrement=False),
            Column("claim", BigInteger, nullable=False),
            schema=schema,
        )

    def write(self, rows: Any, epoch: int, quality: str, *, token: WriteToken) -> bool:
        """Replace an epoch's rows (a DataFrame or an Arrow table). Return False if a newer token has written the epoch."""
        arrow = rows if isinstance(rows, pa.Table) else rows.toArrow()
        names = [name for name in arrow.column_names if name != self._epoch_column]
        target = sql_table(self._name, *map(sql_column, [self._epoch_column, *names]), schema=self._schema)
        while True:
            try:
                with self._engine.begin() as connection:
                    if not self._pass_fence(connection, token):
                        return False
                    connection.execute(delete(target).where(target.c[self._epoch_column] == epoch))
                    for batch in _batches(arrow.select(names)):
                        connection.execute(insert(target), [{**row, self._epoch_column: epoch} for row in batch])
                    return True
            except _FenceChanged:
                continue

    def _pass_fence(self, connection: Connection, token: WriteToken) -> bool:
        """Store the token, unless a newer one is stored. The stored row stays locked until the transaction ends.

        Raises _FenceChanged if another transaction has stored the epoch's first token just now. The transaction must then begin
        again.
        """
        fence = self._fence
        same_epoch = (fence.c.run == token.run) & (fence.c.epoch == token.epoch)
        passed = connection.execute(update(fence).where(same_epoch, fence.c.claim <= token.claim).values(claim=token.claim))
        if passed.rowcount == 1:
            return True
        stored = connection.execute(select(fence.c.claim).where(same_epoch)).scalar()
        if stored is not None and stored > token.claim:
            return False
        try:
            connection.execute(insert(fence).values(run=token.run, epoch=token.epoch, claim=token.claim))
        except IntegrityError as error:
            raise _FenceChanged from error
        return True

    @cached_property
    def _engine(self) -> Engine:
        """Connect when the first epoch is written: the file of the application is also loaded where the database is not needed."""
        engine = self._database if isinstance(self._database, Engine) else create_engine(_with_driver(self._database))
        try:
            with engine.begin() as connection:
                connection.execute(CreateTable(self._fence, if_not_exists=True))
        except DBAPIError:  # another replica may create it at the same moment
            if not inspect(engine).has_table(self._fence.name, schema=self._schema):
                raise
        return engine


def _with_driver(url: str) -> URL:
    """Return a URL whose driver, for PostgreSQL, is the one that holdfast[postgresql] installs."""
    parsed = make_url(url)
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


class _FenceChanged(Exception):
    """Another transaction has stored a token of the epoch."""


def _batches(rows: pa.Table) -> Iterator[list[dict[str, Any]]]:
    for batch in rows.to_batches(max_chunksize=INSERT_ROWS):
        if batch.num_rows:
            yield batch.to_pylist()
