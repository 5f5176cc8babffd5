"""The orchestrator's database. The database itself ensures that only one orchestrator writes, and waiting writes share a commit.

An orchestrator becomes the leader by taking the next term, once the lease of the previous leader has ended (`lease.py`). Every
write checks that the term is still its own, so the write of an orchestrator that was replaced fails and changes nothing. Each batch
of changes is committed with its number: a batch whose connection broke is tried again, and is not applied twice if it was committed
and only the answer was lost.

A storage error never reaches a job. A write waits until the database takes it, whatever the error, unless its values cannot be
stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import Executable

from holdfast.control.storage import lease
from holdfast.control.storage.engines import database_engine, database_url, first_line, passes_at_start, passes_by_itself
from holdfast.control.storage.schema import WITH_LEASE, fence, migrate, placement, stored_version
from holdfast.errors import HoldfastError

T = TypeVar("T")

RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Delays between attempts while the database is unreachable; the last one is repeated."""
STANDBY_POLL_S = 0.25
RESTORED_SKIP = 1000
"""How many terms, job numbers and incarnations are skipped after a restore: more than were used since the backup."""
RENEWALS, MARGIN = 5, 0.2
"""A leader renews its lease five times per lease, and steps down when a fifth of it is left."""
COMMIT_IF_LEADER = """
WITH leader AS (
  UPDATE fence SET batch = %(batch)s, expires_s = extract(epoch from clock_timestamp()) + %(lease_s)s
  WHERE term = %(term)s AND batch < %(batch)s RETURNING 1)
SELECT 1 / count(*) FROM leader"""
"""Fails with a division by zero unless the term is the newest one and the batch a new one. A commit renews the lease, too."""


class LeadershipLost(HoldfastError):
    """This orchestrator is not the leader any more."""

    http_status = 503


class Fenced(LeadershipLost):
    """Another orchestrator has taken over."""


class DatabaseRolledBack(LeadershipLost):
    """The database has lost this leader's term: it is a restored backup, or its failover lost transactions."""


class LeaseExpired(LeadershipLost):
    """The leader could not renew its lease in time."""


class LeaseHeld(HoldfastError):
    """Another orchestrator is the leader."""


class DatabaseUnreachable(HoldfastError):
    """The database does not answer, or takes no writes, at the moment."""

    http_status = 503


class NotStorable(HoldfastError):
    """The database refuses the values of a write."""

    http_status = 503


@dataclass(frozen=True, slots=True)
class Change:
    """One statement of a transaction, with its rows if it inserts several."""

    statement: Executable
    rows: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """An orchestrator that wants to be the leader: its name, its address, and how long a lease it takes.

    A candidate may replace a leader of the same name at once, so nobody else may use that name while it lives.
    """

    owner: str = ""
    address: str = ""
    lease_s: float = 10.0


