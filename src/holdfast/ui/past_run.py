"""A run that is over, read from its folder: what its database says of the job, and what its history says happened."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from holdfast.documents.document import restore_document
from holdfast.documents.history import HistoryEvent, read_history
from holdfast.documents.job import Job, Layout
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.timeline import Timeline, read_timeline
from holdfast.ui.replica_reasons import plan_of

STATES = ("placed", "starting", "running", "idle", "finished", "failed", "lost", "stopped", "abandoned")


@dataclass(frozen=True, slots=True)
class PastRun:
    """What is known of a run. `told` is what happened as the page shows it, numbered from 1 in order of time."""

    number: int
    line: dict[str, Any]
    job: Job
    layout: Layout
    plan: dict[str, Any]
    timeline: Timeline | None
    events: list[HistoryEvent]
    told: list[dict[str, Any]]

    @property
    def from_s(self) -> float:
        return self.events[0].at_s

    @property
    def to_s(self) -> float:
        return self.events[-1].at_s + 1.0

    @property
    def opens_s(self) -> float:
        """Seconds after its beginning from which there is something to see: the first output, or else the first epoch of any
        task. Before that nodes start, which takes long and shows nothing."""
        moments = (next((event.at_s for event in self.events if event.kind == kind), None) for kind in ("output", "commit"))
        return next((at_s - self.from_s for at_s in moments if at_s is not None), 0.0)


def read_run(folder: Path) -> PastRun:
    """The run of a folder: `--work` of `holdfast run`, or the orchestrator's below it. Raises HoldfastError."""
    database = next((path for path in (folder / "orchestrator" / "jobs.db", folder / "jobs.db") if path.is_file()), None)
    if database is None:
        raise HoldfastError(f"'{folder}' holds no run; give the --work folder of 'holdfast run', which has orchestrator/jobs.db")
    work = database.parent.parent if database.parent.name == "orchestrator" else database.parent
    row = _newest_job(database)
    if row is None:
        raise HoldfastError(f"the run in '{folder}' ended before its application was taken apart: there is nothing to show")
    events = read_history(work)
    if not events:
        raise HoldfastError(f"'{work}' holds no history (history*.jsonl); only runs of 'holdfast run' can be played back")
    try:
        job, layout = restore_document(row["document"], Job), restore_document(row["layout"], Layout)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise HoldfastError(
            f"the run in '{folder}' is stored in words that this holdfast does not take "
            f"({'.'.join(map(str, first['loc']))}: {first['msg']}); play it back with the one that made it"
        ) from None
    line = {name: row[name] for name in ("id", "name", "type", "host_kind", "state", "reason", "submitted_s", "changed_s")}
    return PastRun(
        number=row["id"],
        line={**line, "ended": True, "application": layout.application},
        job=job,
        layout=layout,
        plan=plan_of(job, layout.tasks),
        timeline=_timeline(job),
        events=events,
        told=told_of(events),
    )


def _newest_job(database: Path) -> dict[str, Any] | None:
    try:
        with sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True) as connection:
            connection.row_factory = sqlite3.Row
            found = connection.execute("SELECT * FROM jobs WHERE layout IS NOT NULL ORDER BY id DESC LIMIT 1").fetchone()
    except sqlite3.Error as error:
        raise HoldfastError(f"database '{database}' cannot be read: {error}") from error
    return None if found is None else dict(found)


def _timeline(job: Job) -> Timeline | None:
    """The epochs of the run, where its log is still there."""
    if job.log is None or ("://" not in job.log and not Path(job.log).is_dir()):
        return None
    return read_timeline(Store(job.log))


def told_of(events: Iterable[HistoryEvent]) -> list[dict[str, Any]]:
    """What happened, as events of an orchestrator: faults, what it told itself, and recoveries."""
    found = [told for event in events if (told := _told(event)) is not None]
    found.sort(key=lambda told: told["at_s"])
    return [{**told, "number": number} for number, told in enumerate(found, 1)]


def _told(event: HistoryEvent) -> dict[str, Any] | None:
    about = event.about
    blank: dict[str, Any] = {"at_s": event.at_s, "job": None, "node": None, "replica": None, "data": {}}
    match event.kind:
        case "orchestrator":
            state = str(about["text"]).partition(":")[0]
            data = {"state": state} if about["what"] == "replica" and state in STATES else {}
            who = {name: about.get(name) for name in ("job", "node", "replica")}
            return {**blank, **who, "at_s": about["reported_s"], "kind": about["what"], "text": about["text"], "data": data}
        case "fault":
            return {**blank, "kind": "fault", "text": about["what"], "data": {"tasks": about.get("tasks", [])}}
        case "mended":
            return {**blank, "kind": "control", "text": f"mended: {about['what']}"}
        case "restored":
            return {**blank, "kind": "control", "text": f"{about['task']} goes on from its checkpoint"}
        case "recovered":
            return {**blank, "kind": "control", "text": f"{about['task']} has caught up with where it was"}
        case "divergence":
            return {**blank, "kind": "control", "text": f"replicas diverge at {about['stream']}: {json.dumps(about)}"}
    return None
