"""Writes a sink's epochs to a database table, so that a delayed or repeated write never replaces newer rows."""

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
    tuple_,
    update,
)
from sqlalchemy import column as sql_column
from sqlalchemy import table as sql_table
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from holdfast.app.writers import WriteToken
from holdfast.errors import ExternalError, HoldfastError

INSERT_ROWS = 1_000
"""How many rows one statement inserts."""
NO_PRIVILEGE = "42501"
"""PostgreSQL's code for a missing permission."""
OWNER_EPOCH = -1
"""The epoch of the rows in the fence table that name the runs which have written the table. The last run has the largest claim."""


class SqlWriter:
    """A writer for a sink: `app.sink("out", stream, writer=SqlWriter("postgresql://me@db/shop", "results"))`.

    The table exists and has the stream's columns and a column for the epoch. `database` is a URL or an engine of SQLAlchemy; an
    engine with `creator` uses DB-API connections of your own. A second table, `<name>_fence` in the same schema, remembers the
    largest claim of each epoch; it is created if it does not exist.

    A table belongs to one sink of one log. A sink with a new log takes the table over, and the previous sink then fails.

    One transaction refuses an older token, deletes the epoch's rows and inserts the new ones. A second call with the same token
    replaces the rows by themselves. The rows of an epoch are therefore those of its newest claim, also if a writer stalls and
    continues after its successor, or is called twice.

    With `key` (the names of columns), the table has one row per key: the one of the newest epoch that has the key. A correction
    does not replace rows of later epochs. It cannot bring back the row that its epoch had replaced before.
    """

    takes_arrow = True

    def __init__(
        self,
        database: str | Engine,
        name: str,
        *,
        key: str | tuple[str, ...] = (),
        schema: str | None = None,
        epoch_column: str = "epoch",
    ) -> None:
        self._database, self._name, self._schema, self._epoch_column = database, name, schema, epoch_column
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self._fence = Table(
            f"{name}_fence",
            MetaData(),
            Column("run", String(64), primary_key=True),
            Column("epoch", BigInteger, primary_key=True, autoincrement=False),
            Column("claim", BigInteger, nullable=False),
            schema=schema,
        )

    def __call__(self, rows: pa.Table, epoch: int, quality: str, *, token: WriteToken) -> bool:
        """Replace an epoch's rows. Return False if a newer token has written the epoch."""
        names = [name for name in rows.column_names if name != self._epoch_column]
        try:
            while True:
                try:
                    with self._engine.begin() as connection:
                        self._take_table(connection, token.run)
                        if not self._pass_fence(connection, token):
                            return False
                        self._replace(connection, rows.select(names), epoch)
                        return True
                except _FenceChanged:
                    continue
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            text = f"table '{self._name}' cannot be written in epoch {epoch}: {reason}"
            if isinstance(error, OperationalError | InterfaceError) and self._is_unreachable():
                raise ExternalError(f"{text}; is the database running?") from error
            if getattr(getattr(error, "orig", None), "sqlstate", None) == NO_PRIVILEGE:
                raise HoldfastError(f"{text}; ask for the permission to change it and to create '{self._fence.name}'") from error
            raise HoldfastError(
                f"{text}; the table must exist, with the columns: {', '.join([self._epoch_column, *names])}"
            ) from error

    def _replace(self, connection: Connection, rows: pa.Table, epoch: int) -> None:
        """Delete the epoch's rows and insert the new ones. With a key, leave the rows of later epochs and delete those of earlier
        ones."""
        target = sql_table(self._name, *map(sql_column, [self._epoch_column, *rows.column_names]), schema=self._schema)
        epochs, key = target.c[self._epoch_column], [target.c[name] for name in self._key]
        connection.execute(delete(target).where(epochs == epoch))
        for batch in _batches(_last_per_key(rows, self._key)):
            if self._key:
                values = [tuple(row[name] for name in self._key) for row in batch]
                connection.execute(delete(target).where(epochs < epoch, tuple_(*key).in_(values)))
                later = set(map(tuple, connection.execute(select(*key).where(tuple_(*key).in_(values)))))
                batch = [row for row, value in zip(batch, values, strict=True) if value not in later]
            if batch:
                connection.execute(insert(target), [{**row, self._epoch_column: epoch} for row in batch])

    def _take_table(self, connection: Connection, run: str) -> None:
        """Store that a run writes the table, unless that is stored. Raise HoldfastError if another run has taken it over since."""
        fence = self._fence
        query = select(fence.c.run, fence.c.claim).where(fence.c.epoch == OWNER_EPOCH).order_by(fence.c.claim.desc(), fence.c.run)
        runs = dict(map(tuple, connection.execute(query)))
        if run not in runs:
            connection.execute(insert(fence).values(run=run, epoch=OWNER_EPOCH, claim=max(runs.values(), default=0) + 1))
        elif run != next(iter(runs)):
            raise HoldfastError(
                f"table '{self._name}' is also written by another sink or job, which has taken it over; give each its own table"
            )

    def _is_unreachable(self) -> bool:
        """Return whether the database does not answer now."""
        try:
            with self._engine.connect() as connection:
                connection.execute(select(1))
        except SQLAlchemyError:
            return True
        return False

    def _pass_fence(self, connection: Connection, token: WriteToken) -> bool:
        """Return whether no newer token is stored; if so, store this one. Its row stays locked until the transaction ends.

        Raises _FenceChanged if another transaction has stored the epoch's first token just now. The transaction must then begin
        again.
        """
        fence = self._fence
        same_epoch = (fence.c.run == token.run) & (fence.c.epoch == token.epoch)
        update_result = connection.execute(update(fence).where(same_epoch, fence.c.claim <= token.claim).values(claim=token.claim))
        if update_result.rowcount == 1:
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
        """The engine. It is created for the first epoch, because an application is also loaded where no database is needed."""
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


def _last_per_key(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """Return the last row of each key, or all rows if there is no key."""
    if not key:
        return rows
    last = {value: index for index, value in enumerate(zip(*(rows[name].to_pylist() for name in key), strict=True))}
    return rows.take(pa.array(sorted(last.values()), pa.int64()))


def _batches(rows: pa.Table) -> Iterator[list[dict[str, Any]]]:
    for batch in rows.to_batches(max_chunksize=INSERT_ROWS):
        if batch.num_rows:
            yield batch.to_pylist()