def boot_s() -> float:
    """Return the seconds since the machine started. Unlike a monotonic clock, this counts the time that the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Database:
    """The database at a URL. `report` is called with a text when it becomes unreachable and when it answers again."""

    def __init__(self, url: str, *, report: Callable[[str], None], candidate: Candidate | None = None) -> None:
        self.url = database_url(url)
        self.report, self.candidate = report, candidate or Candidate()
        self.term = 0
        self.lease_ends_s = 0.0
        self._engine = database_engine(self.url)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="database-writer")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="database-reader")
        self._renewer = ThreadPoolExecutor(1, thread_name_prefix="database-lease")
        self._queue: list[tuple[Sequence[Change], asyncio.Future[None]]] = []
        self._flusher: asyncio.Task[None] | None = None
        self._outage_until_s = 0.0
        self._batches = 0
        self._closing = threading.Event()
        self._lease_lock = threading.Lock()
        self._file: tuple[int, int] | None = None

    @property
    def file(self) -> Path | None:
        """The database's file, or None if a server has it."""
        return Path(self.url.database or "") if self.url.get_backend_name() == "sqlite" else None

    def open(self, *, standby: bool = False, restored: bool = False) -> int:
        """Wait for the database, migrate it and take the next term; return the term.

        If another orchestrator is the leader, wait for the end of its lease with `standby`, else raise LeaseHeld. Raises
        HoldfastError if waiting does not help: the database cannot be written, or is not holdfast's.

        `restored`: the database is a restored backup. Nodes have obeyed terms that it does not know, so terms are skipped.
        """
        self._check_folder()
        reported = -1
        try:
            while not self.term:
                leader = self._retry(self._living_leader)
                if leader is None:
                    self._take_term(restored=restored)
                elif not standby:
                    raise LeaseHeld(self._held_by(leader))
                else:
                    if leader.term != reported:
                        self.report(f"standing by: the leader is '{leader.owner}' at {leader.address} (term {leader.term})")
                    reported = leader.term
                    self._pause(min(max(leader.remaining_s, 0.0) + 0.02, STANDBY_POLL_S))
        except DBAPIError as error:
            text = f"database {self._shown()} cannot be used: {first_line(error)}; fix that, or give another --database"
            raise HoldfastError(text) from error
        self._file = self._file_identity()
        return self.term

    async def write(self, changes: Sequence[Change]) -> None:
        """Commit the changes in one transaction, possibly together with other waiting writes. Raises Fenced, NotStorable.

        Waits while the database is unreachable.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((changes, done))
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush())
        await asyncio.shield(done)

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a query in a thread and return its result. Raises DatabaseUnreachable."""
        return await self._run(self._readers, self._once, query)

    def read_blocking(self, query: Callable[[Connection], T]) -> T:
        """Run a query in this thread and return its result. Waits while the database is unreachable."""
        return self._retry(query)

    @property
    def leads(self) -> bool:
        """Whether the lease has not ended, by this machine's clock."""
        return boot_s() < self.lease_ends_s

    async def keep_lease(self) -> None:
        """Renew the lease until cancelled. Raises Fenced, or LeaseExpired while a fifth of the lease is left.

        A thread renews it, because the event loop may be busy for long. Only if that thread waits, too, does the lease end.
        """
        renewals = asyncio.get_running_loop().run_in_executor(self._renewer, self._renew_forever)
        while (remaining_s := self.lease_ends_s - boot_s() - MARGIN * self.candidate.lease_s) > 0:
            done, _ = await asyncio.wait({renewals}, timeout=remaining_s)
            for each in done:
                each.result()
                return
        raise LeaseExpired(f"the lease of term {self.term} could not be renewed in time, and this leader steps down")

    def simulate_outage(self, for_s: float) -> None:
        """Behave for `for_s` as if the database were unreachable."""
        self._outage_until_s = time.monotonic() + for_s

    def stop_waiting(self) -> None:
        """Let calls that wait for the database, or for the end of a lease, fail with DatabaseUnreachable."""
        self._closing.set()

    def close(self, *, release: bool = False) -> None:
        """Close all connections; with `release`, end the lease first, so that a successor need not wait."""
        self._closing.set()
        self._renewer.shutdown(wait=True, cancel_futures=True)
        self._writer.shutdown(wait=True, cancel_futures=True)
        self._readers.shutdown(wait=True, cancel_futures=True)
        if release and self.term:
            with contextlib.suppress(HoldfastError, DBAPIError):  # the lease ends by itself
                self._once(lambda connection: lease.release(connection, self.term), writes=True, alone=True)
        self._engine.dispose()

    def _living_leader(self, connection: Connection) -> lease.Leader | None:
        """Return the leader if it is another orchestrator whose lease has not ended. An older database has no leases."""
        if stored_version(connection) < WITH_LEASE:
            return None
        leader = lease.read_leader(connection)
        return leader if leader.remaining_s > 0 and leader.owner != self.candidate.owner else None

    def _take_term(self, *, restored: bool) -> None:
        """Migrate the database and take the next term, unless another is faster."""
        self._retry(migrate, writes=True)
        if restored:
            self._retry(_skip_incarnations, writes=True)
        began_s = boot_s()
        leader = self._retry(lease.read_leader)
        candidate = self.candidate
        term = leader.term + (RESTORED_SKIP if restored else 1)

        def claim(connection: Connection) -> bool:
            return lease.claim(connection, leader, term=term, **asdict(candidate))

        if self._retry(claim, writes=True, alone=True):
            self.term, self.lease_ends_s = term, began_s + candidate.lease_s

    def _renew_forever(self) -> None:
        """Renew the lease until the database is closed. Raises Fenced."""
        lease_s = self.candidate.lease_s
        while not self._closing.wait(max(0.0, self.lease_ends_s - boot_s() - lease_s * (1 - 1 / RENEWALS))):
            try:
                self._renew()
            except DatabaseUnreachable:
                self._closing.wait(RETRY_S[0])

    def _renew(self) -> None:
        began_s = boot_s()
        lease_s = self.candidate.lease_s
        if not self._once(lambda connection: lease.renew(connection, self.term, lease_s=lease_s), writes=True, alone=True):
            raise self._fenced(self._once(lease.read_leader).term)
        self._note_renewal(began_s)

    def _note_renewal(self, began_s: float) -> None:
        """Note that the lease was renewed by a statement that was sent at `began_s`."""
        with self._lease_lock:
            self.lease_ends_s = max(self.lease_ends_s, began_s + self.candidate.lease_s)

    async def _run(self, threads: ThreadPoolExecutor, function: Callable[[Any], T], argument: Any) -> T:
        """Return the result of a function in a thread. Raises DatabaseUnreachable if the database is closed meanwhile."""
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, function, argument)
        except (RuntimeError, asyncio.CancelledError) as error:
            if not self._closing.is_set():
                raise
            raise DatabaseUnreachable("this orchestrator steps down or ends") from error

    async def _flush(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            try:
                await self._run(self._writer, self._commit, [changes for changes, _ in batch])
            except Exception as error:
                if len(batch) > 1 and not isinstance(error, LeadershipLost | DatabaseUnreachable):
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
                await self._run(self._writer, self._commit, [changes])
            except Exception as error:
                _fail(done, error)
            else:
                done.set_result(None)

    def _commit(self, batch: Sequence[Sequence[Change]]) -> None:
        self._batches += 1
        number, began_s = self._batches, 0.0

        def commit(connection: Connection) -> None:
            nonlocal began_s
            if self._is_committed(connection, number):
                return
            began_s = boot_s()
            for changes in batch:
                for change in changes:
                    connection.execute(change.statement, list(change.rows) or None)
            self._commit_if_leader(connection, number)

        try:
            self._retry(commit, writes=True)
        except DBAPIError as error:
            if not self._retry(lambda connection: self._is_committed(connection, number)):
                raise NotStorable(f"database {self._shown()} refuses a write: {first_line(error)}") from error
        self._note_renewal(began_s)

    def _is_committed(self, connection: Connection, number: int) -> bool:
        """Return whether this batch is committed already: its answer may have been lost. Raises Fenced."""
        holder = connection.execute(select(fence.c.term, fence.c.batch)).one()
        if holder.term != self.term:
            raise self._fenced(int(holder.term))
        return int(holder.batch) == number

    def _commit_if_leader(self, connection: Connection, number: int) -> None:
        """Commit the transaction if this is still the leader.

        PostgreSQL gets the check and the commit in one message, so that a leader which is cut off holds no lock on the fence.
        """
        lease_s = self.candidate.lease_s
        if connection.dialect.name == "postgresql":
            driver: Any = connection.connection.driver_connection
            with driver.pipeline():
                driver.execute(COMMIT_IF_LEADER, {"batch": number, "term": self.term, "lease_s": lease_s})
                driver.commit()
        else:
            lease.renew(connection, self.term, lease_s=lease_s, batch=number)  # the transaction has locked the file since its begin

    def _retry(self, query: Callable[[Connection], T], *, writes: bool = False, alone: bool = False) -> T:
        """Run a query; while the database is unreachable, report that once and try again."""
        attempt = 0
        while True:
            try:
                answer = self._once(query, writes=writes, alone=alone)
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

    def _once(self, query: Callable[[Connection], T], writes: bool = False, alone: bool = False) -> T:
        """Run a query in a transaction. `alone`: it is one statement, which PostgreSQL commits at once."""
        if time.monotonic() < self._outage_until_s:
            raise DatabaseUnreachable(f"database {self._shown()} is unreachable: a fault was injected")
        if self._file is not None and self._file_identity() != self._file:  # what is written to the removed file would be lost
            raise DatabaseUnreachable(f"database {self._shown()} is unreachable: its file was removed or replaced; put it back")
        dialect = self._engine.dialect
        options = {"isolation_level": "AUTOCOMMIT"} if alone and dialect.name == "postgresql" else {}
        try:
            with self._engine.connect().execution_options(writes=writes, **options) as connection, connection.begin():
                return query(connection)
        except DBAPIError as error:
            if passes_by_itself(error) if self.term else passes_at_start(error):
                raise self._unreachable(error) from error
            raise
        except dialect.loaded_dbapi.Error as error:  # of a statement that SQLAlchemy did not send
            raise self._unreachable(error) from error

    def _unreachable(self, error: BaseException) -> DatabaseUnreachable:
        return DatabaseUnreachable(f"database {self._shown()} is unreachable: {self._missing_folder() or first_line(error)}")

    def _pause(self, for_s: float) -> None:
        if self._closing.wait(for_s):
            raise DatabaseUnreachable("the orchestrator ends")

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

    def _fenced(self, current: int) -> LeadershipLost:
        if current < self.term:
            return DatabaseRolledBack(
                f"database {self._shown()} has term {current}, and this orchestrator has {self.term}: it lost transactions in a "
                "failover, or is a restored backup; start one orchestrator with --restored, so that nodes obey it"
            )
        return Fenced(
            f"another orchestrator has taken over (term {current}, this one has {self.term}); "
            "this one stops without changing anything: use the other's address"
        )

    def _held_by(self, leader: lease.Leader) -> str:
        return (
            f"database {self._shown()} already has a leader: orchestrator '{leader.owner}' at {leader.address} "
            f"(term {leader.term}); use that one, stop it first, or start this one with --standby to take over when that one fails"
        )

    def _shown(self) -> str:
        return f"'{self.url.render_as_string(hide_password=True)}'"


def _skip_incarnations(connection: Connection) -> None:
    """Give every replica an incarnation that no node has seen."""
    connection.execute(update(placement).values(incarnation=placement.c.incarnation + RESTORED_SKIP))


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    """Fail a waiting write. Its caller may have been cancelled."""
    if not done.done():
        done.set_exception(error)
        done.exception()  # retrieve it, so that asyncio does not warn about it
