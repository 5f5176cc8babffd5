"""What is kept of jobs in the database: the changes that write it, and the questions that read it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from holdfast.control.jobs.state_machine import StateChange
from holdfast.control.storage.database import Change
from holdfast.control.storage.schema import history, jobs, nodes, placement


@dataclass(frozen=True, slots=True)
class StoredPlacement:
    """Where a replica is, as it is kept: the node, and which incarnation of it."""

    job: int
    task: str
    replica: int
    node: str
    incarnation: int = 1
    active: bool = True
    failures: int = 0
    abandoned: bool = False
    finished: bool = False

    def row(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "task": self.task,
            "replica": self.replica,
            "node": self.node,
            "incarnation": self.incarnation,
            "active": int(self.active),
            "failures": self.failures,
            "abandoned": int(self.abandoned),
            "finished": int(self.finished),
        }


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as the database has it."""

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


def insert_job(kept: StoredJob, move: StateChange) -> list[Change]:
    """A new job, in its first state."""
    row = {
        "id": kept.id,
        "name": kept.name,
        "type": kept.type,
        "host_kind": kept.host_kind,
        "state": kept.state,
        "ended": int(kept.ended),
        "reason": kept.reason,
        "document": kept.document,
        "layout": kept.layout,
        "refs": json.dumps(dict(kept.refs)),
        "submitted_s": kept.submitted_s,
        "changed_s": kept.changed_s,
    }
    return [Change(insert(jobs), [row]), *insert_history(kept.id, [move], first=0)]


def update_job(
    job: int, *, state: str, ended: bool, reason: str, at_s: float, layout: str | None, refs: Mapping[str, int]
) -> Change:
    """The state a job has entered, and what is known of it by then."""
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


def insert_history(job: int, moves: Sequence[StateChange], *, first: int) -> list[Change]:
    """Lines of a job's story, numbered from `first`."""
    rows = [
        {
            "job": job,
            "number": first + index,
            "state": move.state,
            "at_s": move.at_s,
            "event": move.event,
            "cause": storable(move.cause),
        }
        for index, move in enumerate(moves)
    ]
    return [Change(insert(history), rows)] if rows else []


def replace_placements(placed: Sequence[StoredPlacement]) -> list[Change]:
    """Replicas that have a place, each written anew."""
    rows = [each.row() for each in placed]
    gone = [delete(placement).where(_is(each)) for each in placed]
    return [*map(Change, gone), Change(insert(placement), rows)] if rows else []


def reset_failures(placed: StoredPlacement) -> list[Change]:
    """The failures of an incarnation count no more; nothing where a later one has its place already."""
    return [Change(update(placement).where(_is_incarnation(placed)).values(failures=0))]


def mark_finished(placed: StoredPlacement) -> list[Change]:
    """An incarnation has finished; nothing where a later one has its place already, or none has."""
    return [Change(update(placement).where(_is_incarnation(placed)).values(finished=1))]


def insert_placements(placed: Sequence[StoredPlacement]) -> list[Change]:
    """Replicas that had no place before."""
    return [Change(insert(placement), [each.row() for each in placed])] if placed else []


def delete_placements(job: int, tasks: Sequence[str]) -> list[Change]:
    """Replicas of these tasks have no place any more."""
    return [Change(delete(placement).where(placement.c.job == job, placement.c.task.in_(tasks)))] if tasks else []


def set_draining(name: str, draining: bool) -> list[Change]:
    gone = Change(delete(nodes).where(nodes.c.name == name))
    return [gone, Change(insert(nodes), [{"name": name, "draining": int(draining)}])]


def draining_nodes(connection: Connection) -> list[str]:
    return list(connection.execute(select(nodes.c.name).where(nodes.c.draining == 1)).scalars())


def last_job(connection: Connection) -> int:
    return int(connection.execute(select(func.max(jobs.c.id))).scalar() or 0)


def unended_jobs(connection: Connection) -> list[StoredJob]:
    """Jobs that have not ended, oldest first."""
    return [_kept(row) for row in connection.execute(select(jobs).where(jobs.c.ended == 0).order_by(jobs.c.id))]


def all_placements(connection: Connection) -> list[StoredPlacement]:
    ordered = select(placement).order_by(placement.c.job, placement.c.task, placement.c.replica)
    return [
        StoredPlacement(
            row.job,
            row.task,
            row.replica,
            row.node,
            row.incarnation,
            bool(row.active),
            row.failures,
            bool(row.abandoned),
            bool(row.finished),
        )
        for row in connection.execute(ordered)
    ]


def job_by_id(connection: Connection, job: int) -> StoredJob | None:
    row = connection.execute(select(jobs).where(jobs.c.id == job)).one_or_none()
    return None if row is None else _kept(row)


def history_of(connection: Connection, job: int) -> tuple[StateChange, ...]:
    rows = connection.execute(select(history).where(history.c.job == job).order_by(history.c.number))
    return tuple(StateChange(row.state, row.at_s, row.event, row.cause) for row in rows)


def unended_histories(connection: Connection) -> dict[int, list[StateChange]]:
    """The histories of all jobs that have not ended, in one question."""
    rows = connection.execute(
        select(history).join(jobs, jobs.c.id == history.c.job).where(jobs.c.ended == 0).order_by(history.c.job, history.c.number)
    )
    found: dict[int, list[StateChange]] = {}
    for row in rows:
        found.setdefault(row.job, []).append(StateChange(row.state, row.at_s, row.event, row.cause))
    return found


def jobs_page(connection: Connection, *, state: str | None, limit: int, after: int | None) -> list[dict[str, Any]]:
    """A page of jobs, newest first, from the one after job `after` on; without documents."""
    question = select(*(jobs.c[name] for name in _LINE)).order_by(jobs.c.id.desc()).limit(limit)
    if state is not None:
        question = question.where(jobs.c.state == state)
    if after is not None:
        question = question.where(jobs.c.id < after)
    return [{**row._mapping, "ended": bool(row.ended)} for row in connection.execute(question)]


def storable(text: str) -> str:
    """Text that every database takes: PostgreSQL refuses a zero byte, and a job whose reason had one could never end.

    >>> storable("a\\0b")
    'a\ufffdb'
    """
    return text.replace("\0", "\ufffd")


_LINE = ("id", "name", "type", "host_kind", "state", "ended", "reason", "submitted_s", "changed_s")


def _is(placed: StoredPlacement) -> Any:
    return (placement.c.job == placed.job) & (placement.c.task == placed.task) & (placement.c.replica == placed.replica)


def _is_incarnation(placed: StoredPlacement) -> Any:
    return _is(placed) & (placement.c.incarnation == placed.incarnation)


def _kept(row: Row[Any]) -> StoredJob:
    return StoredJob(
        row.id,
        row.name,
        row.type,
        row.host_kind,
        row.state,
        bool(row.ended),
        row.reason,
        row.document,
        row.layout,
        json.loads(row.refs),
        row.submitted_s,
        row.changed_s,
    )
