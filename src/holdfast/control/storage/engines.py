"""Connections to the database: URLs, timeouts, and which errors pass by themselves."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, InterfaceError, NoSuchModuleError, OperationalError

from holdfast.errors import HoldfastError, MachineError

TIMEOUTS = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""When a silent PostgreSQL server counts as unreachable, unless its URL says otherwise: after 10 s without a connection, 15 s
(given in milliseconds) without an acknowledgement of what was sent, or 25 s without any sign of life."""

SESSION = {
    "lock_timeout": "2s",
    "statement_timeout": "10s",
    "idle_in_transaction_session_timeout": "5s",
    "tcp_user_timeout": "15000",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""Settings that the server applies to each connection. It ends the transaction of a client that is silent for 5 s, and a wait for a
lock after 2 s; the write is then tried again."""

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
"""SQLite's codes for errors that may pass at the start. It has one class of exception for these and for all others."""

READ_ONLY = "25006"
"""PostgreSQL's code for a server that takes no writes, such as one that is not yet promoted in a failover."""
EXAMPLES = "sqlite:///jobs.db or postgresql://user@host/name"


def database_url(text: str) -> URL:
    """Return the URL of a database. Raises HoldfastError."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        safe_text = f"'...{text[text.rindex('@') :]}'" if "@" in text else f"'{text}'"  # what precedes it may be a password
        raise HoldfastError(f"database {safe_text}: wanted a URL such as {EXAMPLES}") from None
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


def database_engine(url: URL) -> Engine:
    """Return an engine for a URL. Raises MachineError if its driver is missing."""
    try:
        if url.get_backend_name() == "sqlite":
            engine = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        timeouts = {name: limit for name, limit in TIMEOUTS.items() if name not in url.query}
        engine = create_engine(url, pool_pre_ping=True, pool_size=4, connect_args=timeouts)
        event.listen(engine, "connect", _set_up_postgresql)
        return engine
    except (NoSuchModuleError, ModuleNotFoundError, ImportError) as error:
        advice = "leave the driver out of the URL" if url.get_backend_name() == "sqlite" else "pip install 'holdfast[postgresql]'"
        raise MachineError(f"database '{url.drivername}' needs a driver: {error}; {advice}") from error


def passes_by_itself(error: DBAPIError) -> bool:
    """Return whether an error may pass while an orchestrator runs. Only errors of the written values do not."""
    return not isinstance(error, IntegrityError | DataError)


def passes_at_start(error: DBAPIError) -> bool:
    """Return whether an error may pass while an orchestrator starts. A file that cannot be written then is an error of the user."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in TRANSIENT_CODES
    read_only = getattr(error.orig, "sqlstate", None) == READ_ONLY
    return isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated or read_only


def first_line(error: BaseException) -> str:
    """Return the first line of a driver's message. It has no SQL; that is in the text of SQLAlchemy's own error."""
    return (str(getattr(error, "orig", None) or error).strip().splitlines() or ["no reason given"])[0]


def _set_up_postgresql(connection: Any, _: object) -> None:
    connection.autocommit = True
    connection.execute("; ".join(f"SET {name} = '{limit}'" for name, limit in SESSION.items()))
    connection.autocommit = False


def _set_up_sqlite(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions, so that a writer locks first
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
