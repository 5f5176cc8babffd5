"""What a node has to say: its reports, first in first out, the last known state of each of its replicas, and its assignment.

All live in one SQLite file and change in transactions. So a controller that is killed at any moment finds, when it is back,
every change either reported and known or neither, and sees the latter again in what its PE host says.
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
"""Since format 2: which controller this is."""
ENDED = ("finished", "failed")
"""States that a replica does not leave: only a higher incarnation is started anew."""


@dataclass(frozen=True, slots=True)
class Known:
    """A replica as the node knows it. `assigned`: it was asked for, and no PE host has said anything about it yet."""

    incarnation: int
    state: str
    error: str | None = None

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def alive(self) -> bool:
        """Whether a PE host had it when it last said something."""
        return self.state not in ("assigned", *ENDED)


@dataclass(frozen=True, slots=True)
class Change:
    """A replica's new state, not yet a report. `stopped` ends what is known of it."""

    key: str
    incarnation: int
    state: str
    error: str | None = None


class Reports:
    """A durable list of reports in order of their numbers, and what is known of each replica.

    Numbers ascend, also when the file is lost with the node's folder: a new file starts at the clock's milliseconds, above all
    that an earlier one has given out. With more than `bound` reports waiting, only the newest of each replica is kept.
    `synced`: every change reaches the disk before it counts, so that power may fail too, and not only the process.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float], bound: int = BOUND, synced: bool = True) -> None:
        self._clock, self._bound = clock, bound
        self._lock = threading.Lock()
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute(f"PRAGMA synchronous={'FULL' if synced else 'OFF'}")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._prepare(path)
        except sqlite3.Error as error:
            raise HoldfastError(f"reports '{path}' cannot be opened: {error}; mend it, or give the node a new --work") from error
        rows = self._db.execute("SELECT key, incarnation, state, error FROM replicas")
        self._known: dict[str, Known] = {key: Known(incarnation, state, error) for key, incarnation, state, error in rows}
        self._last: int = self._db.execute("SELECT last FROM counter").fetchone()[0]
        self._count: int = self._db.execute("SELECT count(*) FROM reports").fetchone()[0]
        row = self._db.execute("SELECT document FROM assignment").fetchone()
        try:
            self._assignment = Assignment.model_validate_json(row[0]) if row else Assignment()
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise HoldfastError(
                f"reports '{path}': what the node was assigned is stored in words that this holdfast does not take "
                f"({'.'.join(map(str, first['loc']))}: {first['msg']}); run the one that wrote it, or give the node a new --work"
            ) from None
        self.owner: str = self._db.execute("SELECT id FROM owner").fetchone()[0]
        """Tells the controller whose reports these are from any other, also one of the same node's name."""

    def _prepare(self, path: Path) -> None:
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise HoldfastError(
                f"reports '{path}' were written by a newer holdfast (format {version}, this one knows {VERSION}); "
                "run that one, or give the node a new --work"
            )
        if version < VERSION:
            begun = f"{SCHEMA} INSERT INTO counter VALUES ({int(self._clock() * 1000)});" if version < 1 else ""
            owned = f"{OWNER} INSERT INTO owner VALUES ('{uuid4().hex}');"
            self._db.executescript(f"BEGIN; {begun} {owned} PRAGMA user_version={VERSION}; COMMIT;")

    @property
    def known(self) -> Mapping[str, Known]:
        """What the node knows of each replica that it was ever asked for and has not reported as stopped."""
        return self._known

    def __len__(self) -> int:
        return self._count

    @property
    def assignment(self) -> Assignment:
        """The newest assignment accepted, whole."""
        return self._assignment

    def expect(self, assignment: Assignment) -> None:
        """Accept an assignment, before a PE host hears of it. What is known of the same incarnation of a replica stays."""
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
            self._known[replica.key] = Known(replica.incarnation, "assigned")

    def record(self, changes: Sequence[Change]) -> None:
        """Make reports of changes, in their order. When this returns they will be delivered, whatever is killed."""
        if not changes:
            return
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
                self._known[change.key] = Known(change.incarnation, change.state, change.error)

    def waiting(self, limit: int) -> tuple[Report, ...]:
        """The first reports that are not yet acknowledged, in order."""
        if not self._count:
            return ()
        with self._lock:
            rows = self._db.execute("SELECT * FROM reports ORDER BY number LIMIT ?", (limit,)).fetchall()
        return tuple(Report(number=n, at_s=t, key=k, incarnation=i, state=s, error=e) for n, t, k, i, s, e in rows)

    def acknowledge(self, number: int) -> None:
        """Drop the reports up to a number. A number above all that was given out is passed by all that follow."""
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
