"""A job that has not ended, as the orchestrator holds it: its document, its lifecycle, and the events that wait for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.control.jobs.machine_document import Machine, Transition
from holdfast.control.jobs.state_machine import Event, Lifecycle
from holdfast.control.storage.stored_jobs import StoredPlacement
from holdfast.documents.job import Job, Layout


@dataclass(slots=True, eq=False)
class JobState:
    """A job that has not ended. `lifecycle` is what is durable of it; whoever reads it sees no state that a crash would take back.

    `refs` are the jobs whose streams it reads or whose PEs it shares, name to number. `plan` is where its replicas shall go, until
    that is done. `stored_entries`, `layout_stored` and `placement_stored`: what of it the database has. `read_error` is why
    what is stored of it could not be read: then nothing is left for it but to fail.
    """

    id: int
    document: Job
    machine: Machine
    lifecycle: Lifecycle
    submitted_s: float
    layout: Layout | None = None
    refs: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    broken: bool = False
    plan: list[StoredPlacement] = field(default_factory=list)
    stored_entries: int = 1
    layout_stored: bool = False
    placement_stored: bool = False
    read_error: str = ""
    errors: int = 0
    queue: deque[Event] = field(default_factory=deque)
    worker: asyncio.Task[None] | None = None
    work: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def ended(self) -> bool:
        return self.machine.states[self.lifecycle.state].end

    @property
    def name(self) -> str:
        return self.document.job

    @property
    def is_stopping(self) -> bool:
        """Whether it is being stopped: nothing is left for it to do but to end."""
        return "stopped" in self.transitions

    @property
    def is_observed(self) -> bool:
        """Whether its replicas have their places and are to go on: then it is shown to its observer, and has its agents."""
        return "activate" in self.transitions

    @property
    def transitions(self) -> Mapping[str, Transition]:
        """What can happen to it now."""
        return self.machine.states[self.lifecycle.state].transitions

    def has_queued(self, event: str, data: Mapping[str, Any]) -> bool:
        """Whether this is to happen to it already: who asks for it again, while it must wait, need not be heard twice."""
        return any(each.name == event and each.data == data for each in self.queue)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that takes long and belongs to the present state: leaving the state ends it."""
        task = asyncio.create_task(work)
        self.work.add(task)
        task.add_done_callback(self.work.discard)

    def cancel_background(self) -> None:
        for task in self.work:
            task.cancel()
