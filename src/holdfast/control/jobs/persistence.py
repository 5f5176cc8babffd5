"""Selective persistence: a transition is written to the database when the job first enters a persisted state.

The write happens before any action of the transition runs. `step` in `state_machine.py` decides which transitions are written.
"""

from __future__ import annotations

from typing import Any

from holdfast.control.jobs.job_state import JobState
from holdfast.control.jobs.state_machine import Lifecycle
from holdfast.control.plugins import Plugin
from holdfast.control.storage import stored_jobs
from holdfast.control.storage.database import Candidate, Change, Database
from holdfast.control.storage.stored_jobs import StoredJob


class Persistence(Plugin):
    """Writes jobs and their transitions to the database."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        settings = orchestrator.settings
        candidate = Candidate(settings.name, settings.address, settings.lease_s)
        self.database = Database(settings.database, report=lambda text: orchestrator.say(text), candidate=candidate)

    async def write_job(self, job: JobState) -> None:
        """Write a new job. When this returns, the job is durable."""
        stored = StoredJob(
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
        await self.database.write(stored_jobs.insert_job(stored, job.lifecycle.history[0]))

    async def write_transition(self, job: JobState, entered: Lifecycle) -> None:
        """Write the state that a job is about to enter, its history so far, and its layout and placement if these are new.

        A transition to an end state also deletes the placements that no other job uses.
        """
        state = job.machine.states[entered.state]
        layout = job.layout.model_dump_json(exclude_none=True) if job.layout is not None and not job.layout_stored else None
        changes: list[Change] = [
            stored_jobs.update_job(
                job.id,
                state=entered.state,
                ended=state.end,
                reason=job.reason,
                at_s=entered.history[-1].at_s,
                layout=layout,
                refs=job.refs,
            ),
            *stored_jobs.insert_history(job.id, entered.history[job.stored_entries :], first=job.stored_entries),
        ]
        if state.end:
            for owner, tasks in self.orchestrator.dataflow.graph.used_only_by(job.id).items():
                changes.extend(stored_jobs.delete_placements(owner, tasks))
        elif not job.placement_stored:
            changes.extend(stored_jobs.insert_placements(job.placement))
        await self.database.write(changes)
        job.placement_stored = job.placement_stored or bool(job.placement)
        job.stored_entries = len(entered.history)
        job.layout_stored = job.layout_stored or layout is not None
