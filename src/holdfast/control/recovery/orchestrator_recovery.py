"""Recovery of the orchestrator (System-S, sections 4.3 and 4.4): four phases, and no PE that runs is touched.

1. Ask the database for jobs that have not ended. 2. Put those that were mapped on the dataflow graph again. 3. Wait for the nodes
that have replicas to register, each with what it has, and hold that against what is stored. 4. Count those that did not come in
time as lost, and let policy decide. Until then reports are refused, which keeps them in the nodes' lists. Then each job goes on by
the transition `recover` of the state it is stored in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import Connection

from holdfast.control.jobs.job_state import JobState
from holdfast.control.jobs.machine_document import RECOVER, Machine
from holdfast.control.jobs.state_machine import Lifecycle, StateChange
from holdfast.control.nodes.resource_manager import TICK_S, WakingTime
from holdfast.control.plugins import Plugin
from holdfast.control.storage import stored_jobs
from holdfast.control.storage.stored_jobs import StoredJob, StoredPlacement
from holdfast.documents.document import restore_document
from holdfast.documents.job import Job, Layout
from holdfast.errors import HoldfastError

D = TypeVar("D", Job, Layout)


class OrchestratorRecovery(Plugin):
    """Brings an orchestrator to where the one before it was."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.took_s: float | None = None
        self._began_s = 0.0

    def begin(self) -> None:
        """Phases 1 and 2: what is stored. Waits while the database is away."""
        self._began_s = self.orchestrator.time.monotonic_s()
        stored = self.orchestrator.persistence.database.read_blocking(_everything)
        self.orchestrator.continue_numbers_after(stored.last_job)
        self.orchestrator.resources.draining.update(stored.draining)
        for job in stored.jobs:
            self._adopt(job, stored.histories.get(job.id, []))
        self._restore(stored.placed, stored.others)

    async def finish(self) -> None:
        """Phases 3 and 4: what the nodes have. Without jobs there is nothing to wait for."""
        replicas = self.orchestrator.replicas
        await self._sweep()
        jobs, placed = len(self.orchestrator.jobs), len(replicas)
        await self._await_nodes({replica.node for replica in replicas if replica.holds_room})
        self.orchestrator.resources.list_absent_drained_nodes()
        self.took_s = self.orchestrator.time.monotonic_s() - self._began_s
        if jobs:
            self.orchestrator.say(f"recovered {jobs} jobs with {placed} replicas in {self.took_s:.2f} s")
        self.orchestrator.events.emit("control", f"recovered {jobs} jobs", data={"took_s": self.took_s, "jobs": jobs})
        for job in self.orchestrator.jobs.values():
            self.orchestrator.restart_policy.repost_abandoned(job)
        self.orchestrator.agents.place()  # a node's first assignment has its agents too: what is not in it is ended
        self.orchestrator.resume()

    def _adopt(self, kept: StoredJob, history: Sequence[StateChange]) -> None:
        """Phase 1 for one job: rebuilt from what is stored, its `recover` the first event that it will see. One that cannot be read
        fails instead: neither may it keep the others waiting."""
        live = live_job(kept, history, self.orchestrator.machines)
        self.orchestrator.add_recovered_job(live)
        if live.read_error and not live.is_stopping:
            self.orchestrator.say(live.read_error)
            failing = next((event for event in ("error", "cancel") if event in live.transitions), RECOVER)
            self.orchestrator.post(live, failing, cause=live.read_error)
        else:
            self.orchestrator.post(live, RECOVER, cause="the orchestrator was started again")

    def _restore(self, placed: Sequence[StoredPlacement], others: Sequence[StoredJob]) -> None:
        """Phase 2: jobs that have places are on the graph, and so are PEs of ended jobs that others still use."""
        located = {each.job for each in placed}
        for job in self.orchestrator.jobs.values():
            if job.layout is not None and (job.id in located or job.refs):
                self.orchestrator.dataflow.restore(job)
        for kept in others:
            if kept.id in located:
                self.orchestrator.restart_policy.ended_jobs[kept.id] = live_job(kept, (), self.orchestrator.machines)
        for replica in self.orchestrator.dispatch.add_replicas(placed):
            if replica.state == "abandoned":
                self.orchestrator.replicas.demote(replica)  # it will not lead its task again
        for job in self.orchestrator.jobs.values():
            if job.is_stopping:
                self.orchestrator.dispatch.mark_stopping(job)  # no node may be told to start again what was being stopped

    async def _sweep(self) -> None:
        """Take the places of PEs that nobody uses: of a job that has ended, and shared by one that was not yet stored with it."""
        graph, replicas = self.orchestrator.dataflow.graph, self.orchestrator.replicas
        unused = [replica for replica in replicas if not graph.users_of(replica.job, replica.pe)]
        for replica in unused:
            replicas.remove(replica)
            if not replicas.of(replica.job):
                self.orchestrator.restart_policy.ended_jobs.pop(replica.job, None)
        if unused:
            gone = (stored_jobs.delete_placements(replica.job, [replica.task_name]) for replica in unused)
            await self.orchestrator.persistence.database.write([change for changes in gone for change in changes])

    async def _await_nodes(self, names: set[str]) -> None:
        """Phases 3 and 4. The wait begins anew with each that comes back: a thousand of them take their time on a busy machine."""
        clock, resources = self.orchestrator.time, self.orchestrator.resources
        waking = WakingTime(clock.monotonic_s())  # our own sleep must not look like everybody's death
        wait_s = self.orchestrator.settings.recovery_wait_s
        ends_s = waking.last_s + wait_s
        missing = names - set(resources.nodes)
        if missing:
            self.orchestrator.say(f"recovering: waiting for {len(missing)} nodes to say what they have")
        while missing and (now_s := waking.tick(clock.monotonic_s(), meant_s=TICK_S)) < ends_s:
            await resources.wait_for_change(for_s=TICK_S)
            still = names - set(resources.nodes)
            ends_s = now_s + wait_s if len(still) < len(missing) else ends_s
            missing = still
        for name in sorted(missing):
            self.orchestrator.events.emit("node", f"node {name} is lost: it did not come back in time", node=name)
            resources.mark_replicas_lost(name, "it did not come back in time")


