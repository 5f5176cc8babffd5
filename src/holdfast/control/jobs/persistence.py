"""Selective persistence: a job's state is written when it first enters one that matters, before anything is done about it."""

from __future__ import annotations

from typing import Any

from holdfast.control.jobs.job_state import LiveJob
from holdfast.control.jobs.state_machine import Life
from holdfast.control.plugins import Plugin
from holdfast.control.storage import archive
from holdfast.control.storage.archive import StoredJob
from holdfast.control.storage.database import Change, Database


class Persistence(Plugin):
    """Writes jobs to the database."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        settings = orchestrator.settings
        self.database = Database(settings.database, tell=self._tell, owner=settings.name)

    async def submitted(self, job: LiveJob) -> None:
        """Write a new job; once this returns it is not lost."""
        move = job.life.history[0]
        kept = StoredJob(
            job.id,
            job.name,
            job.document.type,
            job.document.host_kind,
            job.life.state,
            ended=False,
            reason="",
            document=job.document.model_dump_json(exclude_none=True),
            layout=None,
            refs={},
            submitted_s=job.submitted_s,
            changed_s=job.submitted_s,
        )
        await self.database.write(archive.job_submitted(kept, move))

    async def write(self, job: LiveJob, moved: Life) -> None:
        """Write the state that a job is about to enter, with its history so far and, where that is new, its layout and places."""
        state = job.machine.states[moved.state]
        layout = job.layout.model_dump_json(exclude_none=True) if job.layout is not None and not job.layout_told else None
        changes: list[Change] = [
            archive.job_moved(
                job.id,
                state=moved.state,
                ended=state.end,
                reason=job.reason,
                at_s=moved.history[-1].at_s,
                layout=layout,
                refs=job.refs,
            ),
            *archive.told(job.id, moved.history[job.told :], first=job.told),
        ]
        if state.end:
            for owner, tasks in self.orchestrator.dataflow.graph.left_by(job.id).items():
                changes.extend(archive.replicas_gone(owner, tasks))
        elif not job.plan_told:
            changes.extend(archive.replicas_added(job.plan))
        await self.database.write(changes)
        job.plan_told = job.plan_told or bool(job.plan)
        job.told = len(moved.history)
        job.layout_told = job.layout_told or layout is not None

    def _tell(self, text: str) -> None:
        self.orchestrator.say(text)
