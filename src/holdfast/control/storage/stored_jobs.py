"""Jobs, histories, placements and nodes in the database: the changes that write them and the queries that read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.control.jobs.state_machine import StateChange
from holdfast.control.storage.database import Change
from holdfast.control.storage.schema import history, jobs, nodes, placement


@dataclass(frozen=True, slots=True)
class StoredPlacement:
    """A replica's placement as it is stored: its node, its incarnation and its state; `left_on` has names separated by commas."""

    job: int
    task: str
    replica: int
    node: str
    incarnation: int = 1
    active: bool = True
    failures: int = 0
    abandoned: bool = False
    finished: bool = False
    left_on: str = ""

    def row(self) -> dict[str, Any]:
        return asdict(self) | {name: int(getattr(self, name)) for name in _FLAGS}


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as it is stored."""

    id: int
    name: str
    type: str
    host_kind: str
    state: str
    ended: bool
    reason: str
    document: str
    layout: str | None
    refs: Mapping[str, int]
    submitted_s: float
    changed_s: float


_FLAGS = ("active", "abandoned", "finished")
_SUMMARY = ("id", "name", "type", "host_kind", "state", "ended", "reason", "submitted_s", "changed_s")


def insert_job(job: StoredJob, first: StateChange) -> list[Change]:
    """Return the changes that insert a new job in its first state."""
    row = asdict(job) | {"ended": int(job.ended), "refs": json.dumps(dict(job.refs))}
    return [Change(insert(jobs), [row]), *insert_history(job.id, [first], first=0)]


def update_job(
    job: int, *, state: str, ended: bool, reason: str, at_s: float, layout: str | None, refs: Mapping[str, int]
) -> Change:
    """Return the change that updates a job which enters a state. Its layout is written only if it is given."""
    values: dict[str, Any] = {
        "state": state,
        "ended": int(ended),
        "reason": storable(reason),
        "changed_s": at_s,
        "refs": json.dumps(dict(refs)),
    }
    if layout is not None:
        values["layout"] = layout
    return Change(update(jobs).where(jobs.c.id == job).values(**values))


def insert_history(job: int, changes: Sequence[StateChange], *, first: int) -> list[Change]:
    """Return the changes that insert entries of a job's history, numbered from `first`."""
    rows = [
        {"job": job, "number": first + index, **asdict(change), "cause": storable(change.cause)}
        for index, change in enumerate(changes)
    ]
    return [Change(insert(history), rows)] if rows else []


def insert_placements(placements: Sequence[StoredPlacement]) -> list[Change]:
    """Return the changes that insert the placements of replicas that had none."""
    return [Change(insert(placement), [each.row() for each in placements])] if placements else []


def replace_placements(placements: Sequence[StoredPlacement]) -> list[Change]:
    """Return the changes that replace the stored placements of these replicas."""
    return [*(Change(delete(placement).where(_is_replica(each))) for each in placements), *insert_placements(placements)]


def delete_placements(job: int, tasks: Sequence[str]) -> list[Change]:
    """Return the changes that delete the placements of these tasks of a job."""
    return [Change(delete(placement).where(placement.c.job == job, placement.c.task.in_(tasks)))] if tasks else []


def reset_failures(stored: StoredPlacement) -> list[Change]:
    """Return the changes that set the failures of an incarnation to 0. They have no effect if a later incarnation is stored."""
    return [Change(update(placement).where(_is_incarnation(stored)).values(failures=0))]


def mark_finished(stored: StoredPlacement) -> list[Change]:
    """Return the changes that mark an incarnation as finished. They have no effect if a later one, or none, is stored."""
    return [Change(update(placement).where(_is_incarnation(stored)).values(finished=1))]


def set_draining(name: str, draining: bool) -> list[Change]:
    deletion = Change(delete(nodes).where(nodes.c.name == name))
    return [deletion, Change(insert(nodes), [{"name": name, "draining": int(draining)}])]


def draining_nodes(connection: Connection) -> list[str]:
    return list(connection.execute(select(nodes.c.name).where(nodes.c.draining == 1)).scalars())


def last_job(connection: Connection) -> int:
    return int(connection.execute(select(func.max(jobs.c.id))).scalar() or 0)


def unended_jobs(connection: Connection) -> list[StoredJob]:
    """Return the jobs that have not ended, oldest first."""
    return [_job(row) for row in connection.execute(select(jobs).where(jobs.c.ended == 0).order_by(jobs.c.id))]


def all_placements(connection: Connection) -> list[StoredPlacement]:
    rows = connection.execute(select(placement).order_by(placement.c.job, placement.c.task, placement.c.replica))
    return [StoredPlacement(**{**row._mapping, **{name: bool(row._mapping[name]) for name in _FLAGS}}) for row in rows]


def job_by_id(connection: Connection, job: int) -> StoredJob | None:
    row = connection.execute(select(jobs).where(jobs.c.id == job)).one_or_none()
    return None if row is None else _job(row)


def history_of(connection: Connection, job: int) -> tuple[StateChange, ...]:
    return tuple(map(_change, connection.execute(select(history).where(history.c.job == job).order_by(history.c.number))))


def unended_histories(connection: Connection) -> dict[int, list[StateChange]]:
    """Return the histories of all jobs that have not ended, with one query."""
    rows = connection.execute(
        select(history).join(jobs, jobs.c.id == history.c.job).where(jobs.c.ended == 0).order_by(history.c.job, history.c.number)
    )
    histories: dict[int, list[StateChange]] = {}
    for row in rows:
        histories.setdefault(row.job, []).append(_change(row))
    return histories


def jobs_page(connection: Connection, *, state: str | None, limit: int, after: int | None) -> list[dict[str, Any]]:
    """Return a page of jobs without their documents, newest first; only those older than job `after`, if it is given."""
    query = select(*(jobs.c[name] for name in _SUMMARY)).order_by(jobs.c.id.desc()).limit(limit)
    if state is not None:
        query = query.where(jobs.c.state == state)
    if after is not None:
        query = query.where(jobs.c.id < after)
    return [{**row._mapping, "ended": bool(row.ended)} for row in connection.execute(query)]


def storable(text: str) -> str:
    """Return text that every database accepts. PostgreSQL refuses a zero byte, and a job with one in its reason could not end.

    >>> storable("a\\0b")
    'a\ufffdb'
    """
    return text.replace("\0", "\ufffd")


def _is_replica(stored: StoredPlacement) -> Any:
    return (placement.c.job == stored.job) & (placement.c.task == stored.task) & (placement.c.replica == stored.replica)


def _is_incarnation(stored: StoredPlacement) -> Any:
    return _is_replica(stored) & (placement.c.incarnation == stored.incarnation)


def _change(row: Row[Any]) -> StateChange:
    return StateChange(row.state, row.at_s, row.event, row.cause)


def _job(row: Row[Any]) -> StoredJob:
    return StoredJob(**{**row._mapping, "ended": bool(row.ended), "refs": json.loads(row.refs)})
