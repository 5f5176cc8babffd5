"""A node's durable state: its reports in order, the last known state of each replica, and its assignment.

All are in one SQLite file and change in transactions. If the controller is killed, every change is either stored completely or not
at all. In the latter case the controller finds the change again in the status of its PE host.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pydantic import ValidationError

from holdfast.errors import HoldfastError
from holdfast.protocol.messages import Assignment, Report

VERSION = 2
BOUND = 10_000
SCHEMA = """
CREATE TABLE reports (
    number INTEGER PRIMARY KEY, at_s REAL NOT NULL, key TEXT NOT NULL, incarnation INTEGER NOT NULL, state TEXT NOT NULL, error TEXT
);
CREATE TABLE replicas (key TEXT PRIMARY KEY, incarnation INTEGER NOT NULL, state TEXT NOT NULL, error TEXT);
CREATE TABLE counter (last INTEGER NOT NULL);
CREATE TABLE assignment (document TEXT NOT NULL);
"""
OWNER = "CREATE TABLE owner (id TEXT NOT NULL);"
"""Since format 2: the identity of the controller."""
ENDED = ("finished", "failed", "lost")
"""States that a replica does not leave. Only a higher incarnation starts again."""


@dataclass(frozen=True, slots=True)
class KnownReplica:
    """A replica as the node knows it. In the state `assigned`, no PE host has reported it yet."""

    incarnation: int
    state: str
    error: str | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def alive(self) -> bool:
        """Whether it ran according to the last status of the PE host."""
        return self.state not in ("assigned", *ENDED)


@dataclass(frozen=True, slots=True)
class ReplicaChange:
    """A replica's new state, not yet a report. After `stopped`, the node forgets the replica."""

    key: str
    incarnation: int
    state: str
    error: str | None = None