@dataclass(frozen=True, slots=True)
class Stored:
    """All that a database has to say to a new orchestrator. `others` are ended jobs whose PEs live on in jobs that share them."""

    last_job: int
    jobs: list[StoredJob]
    histories: dict[int, list[StateChange]]
    placed: list[StoredPlacement]
    others: list[StoredJob]
    draining: list[str]


def live_job(kept: StoredJob, history: Sequence[StateChange], machines: Mapping[str, Machine]) -> JobState:
    """A job as it is held, from what is stored of it."""
    if kept.type not in machines:
        raise HoldfastError(
            f"job {kept.id} ('{kept.name}') has the type '{kept.type}', and there is no such machine; "
            f"machines are: {', '.join(sorted(machines))}; give its document with --machine"
        )
    machine = machines[kept.type]
    if kept.state not in machine.states:
        raise HoldfastError(
            f"job {kept.id} ('{kept.name}') is {kept.state}, and machine '{kept.type}' has no such state; "
            f"states are: {', '.join(machine.states)}; give the document that it was begun with by --machine"
        )
    written = frozenset(move.state for move in history if move.state in machine.states and machine.states[move.state].persisted)
    document, undocumented = _read(kept, kept.document, Job)
    layout, unlaid = _read(kept, kept.layout, Layout)
    return JobState(
        kept.id,
        document or Job.model_construct(job=kept.name, type=kept.type, host_kind=kept.host_kind),
        machine,
        Lifecycle(kept.id, kept.state, written | {kept.state}, len(history), tuple(history)),
        kept.submitted_s,
        layout=layout,
        refs=dict(kept.refs),
        reason=kept.reason,
        broken=bool(history) and history[-1].event != "cancel",
        stored_entries=len(history),
        layout_stored=kept.layout is not None,
        read_error=undocumented or unlaid,
    )


def _read(kept: StoredJob, text: str | None, model: type[D]) -> tuple[D | None, str]:
    """What is stored of a job, and why it could not be read."""
    try:
        return (restore_document(text, model) if text else None), ""
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        what, place = "document" if model is Job else "layout", ".".join(map(str, first["loc"]))
        why = f"{place}: {first['msg']}" if place else first["msg"]
        job = f"job {kept.id} ('{kept.name}')"
        return None, f"the {what} of {job} is stored in words that this holdfast does not take ({why}); submit it anew"


def _everything(connection: Connection) -> Stored:
    jobs, placed = stored_jobs.unended_jobs(connection), stored_jobs.all_placements(connection)
    ended = sorted({each.job for each in placed} - {job.id for job in jobs})
    others = [job for number in ended if (job := stored_jobs.job_by_id(connection, number)) is not None]
    return Stored(
        stored_jobs.last_job(connection),
        jobs,
        stored_jobs.unended_histories(connection),
        placed,
        others,
        stored_jobs.draining_nodes(connection),
    )
