"""The leader's lease: one row that names the leader, its term and when its lease ends.

The end is a time of the database's clock: the server's on PostgreSQL, this machine's on SQLite. Other clocks need not agree with
it. Every statement below changes the row in one round trip. A leader that loses its connection therefore keeps no lock on the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, literal_column, or_, select, update

from holdfast.control.storage.schema import fence

_CLOCKS = {
    "postgresql": "extract(epoch from clock_timestamp())::double precision",
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
}


@dataclass(frozen=True, slots=True)
class Leader:
    """The row as it was read: the last leader, and how long its lease still lasts (negative: it has ended)."""

    term: int
    owner: str
    address: str
    remaining_s: float


def read_leader(connection: Connection) -> Leader:
    columns = (fence.c.term, fence.c.owner, fence.c.address, (fence.c.expires_s - _now_s(connection)).label("remaining_s"))
    return Leader(**connection.execute(select(*columns)).one()._mapping)


def claim(connection: Connection, leader: Leader, *, term: int, owner: str, address: str, lease_s: float) -> bool:
    """Take a term after this leader's. Return False if another was faster. The owner of a lease may replace itself at any time."""
    free = or_(fence.c.expires_s <= _now_s(connection), fence.c.owner == owner)
    values = {"term": term, "owner": owner, "address": address, "batch": 0, "expires_s": _now_s(connection) + lease_s}
    return _changes(connection, update(fence).where(fence.c.term == leader.term, free).values(**values))


def renew(connection: Connection, term: int, *, lease_s: float, **values: int) -> bool:
    """Let the lease of a term end `lease_s` from now, and set other columns. Returns whether the term is still the newest."""
    expires_s = _now_s(connection) + lease_s
    return _changes(connection, update(fence).where(fence.c.term == term).values(expires_s=expires_s, **values))


def release(connection: Connection, term: int) -> bool:
    """End the lease of a term now, so that a successor need not wait. Return whether the term was still the newest."""
    return _changes(connection, update(fence).where(fence.c.term == term).values(expires_s=0.0))


def _changes(connection: Connection, statement: Any) -> bool:
    return bool(connection.execute(statement).rowcount == 1)


def _now_s(connection: Connection) -> ColumnElement[float]:
    return literal_column(_CLOCKS[connection.dialect.name], Double)
