"""The checkpoint database: one writer at a time, enforced by the database itself, and commits shared by all who wait for one.

A new orchestrator takes the next term by compare-and-set. Every transaction checks that the term is still its own: one that was
replaced while it slept finds out at its next write, which does nothing. A batch of changes has a number that is committed with it:
one that went away with the connection is tried again, and not done twice if it had been committed and only the answer was lost.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, NoSuchModuleError, OperationalError
from sqlalchemy.sql import Executable

from holdfast.control.storage.schema import fence, migrate
from holdfast.errors import HoldfastError, MachineError

T = TypeVar("T")

RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Waits between attempts while the database is away; the last one is repeated."""

PATIENCE = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""When a PostgreSQL server that says nothing counts as away, unless its URL says otherwise: after 10 s without a connection, 15 s
(in milliseconds) without a sign that it got what was sent, 25 s without one that it is there."""

PASSING = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
    }
)
"""What SQLite says of a file that is well and cannot be had now. It has one class of error for these and for all others."""


LIKE = "sqlite:///jobs.db or postgresql://user@host/name"


class Fenced(HoldfastError):
    """Another orchestrator has taken over."""

    http_status = 503


class DatabaseUnreachable(HoldfastError):
    """The database does not answer. Those who wait for it wait on."""

    http_status = 503


@dataclass(frozen=True, slots=True)
class Change:
    """One statement of a transaction, with its rows where it has several."""

    statement: Executable
    rows: Sequence[Mapping[str, Any]] = ()


class Database:
    """The database behind a URL. `tell` is called with a text when it goes away and when it is back."""

    def __init__(self, url: str, *, tell: Callable[[str], None], owner: str = "") -> None:
        self.url = _url(url)
        self.tell, self.owner = tell, owner
        self.term = 0
        self._engine = _engine(self.url)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="database-writer")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="database-reader")
        self._waiting: list[tuple[Sequence[Change], asyncio.Future[None]]] = []
        self._pump: asyncio.Task[None] | None = None
        self._cut_until = 0.0
        self._batches = 0
        self._closing = threading.Event()
        self._file: tuple[int, int] | None = None

    def open(self) -> int:
        """Wait for the database, bring it to today's version and take the next term; the term taken.

        Raises HoldfastError for one that waiting does not mend: it cannot be written, or is not holdfast's.
        """

        def taken(connection: Connection) -> int:
            migrate(connection)
            current = int(connection.execute(select(fence.c.term)).scalar_one())
            mine = update(fence).where(fence.c.term == current).values(term=current + 1, owner=self.owner, batch=0)
            return current + 1 if connection.execute(mine).rowcount == 1 else 0

        self._check_folder()
        while not self.term:
            try:
                self.term = self._persevere(taken, writes=True)
            except DBAPIError as error:
                text = f"database {self._shown()} cannot be used: {_first_line(error)}; mend it, or give another --database"
                raise HoldfastError(text) from error
        self._file = self._found()
        return self.term

    async def write(self, changes: Sequence[Change]) -> None:
        """Commit the changes in one transaction, together with whatever else waits to be written. Raises Fenced.

        While the database is away this waits.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((changes, done))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._write_waiting())
        await asyncio.shield(done)

    async def read(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question, asked in a thread. Raises DatabaseUnreachable where it cannot be asked now."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._once, question)

    def read_blocking(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question, asked here; waits while the database is away."""
        return self._persevere(question)

    async def check_term(self) -> None:
        """Raise Fenced if another orchestrator has taken over."""
        current = await self.read(lambda connection: connection.execute(select(fence.c.term)).scalar_one())
        if current != self.term:
            raise self._fenced(int(current))

    def simulate_outage(self, for_s: float) -> None:
        """Behave for so long as if the database were away."""
        self._cut_until = time.monotonic() + for_s

    def close(self) -> None:
        self._closing.set()
        self._writer.shutdown(wait=True, cancel_futures=True)
        self._readers.shutdown(wait=True, cancel_futures=True)
        self._engine.dispose()

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await loop.run_in_executor(self._writer, self._commit, [changes for changes, _ in batch])
            except Exception as error:
                if len(batch) > 1 and not isinstance(error, Fenced | DatabaseUnreachable):
                    await self._write_apart(batch)
                    continue
                for _, done in batch:
                    _fail(done, error)
                continue
            for _, done in batch:
                if not done.done():
                    done.set_result(None)

    async def _write_apart(self, batch: list[tuple[Sequence[Change], asyncio.Future[None]]]) -> None:
        """Commit each alone, so that only the one that cannot be committed fails."""
        for changes, done in batch:
            try:
                await asyncio.get_running_loop().run_in_executor(self._writer, self._commit, [changes])
            except Exception as error:
                _fail(done, error)
            else:
                done.set_result(None)

    def _commit(self, batch: Sequence[Sequence[Change]]) -> None:
        self._batches += 1
        number = self._batches

        def commit(connection: Connection) -> None:
            holder = connection.execute(select(fence.c.term, fence.c.batch).with_for_update()).one()
            if holder.term != self.term:
                raise self._fenced(int(holder.term))
            if holder.batch == number:
                return
            connection.execute(update(fence).values(batch=number))
            for changes in batch:
                for change in changes:
                    connection.execute(change.statement, list(change.rows) or None)

        self._persevere(commit, writes=True)

    def _persevere(self, question: Callable[[Connection], T], *, writes: bool = False) -> T:
        attempt = 0
        while True:
            try:
                answer = self._once(question, writes=writes)
            except DatabaseUnreachable as away:
                if attempt == 0:
                    self.tell(f"{away}; waiting for it")
                if self._closing.wait(RETRY_S[min(attempt, len(RETRY_S) - 1)]):
                    raise
                attempt += 1
                continue
            if attempt:
                self.tell(f"database {self._shown()} is back")
            return answer

    def _once(self, question: Callable[[Connection], T], writes: bool = False) -> T:
        if time.monotonic() < self._cut_until:
            raise DatabaseUnreachable(f"database {self._shown()} is away: cut off by fault injection")
        if self._file is not None and self._found() != self._file:  # what SQLite has open is lost with this process
            raise DatabaseUnreachable(f"database {self._shown()} is away: its file was removed or replaced; put it back")
        try:
            with self._engine.connect().execution_options(writes=writes) as connection, connection.begin():
                return question(connection)
        except DBAPIError as error:
            if _passes(error, opening=not self.term):
                raise DatabaseUnreachable(f"database {self._shown()} is away: {self._missing() or _first_line(error)}") from error
            raise

    def _check_folder(self) -> None:
        """Raise HoldfastError for a folder in which SQLite could not write its log; it would only say that it opens no file."""
        folder = Path(self.url.database or ".").parent
        if self.url.get_backend_name() == "sqlite" and folder.is_dir() and not os.access(folder, os.W_OK):
            text = f"database {self._shown()} cannot be used: folder '{folder}' cannot be written"
            raise HoldfastError(f"{text}; mend that, or give another --database")

    def _missing(self) -> str:
        """What else than SQLite says there is to say of a file that cannot be opened."""
        folder = Path(self.url.database or ".").parent
        gone = self.url.get_backend_name() == "sqlite" and not folder.is_dir()
        return f"there is no folder '{folder}'" if gone else ""

    def _found(self) -> tuple[int, int] | None:
        """Which file is there now, of a database that is one."""
        if self.url.get_backend_name() != "sqlite" or not self.url.database:
            return None
        try:
            found = Path(self.url.database).stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _fenced(self, current: int) -> Fenced:
        return Fenced(
            f"another orchestrator has taken over (term {current}, this one has {self.term}); "
            "this one ends and touches nothing: use the other's address"
        )

    def _shown(self) -> str:
        return f"'{self.url.render_as_string(hide_password=True)}'"


def _url(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        shown = f"'...{text[text.rindex('@') :]}'" if "@" in text else f"'{text}'"  # what stands before it may be a password
        raise HoldfastError(f"database {shown}: wanted a URL such as {LIKE}") from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    kind = url.drivername.partition("+")[0]
    if kind not in ("postgresql", "sqlite"):
        raise HoldfastError(f"database '{url.drivername}': wanted SQLite or PostgreSQL; give one such as {LIKE}")
    if kind == "sqlite" and url.database and Path(url.database).is_dir():
        raise HoldfastError(f"database '{text}': '{url.database}' is a folder; give a file in it, such as jobs.db")
    if kind == "sqlite" and (not url.database or ":memory:" in url.database):
        raise HoldfastError(
            f"database '{text}' is in memory, and jobs must outlive this process; give a file, such as sqlite:///jobs.db"
        )
    return url


def _engine(url: URL) -> Engine:
    try:
        if url.get_backend_name() == "sqlite":
            engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        patience = {name: seconds for name, seconds in PATIENCE.items() if name not in url.query}
        given = patience if url.get_backend_name() == "postgresql" else {}
        return create_engine(url, pool_pre_ping=True, pool_size=3, connect_args=given)
    except (NoSuchModuleError, ModuleNotFoundError, ImportError) as error:
        mend = "leave the driver out of the URL" if url.get_backend_name() == "sqlite" else "pip install 'holdfast[postgresql]'"
        raise MachineError(f"database '{url.drivername}' needs a driver: {error}; {mend}") from error


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # transactions are begun by hand, so that a writer holds the lock from its first statement
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _passes(error: DBAPIError, *, opening: bool) -> bool:
    """Whether an error may well be over by itself. A disk that turns read-only under an orchestrator may turn back; one that is so
    from the start was meant to be."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in PASSING or (code & 0xFF == sqlite3.SQLITE_READONLY and not opening)
    return isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    """Tell whoever waits for a write that it failed; who waited may be gone, and then nobody asks."""
    if not done.done():
        done.set_exception(error)
        done.exception()  # asked for, so that nothing is said of an error that was never retrieved


def _first_line(error: DBAPIError) -> str:
    return (str(error.orig).strip().splitlines() or ["no reason given"])[0]
