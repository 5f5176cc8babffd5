"""The orchestrator's database. The database itself ensures that only one orchestrator writes, and waiting writes share a commit.

A new orchestrator takes the next term by compare-and-set. Every write checks that the term is still its own, so the write of an
orchestrator that was replaced fails and changes nothing. Each batch of changes is committed with its number: a batch whose
connection broke is tried again, and is not applied twice if it was committed and only the answer was lost.
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
"""Delays between attempts while the database is unreachable; the last one is repeated."""

TIMEOUTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""When a silent PostgreSQL server counts as unreachable, unless its URL says otherwise: after 10 s without a connection, 15 s
(given in milliseconds) without an acknowledgement of what was sent, or 25 s without any sign of life."""

TRANSIENT_CODES = frozenset(
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
"""SQLite's codes for errors that may pass. It has one class of exception for these and for all others."""


EXAMPLES = "sqlite:///jobs.db or postgresql://user@host/name"


class Fenced(HoldfastError):
    """Another orchestrator has taken over."""

    http_status = 503


class DatabaseUnreachable(HoldfastError):
    """The database does not answer at the moment."""

    http_status = 503


@dataclass(frozen=True, slots=True)
class Change:
    """One statement of a transaction, with its rows if it inserts several."""

    statement: Executable
    rows: Sequence[Mapping[str, Any]] = ()


class Database:
    """The database at a URL. `report` is called with a text when it becomes unreachable and when it answers again."""

    def __init__(self, url: str, *, report: Callable[[str], None], owner: str = "") -> None:
        self.url = _url(url)
        self.report, self.owner = report, owner
        self.term = 0
        self._engine = _engine(self.url)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="database-writer")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="database-reader")
        self._queue: list[tuple[Sequence[Change], asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._outage_until_s = 0.0
        self._batches = 0
        self._closing = threading.Event()
        self._file: tuple[int, int] | None = None

    def open(self) -> int:
        """Wait for the database, migrate it and take the next term; return the term.

        Raises HoldfastError if waiting does not help: the database cannot be written, or is not holdfast's.
        """

        def take_term(connection: Connection) -> int:
            migrate(connection)
            current = int(connection.execute(select(fence.c.term)).scalar_one())
            claim = update(fence).where(fence.c.term == current).values(term=current + 1, owner=self.owner, batch=0)
            return current + 1 if connection.execute(claim).rowcount == 1 else 0

        self._check_folder()
        while not self.term:
            try:
                self.term = self._retry(take_term, writes=True)
            except DBAPIError as error:
                text = f"database {self._shown()} cannot be used: {_first_line(error)}; fix that, or give another --database"
                raise HoldfastError(text) from error
        self._file = self._file_identity()
        return self.term

    async def write(self, changes: Sequence[Change]) -> None:
        """Commit the changes in one transaction, possibly together with other waiting writes. Raises Fenced.

        Waits while the database is unreachable.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((changes, done))
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())
        await asyncio.shield(done)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query in a thread and return its result. Raises DatabaseUnreachable."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._once, query)

    def read_blocking(self, query: Callable[[Connection], T]) -> T:
        """Run a query in this thread and return its result. Waits while the database is unreachable."""
        return self._retry(query)

    async def check_term(self) -> None:
        """Raise Fenced if another orchestrator has taken over."""
        current = await self.read(lambda connection: connection.execute(select(fence.c.term)).scalar_one())
        if current != self.term:
            raise self._fenced(int(current))

    def simulate_outage(self, for_s: float) -> None:
        """Behave for `for_s` as if the database were unreachable."""
        self._outage_until_s = time.monotonic() + for_s

    def close(self) -> None:
        self._closing.set()
        self._writer.shutdown(wait=True, cancel_futures=True)
        self._readers.shutdown(wait=True, cancel_futures=True)
        self._engine.dispose()

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            batch, self._queue = self._queue, []
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
        """Commit each write alone, so that only the one that cannot be committed fails."""
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

        self._retry(commit, writes=True)

    def _retry(self, query: Callable[[Connection], T], *, writes: bool = False) -> T:
        """Run a query; while the database is unreachable, report that once and try again."""
        attempt = 0
        while True:
            try:
                answer = self._once(query, writes=writes)
            except DatabaseUnreachable as error:
                if attempt == 0:
                    self.report(f"{error}; waiting for it")
                if self._closing.wait(RETRY_S[min(attempt, len(RETRY_S) - 1)]):
                    raise
                attempt += 1
                continue
            if attempt:
                self.report(f"database {self._shown()} answers again")
            return answer

    def _once(self, query: Callable[[Connection], T], writes: bool = False) -> T:
        if time.monotonic() < self._outage_until_s:
            raise DatabaseUnreachable(f"database {self._shown()} is unreachable: a fault was injected")
        if self._file is not None and self._file_identity() != self._file:  # what is written to the removed file would be lost
            raise DatabaseUnreachable(f"database {self._shown()} is unreachable: its file was removed or replaced; put it back")
        try:
            with self._engine.connect().execution_options(writes=writes) as connection, connection.begin():
                return query(connection)
        except DBAPIError as error:
            if _is_transient(error, opening=not self.term):
                cause = self._missing_folder() or _first_line(error)
                raise DatabaseUnreachable(f"database {self._shown()} is unreachable: {cause}") from error
            raise

    def _check_folder(self) -> None:
        """Raise HoldfastError if SQLite could not write its log in the folder. Its own message names no cause."""
        folder = Path(self.url.database or ".").parent
        if self.url.get_backend_name() == "sqlite" and folder.is_dir() and not os.access(folder, os.W_OK):
            text = f"database {self._shown()} cannot be used: folder '{folder}' cannot be written"
            raise HoldfastError(f"{text}; fix that, or give another --database")

    def _missing_folder(self) -> str:
        """Return a message if SQLite's folder does not exist, else an empty text."""
        folder = Path(self.url.database or ".").parent
        missing = self.url.get_backend_name() == "sqlite" and not folder.is_dir()
        return f"there is no folder '{folder}'" if missing else ""

    def _file_identity(self) -> tuple[int, int] | None:
        """Return the identity of the database's file, or None if it has none."""
        if self.url.get_backend_name() != "sqlite" or not self.url.database:
            return None
        try:
            status = Path(self.url.database).stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _fenced(self, current: int) -> Fenced:
        return Fenced(
            f"another orchestrator has taken over (term {current}, this one has {self.term}); "
            "this one stops without changing anything: use the other's address"
        )

    def _shown(self) -> str:
        return f"'{self.url.render_as_string(hide_password=True)}'"


def _url(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        shown = f"'...{text[text.rindex('@') :]}'" if "@" in text else f"'{text}'"  # what precedes it may be a password
        raise HoldfastError(f"database {shown}: wanted a URL such as {EXAMPLES}") from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    kind = url.drivername.partition("+")[0]
    if kind not in ("postgresql", "sqlite"):
        raise HoldfastError(f"database '{url.drivername}': wanted SQLite or PostgreSQL; give one such as {EXAMPLES}")
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
        timeouts = {name: limit for name, limit in TIMEOUTS.items() if name not in url.query}
        return create_engine(url, pool_pre_ping=True, pool_size=3, connect_args=timeouts)
    except (NoSuchModuleError, ModuleNotFoundError, ImportError) as error:
        advice = "leave the driver out of the URL" if url.get_backend_name() == "sqlite" else "pip install 'holdfast[postgresql]'"
        raise MachineError(f"database '{url.drivername}' needs a driver: {error}; {advice}") from error


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions, so that a writer locks first
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _is_transient(error: DBAPIError, *, opening: bool) -> bool:
    """Return whether an error may pass by itself. A disk that becomes read-only while the orchestrator runs may recover; one that
    is read-only at the start is an error of the user."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in TRANSIENT_CODES or (code & 0xFF == sqlite3.SQLITE_READONLY and not opening)
    return isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    """Fail a waiting write. Its caller may have been cancelled."""
    if not done.done():
        done.set_exception(error)
        done.exception()  # retrieve it, so that asyncio does not warn about it


def _first_line(error: DBAPIError) -> str:
    return (str(error.orig).strip().splitlines() or ["no reason given"])[0]