class Reports:
    """A durable list of numbered reports, and the last known state of each replica.

    Numbers ascend, even if the file is lost with the node's folder: a new file starts at the clock's milliseconds, which are above
    all numbers of an earlier file. If more than `bound` reports wait, only the newest of each replica is kept. With `synced`, every
    change is on disk before a method returns, so that it survives a power failure.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float], bound: int = BOUND, synced: bool = True) -> None:
        self._clock, self._bound = clock, bound
        self._lock = threading.RLock()
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute(f"PRAGMA synchronous={'FULL' if synced else 'OFF'}")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._prepare(path)
        except sqlite3.Error as error:
            raise HoldfastError(f"reports '{path}' cannot be opened: {error}; repair it, or give the node a new --work") from error
        rows = self._db.execute("SELECT key, incarnation, state, error FROM replicas")
        self._known: dict[str, KnownReplica] = {
            key: KnownReplica(incarnation, state, error) for key, incarnation, state, error in rows
        }
        self._last: int = self._db.execute("SELECT last FROM counter").fetchone()[0]
        self._count: int = self._db.execute("SELECT count(*) FROM reports").fetchone()[0]
        row = self._db.execute("SELECT document FROM assignment").fetchone()
        try:
            self._assignment = Assignment.model_validate_json(row[0]) if row else Assignment()
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise HoldfastError(
                f"reports '{path}': the stored assignment is not valid for this version of holdfast "
                f"({'.'.join(map(str, first['loc']))}: {first['msg']}); run the version that wrote it, or give a new --work"
            ) from None
        self.owner: str = self._db.execute("SELECT id FROM owner").fetchone()[0]
        """The identity of this controller. Another controller with the same node name has another one."""

    def _prepare(self, path: Path) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise HoldfastError(
                f"reports '{path}' were written by a newer holdfast (format {version}, this one reads up to {VERSION}); "
                "run the newer one, or give the node a new --work"
            )
        if version < VERSION:
            create = f"{SCHEMA} INSERT INTO counter VALUES ({int(self._clock() * 1000)});" if version < 1 else ""
            add_owner = f"{OWNER} INSERT INTO owner VALUES ('{uuid4().hex}');"
            self._db.executescript(f"BEGIN; {create} {add_owner} PRAGMA user_version={VERSION}; COMMIT;")

    @property
    def known(self) -> Mapping[str, KnownReplica]:
        """The last known state of each replica that was assigned and has not been reported as stopped."""
        return self._known

    def __len__(self) -> int:
        return self._count

    @property
    def last(self) -> int:
        """The number of the newest report."""
        return self._last

    @property
    def assignment(self) -> Assignment:
        """The newest accepted assignment, complete."""
        return self._assignment

    def expect(self, assignment: Assignment) -> None:
        """Store an assignment before the PE host gets it. The known state of a replica stays unless its incarnation is higher."""
        known = self._known
        new = [r for r in assignment.replicas if r.key not in known or known[r.key].incarnation < r.incarnation]
        self._transact(
            [
                ("INSERT OR REPLACE INTO replicas VALUES (?, ?, 'assigned', NULL)", [(r.key, r.incarnation) for r in new]),
                ("DELETE FROM assignment", [()]),
                ("INSERT INTO assignment VALUES (?)", [(assignment.model_dump_json(exclude_defaults=True),)]),
            ]
        )
        self._assignment = assignment
        for replica in new:
            self._known[replica.key] = KnownReplica(replica.incarnation, "assigned")

    def record(self, changes: Sequence[ReplicaChange]) -> None:
        """Store changes as reports, in order. When this returns, they will be delivered even if the controller is killed."""
        if not changes:
            return
        with self._lock:  # a thread of a cancelled task may still record
            self._record(changes)

    def _record(self, changes: Sequence[ReplicaChange]) -> None:
        at_s = self._clock()
        numbered = list(enumerate(changes, start=self._last + 1))
        statements: list[tuple[str, list[tuple[object, ...]]]] = [
            (
                "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?)",
                [(number, at_s, c.key, c.incarnation, c.state, c.error) for number, c in numbered],
            ),
            (
                "INSERT OR REPLACE INTO replicas VALUES (?, ?, ?, ?)",
                [(c.key, c.incarnation, c.state, c.error) for c in changes if c.state != "stopped"],
            ),
            ("DELETE FROM replicas WHERE key = ?", [(c.key,) for c in changes if c.state == "stopped"]),
            ("UPDATE counter SET last = ?", [(numbered[-1][0],)]),
        ]
        if self._count + len(changes) > self._bound:
            newest = "SELECT max(number) FROM reports GROUP BY key"
            statements.append((f"DELETE FROM reports WHERE number NOT IN ({newest})", [()]))
        self._transact(statements)
        self._last = numbered[-1][0]
        for change in changes:
            if change.state == "stopped":
                self._known.pop(change.key, None)
            else:
                self._known[change.key] = KnownReplica(change.incarnation, change.state, change.error)

    def waiting(self, limit: int) -> tuple[Report, ...]:
        """Return the first reports that are not yet acknowledged, in order."""
        if not self._count:
            return ()
        with self._lock:
            rows = self._db.execute("SELECT * FROM reports ORDER BY number LIMIT ?", (limit,)).fetchall()
        return tuple(Report(number=n, at_s=t, key=k, incarnation=i, state=s, error=e) for n, t, k, i, s, e in rows)

    def acknowledge(self, number: int) -> None:
        """Drop the reports up to a number. If no report has this number yet, later reports get higher ones."""
        with self._lock:
            if number > self._last:
                self._transact([("UPDATE counter SET last = ?", [(number,)])])
                self._last = number
            if self._count:
                self._transact([("DELETE FROM reports WHERE number <= ?", [(number,)])])

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _transact(self, statements: Sequence[tuple[str, Sequence[tuple[object, ...]]]]) -> None:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for statement, rows in statements:
                    self._db.executemany(statement, rows)
                (count,) = self._db.execute("SELECT count(*) FROM reports").fetchone()
                self._db.execute("COMMIT")
            except sqlite3.Error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._count = count
