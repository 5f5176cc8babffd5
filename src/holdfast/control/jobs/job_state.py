"""A job in the orchestrator's memory: its document, its lifecycle, and the events that wait for it."""

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
    """One job. `lifecycle` holds only what is durable: a crash loses none of it.

    `refs` are the jobs whose streams it reads or whose PEs it shares, from name to number. `placement` has the nodes of its
    replicas until they are assigned. The database has `stored_entries` entries of its history, and its layout and placement if
    `layout_stored` and `placement_stored` are true. `failed` says that an error, not a user, ends the job. `read_error` says why
    the stored job was set aside; such a job can only be canceled.
    """

    id: int
    document: Job
    machine: Machine
    lifecycle: Lifecycle
    submitted_s: float
    layout: Layout | None = None
    refs: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    failed: bool = False
    placement: list[StoredPlacement] = field(default_factory=list)
    stored_entries: int = 1
    layout_stored: bool = False
    placement_stored: bool = False
    read_error: str = ""
    errors: int = 0
    queue: deque[Event] = field(default_factory=deque)
    worker: asyncio.Task[None] | None = None
    background: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def ended(self) -> bool:
        return self.machine.states[self.lifecycle.state].end

    @property
    def name(self) -> str:
        return self.document.job

    @property
    def log_owner(self) -> str:
        """The name under which the job writes its log. No other job ever has it, not even a job of another orchestrator."""
        return f"{self.id}-{self.submitted_s:.6f}"

    @property
    def is_stopping(self) -> bool:
        """Whether the job is being stopped and can only end."""
        return "stopped" in self.transitions

    @property
    def is_observed(self) -> bool:
        """Whether the job's replicas are placed and should keep running. Its observer sees only such a job, and only it has
        agents."""
        return "activate" in self.transitions

    @property
    def transitions(self) -> Mapping[str, Transition]:
        """The transitions of the job's present state."""
        return self.machine.states[self.lifecycle.state].transitions

    def has_queued(self, event: str, data: Mapping[str, Any]) -> bool:
        """Return whether such an event waits in the queue, so that a caller need not post it again."""
        return any(each.name == event and each.data == data for each in self.queue)

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run long work that belongs to the present state. It is cancelled when the job leaves the state."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def cancel_background(self) -> None:
        for task in self.background:
            task.cancel()
