"""Recovery of the orchestrator (System-S, sections 4.3 and 4.4): it restores its state in four phases. Running PEs are not touched.

1. Read the jobs that have not ended from the database. 2. Add those that had been mapped to the dataflow graph again. 3. Let the
nodes with replicas register, and compare what they have with what is stored. While nodes keep registering, reports are refused,
so the nodes keep them. Then each job whose nodes have all registered continues with the transition `recover` of its stored state.
4. Mark the nodes that do not register in time as lost; their jobs continue, and the restart policy decides about the lost
replicas.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection

from holdfast.control.jobs.job_state import JobState
from holdfast.control.jobs.machine_document import RECOVER, Machine, State, shipped_machines
from holdfast.control.jobs.state_machine import Lifecycle, StateChange
from holdfast.control.nodes.resource_manager import TICK_S, WakingTime
from holdfast.control.plugins import Plugin, shipped_actions
from holdfast.control.storage import stored_jobs
from holdfast.control.storage.database import RESTORED_SKIP
from holdfast.control.storage.stored_jobs import StoredJob, StoredPlacement
from holdfast.documents.document import restore_document
from holdfast.documents.job import Job, Layout, Task
from holdfast.plural import counted

D = TypeVar("D", Job, Layout)

QUIET_S = 1.0
"""If no node has registered for this long, the jobs whose nodes have registered need not wait for the others."""


class OrchestratorRecovery(Plugin):
    """Restores the state of the previous orchestrator."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.took_s: float | None = None
        self._began_s = 0.0
        self._awaited: set[str] = set()

    def begin(self) -> None:
        """Phases 1 and 2: read the stored state. Waits while the database is unreachable."""
        self._began_s = self.orchestrator.time.monotonic_s()
        stored = self.orchestrator.persistence.database.read_blocking(_read_state)
        self.orchestrator.continue_numbers_after(stored.last_job + (RESTORED_SKIP if self.orchestrator.settings.restored else 0))
        self.orchestrator.resources.draining.update(stored.draining)
        for job in stored.jobs:
            self._add_job(job, stored.histories.get(job.id, []))
        self._restore_replicas(stored.placements, stored.ended)

    async def finish(self) -> None:
        """Phases 3 and 4: wait for the nodes. Without jobs there is nothing to wait for."""
        wait_s, resources = self.orchestrator.settings.recovery_wait_s, self.orchestrator.resources
        await self._delete_unused()
        jobs, placed = list(self.orchestrator.jobs.values()), len(self.orchestrator.replicas)
        self._awaited = {replica.node for replica in self.orchestrator.replicas if replica.holds_room} - set(resources.nodes)
        if self._awaited:
            self.orchestrator.say(f"recovering: waiting for {counted(len(self._awaited), 'node')} to register")
        await self._await_nodes(min(QUIET_S, wait_s))
        resources.list_absent_drained_nodes()
        self._report(jobs, placed)
        for job in jobs:
            self.orchestrator.restart_policy.repost_abandoned(job)
        self.orchestrator.agents.place()  # before the first assignment: a node ends the agents that its assignment does not contain
        self.orchestrator.resume()
        await self._await_nodes(wait_s)
        self._give_up_awaiting()

    def _report(self, jobs: Sequence[JobState], placed: int) -> None:
        """Report how many jobs continue, and which nodes the others wait for."""
        self.took_s = self.orchestrator.time.monotonic_s() - self._began_s
        waiting = sum(self.awaits_nodes_of(job) for job in jobs)
        text = f"recovered {counted(len(jobs) - waiting, 'job')}"
        data = {"took_s": self.took_s, "jobs": len(jobs), "waiting": waiting}
        self.orchestrator.events.emit("control", text, data=data)
        if jobs:
            others = f"; {counted(waiting, 'other')} must wait for {', '.join(sorted(self._awaited)[:5])}" if waiting else ""
            self.orchestrator.say(f"{text} in {self.took_s:.2f} s ({counted(placed, 'replica')} placed){others}")

    def awaits_nodes_of(self, job: JobState) -> bool:
        """Return whether the job must wait, because a node that had a replica of it has not registered yet."""
        if not self._awaited:
            return False
        tasks = self.orchestrator.restart_policy.replicas_by_task(job)
        return any(replica.node in self._awaited and replica.holds_room for task in tasks for replica in task)

    def _add_job(self, stored: StoredJob, history: Sequence[StateChange]) -> None:
        """Phase 1 for one job: restore it and queue its `recover`. A job that cannot be read is set aside."""
        job = restore_job(stored, history, self.orchestrator.machines)
        self.orchestrator.add_recovered_job(job)
        if job.read_error:
            self.orchestrator.say(job.read_error)
            self.orchestrator.events.emit("control", job.read_error, job=job.id)
        if RECOVER in job.transitions:
            self.orchestrator.post(job, RECOVER, cause="the orchestrator was started again")

    def _restore_replicas(self, placements: Sequence[StoredPlacement], ended: Sequence[StoredJob]) -> None:
        """Phase 2: map the jobs with placements on the graph, and add all replicas, also those of ended jobs that other jobs
        share."""
        placed_jobs = {placement.job for placement in placements}
        for job in self.orchestrator.jobs.values():
            if job.read_error and not (job.layout is not None and job.layout.tasks):
                job.layout = _placed_layout(job, placements)
        for job in self.orchestrator.jobs.values():
            if job.layout is not None and (job.id in placed_jobs or job.refs):
                self.orchestrator.dataflow.restore(job)
        for stored in ended:
            if stored.id in placed_jobs:
                self.orchestrator.restart_policy.ended_jobs[stored.id] = restore_job(stored, (), self.orchestrator.machines)
        for replica in self.orchestrator.dispatch.add_replicas(placements):
            if replica.state == "abandoned":
                self.orchestrator.replicas.demote(replica)  # it will not be primary again
        for job in self.orchestrator.jobs.values():
            if job.is_stopping:
                self.orchestrator.dispatch.mark_stopping(job)  # no assignment may contain what was being stopped

    async def _delete_unused(self) -> None:
        """Delete replicas that no job uses: those of an ended job, shared by a job that the database does not have."""
        graph, replicas = self.orchestrator.dataflow.graph, self.orchestrator.replicas
        unused = [replica for replica in replicas if not graph.users_of(replica.job, replica.pe)]
        for replica in unused:
            replicas.remove(replica)
            if not replicas.of(replica.job):
                self.orchestrator.restart_policy.ended_jobs.pop(replica.job, None)
        if unused:
            deletions = (stored_jobs.delete_placements(replica.job, [replica.task_name]) for replica in unused)
            await self.orchestrator.persistence.database.write([change for changes in deletions for change in changes])

    async def _await_nodes(self, wait_s: float) -> None:
        """Wait until all awaited nodes have registered, or none has for `wait_s`. Each registration extends the wait, because a
        thousand nodes take long on a busy machine. A job continues as soon as its nodes have registered."""
        clock, resources = self.orchestrator.time, self.orchestrator.resources
        waking = WakingTime(clock.monotonic_s())  # a pause of this process must not make all nodes look dead
        ends_s = waking.last_s + wait_s
        while self._awaited and (now_s := waking.tick(clock.monotonic_s(), planned_s=TICK_S)) < ends_s:
            await resources.wait_for_change(for_s=TICK_S)
            arrivals = self._awaited & set(resources.nodes)
            if arrivals:
                self._awaited -= arrivals
                ends_s = now_s + wait_s
                self.orchestrator.start_workers()

    def _give_up_awaiting(self) -> None:
        """Phase 4: mark the nodes that have not registered as lost, and let their jobs continue."""
        missing, self._awaited = self._awaited, set()
        for name in sorted(missing):
            self.orchestrator.events.emit("node", f"node {name} is lost: it did not register in time", node=name)
            self.orchestrator.resources.mark_replicas_lost(name, "it did not register in time")
        self.orchestrator.start_workers()


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state that a new orchestrator reads. `ended` are ended jobs whose PEs other jobs share."""

    last_job: int
    jobs: list[StoredJob]
    histories: dict[int, list[StateChange]]
    placements: list[StoredPlacement]
    ended: list[StoredJob]
    draining: list[str]


def restore_job(stored: StoredJob, history: Sequence[StateChange], machines: Mapping[str, Machine]) -> JobState:
    """Return the in-memory state of a stored job. A job that this version or its machines do not know is set aside."""
    job, error = _read(stored, stored.document, Job)
    layout, layout_error = _read(stored, stored.layout, Layout)
    error = error or layout_error or _unknown_state(stored, machines)
    machine = machines[stored.type] if not error else set_aside(stored.state)
    if job is None:
        log = _raw(stored.document).get("log")
        job = Job.model_construct(job=stored.name, type=stored.type, host_kind=stored.host_kind, log=log)
    if layout is None and stored.layout is not None:
        layout = Layout.model_construct(application="", tasks=(), nodes={}, settings=_raw(stored.layout).get("settings", {}))
    states = {change.state for change in history}
    written = frozenset(name for name in states & machine.states.keys() if machine.states[name].persisted)
    return JobState(
        stored.id,
        job,
        machine,
        Lifecycle(stored.id, stored.state, written | {stored.state}, len(history), tuple(history)),
        stored.submitted_s,
        layout=layout,
        refs=dict(stored.refs),
        reason=error or stored.reason,
        failed=bool(history) and history[-1].event != "cancel",
        stored_entries=len(history),
        layout_stored=stored.layout is not None,
        placement_stored=bool(error),
        read_error=error,
    )


def _placed_layout(job: JobState, placements: Sequence[StoredPlacement]) -> Layout:
    """Return a layout of the tasks that are placed, for a job whose own layout cannot be read."""
    tasks = sorted({placed.task for placed in placements if placed.job == job.id})
    settings = job.layout.settings if job.layout is not None else {}
    each = (Task(pe=pe, task=int(number), kind="light") for pe, _, number in (task.rpartition("/") for task in tasks))
    return Layout(application=job.name, tasks=tuple(each), settings=settings)


def set_aside(state: str) -> Machine:
    """Return the machine of a job that is set aside: it stays in its state, and its PEs on their nodes, until it is canceled.

    >>> sorted(set_aside("migrating").states["migrating"].transitions)
    ['cancel']
    """
    streaming = shipped_machines(shipped_actions())["streaming"]
    if state in streaming.states and "stopped" in streaming.states[state].transitions:  # it was canceled while set aside
        return streaming
    number = max(each.number for each in streaming.states.values()) + 1
    aside = State(number=number, transitions={"cancel": streaming.states["running"].transitions["cancel"]})
    return streaming.model_copy(update={"states": {**streaming.states, state: aside}})


def _unknown_state(stored: StoredJob, machines: Mapping[str, Machine]) -> str:
    """Return why a job is set aside whose machine or state is unknown; an empty text if both are known."""
    if stored.type not in machines:
        unknown = f"the type '{stored.type}', and there is no such machine; machines are: {', '.join(sorted(machines))}"
    elif stored.state not in machines[stored.type].states:
        states = ", ".join(machines[stored.type].states)
        unknown = f"the state '{stored.state}', which machine '{stored.type}' does not have; its states are: {states}"
    else:
        return ""
    return f"{_set_aside_text(stored)}: it has {unknown}; start with --machine and its machine, or cancel the job"


def _read(stored: StoredJob, text: str | None, model: type[D]) -> tuple[D | None, str]:
    """Return a stored document of a job, or None, and why it could not be read."""
    try:
        return (restore_document(text, model) if text else None), ""
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name, location = "document" if model is Job else "layout", ".".join(map(str, first["loc"]))
        cause = f"{location}: {first['msg']}" if location else first["msg"]
        advice = "start the version that stored it, or cancel it and submit it again"
        return (
            None,
            f"{_set_aside_text(stored)}: its {name} is stored in a form that this holdfast does not read ({cause}); {advice}",
        )


def _set_aside_text(stored: StoredJob) -> str:
    return f"job {stored.id} ('{stored.name}') is set aside, and its PEs keep running"


def _raw(text: str) -> dict[str, Any]:
    """Return the plain values of a stored document, or none if it is not a mapping."""
    try:
        values = json.loads(text)
    except ValueError:
        return {}
    return values if isinstance(values, dict) else {}


def _read_state(connection: Connection) -> StoredState:
    jobs, placements = stored_jobs.unended_jobs(connection), stored_jobs.all_placements(connection)
    numbers = sorted({placement.job for placement in placements} - {job.id for job in jobs})
    ended = [job for number in numbers if (job := stored_jobs.job_by_id(connection, number)) is not None]
    return StoredState(
        stored_jobs.last_job(connection),
        jobs,
        stored_jobs.unended_histories(connection),
        placements,
        ended,
        stored_jobs.draining_nodes(connection),
    )
