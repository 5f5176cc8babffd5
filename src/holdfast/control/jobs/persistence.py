"""Selective persistence: a job's state is written when it first enters one that matters, before anything is done about it."""

from __future__ import annotations

from typing import Any

from holdfast.control.jobs.job_state import JobState
from holdfast.control.jobs.state_machine import Lifecycle
from holdfast.control.plugins import Plugin
from holdfast.control.storage import stored_jobs
from holdfast.control.storage.database import Change, Database
from holdfast.control.storage.stored_jobs import StoredJob


class Persistence(Plugin):
    """Writes jobs to the database."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        settings = orchestrator.settings
        self.database = Database(settings.database, tell=self._tell, owner=settings.name)

    async def submitted(self, job: JobState) -> None:
        """Write a new job; once this returns it is not lost."""
        move = job.lifecycle.history[0]
        kept = StoredJob(
            job.id,
            job.name,
            job.document.type,
            job.document.host_kind,
            job.lifecycle.state,
            ended=False,
            reason="",
            document=job.document.model_dump_json(exclude_none=True),
            layout=None,
            refs={},
            submitted_s=job.submitted_s,
            changed_s=job.submitted_s,
        )
        await self.database.write(stored_jobs.insert_job(kept, move))

    async def write(self, job: JobState, moved: Lifecycle) -> None:
        """Write the state that a job is about to enter, with its history so far and, where that is new, its layout and places."""
        state = job.machine.states[moved.state]
        layout = job.layout.model_dump_json(exclude_none=True) if job.layout is not None and not job.layout_stored else None
        changes: list[Change] = [
            stored_jobs.update_job(
                job.id,
                state=moved.state,
                ended=state.end,
                reason=job.reason,
                at_s=moved.history[-1].at_s,
                layout=layout,
                refs=job.refs,
            ),
            *stored_jobs.insert_history(job.id, moved.history[job.stored_entries :], first=job.stored_entries),
        ]
        if state.end:
            for owner, tasks in self.orchestrator.dataflow.graph.left_by(job.id).items():
                changes.extend(stored_jobs.delete_placements(owner, tasks))
        elif not job.placement_stored:
            changes.extend(stored_jobs.insert_placements(job.plan))
        await self.database.write(changes)
        job.placement_stored = job.placement_stored or bool(job.plan)
        job.stored_entries = len(moved.history)
        job.layout_stored = job.layout_stored or layout is not None

    def _tell(self, text: str) -> None:
        self.orchestrator.say(text)
