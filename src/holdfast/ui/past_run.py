"""Read a run that has ended from its folder: the job from its database, and what happened from its history."""

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
from holdfast.ui.replica_reasons import describe_plan

STATES = ("placed", "starting", "running", "idle", "finished", "failed", "lost", "stopped", "abandoned")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that has ended. `page_events` are the events that the page lists, numbered from 1 in order of time."""

    number: int
    line: dict[str, Any]
    job: Job
    layout: Layout
    plan: dict[str, Any]
    timeline: Timeline | None
    events: list[HistoryEvent]
    page_events: list[dict[str, Any]]

    @property
    def from_s(self) -> float:
        return self.events[0].at_s

    @property
    def to_s(self) -> float:
        return self.events[-1].at_s + 1.0

    @property
    def opens_s(self) -> float:
        """Seconds from the start of the run to its first output or, without one, to its first commit.

        Playback starts there, because before that nodes only start, which takes long and shows nothing.
        """
        first_s = (event.at_s - self.from_s for kind in ("output", "commit") for event in self.events if event.kind == kind)
        return next(first_s, 0.0)


def read_run(folder: Path) -> PastRun:
    """Read the run in `folder`, the --work folder of `holdfast run` or the orchestrator folder in it. Raises HoldfastError."""
    database = next((path for path in (folder / "orchestrator" / "jobs.db", folder / "jobs.db") if path.is_file()), None)
    if database is None:
        raise HoldfastError(f"'{folder}' holds no run; give the --work folder of 'holdfast run', which has orchestrator/jobs.db")
    work = database.parent.parent if database.parent.name == "orchestrator" else database.parent
    row = _newest_job(database)
    if row is None:
        raise HoldfastError(f"the run in '{folder}' has nothing to show: it ended before its application was split into tasks")
    events = read_history(work)
    if not events:
        raise HoldfastError(f"'{work}' holds no history (history*.jsonl); only runs of 'holdfast run' can be played back")
    try:
        job, layout = restore_document(row["document"], Job), restore_document(row["layout"], Layout)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise HoldfastError(
            f"the run in '{folder}' was written by another version of holdfast and cannot be read "
            f"({'.'.join(map(str, first['loc']))}: {first['msg']}); play it back with that version"
        ) from None
    line = {name: row[name] for name in ("id", "name", "type", "host_kind", "state", "reason", "submitted_s", "changed_s")}
    return PastRun(
        number=row["id"],
        line={**line, "ended": True, "application": layout.application},
        job=job,
        layout=layout,
        plan=describe_plan(job, layout.tasks),
        timeline=_read_timeline(job),
        events=events,
        page_events=build_page_events(events),
    )


def _newest_job(database: Path) -> dict[str, Any] | None:
    """Return the row of the newest job that has a layout."""
    try:
        with sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True) as connection:
            connection.row_factory = sqlite3.Row
            row = connection.execute("SELECT * FROM jobs WHERE layout IS NOT NULL ORDER BY id DESC LIMIT 1").fetchone()
    except sqlite3.Error as error:
        raise HoldfastError(f"database '{database}' cannot be read: {error}") from error
    return None if row is None else dict(row)


def _read_timeline(job: Job) -> Timeline | None:
    """Return the timeline of the run, or None if its log no longer exists."""
    if job.log is None or ("://" not in job.log and not Path(job.log).is_dir()):
        return None
    return read_timeline(Store(job.log))


def build_page_events(events: Iterable[HistoryEvent]) -> list[dict[str, Any]]:
    """Return the faults, recoveries and orchestrator's events of a history, in the form of an orchestrator's events."""
    page_events = [page_event for event in events if (page_event := _build_page_event(event)) is not None]
    page_events.sort(key=lambda page_event: page_event["at_s"])
    return [{**page_event, "number": number} for number, page_event in enumerate(page_events, 1)]


def _build_page_event(event: HistoryEvent) -> dict[str, Any] | None:
    """Return the event that the page lists for an event of the history, or None if it lists none."""
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
        case "undone":
            return {**blank, "kind": "control", "text": f"fault ended: {about['what']}"}
        case "restored":
            return {**blank, "kind": "control", "text": f"{about['task']} continues from its checkpoint"}
        case "recovered":
            return {**blank, "kind": "control", "text": f"{about['task']} has caught up"}
        case "divergence":
            return {**blank, "kind": "control", "text": f"replicas diverge at {about['stream']}: {json.dumps(about)}"}
    return None
