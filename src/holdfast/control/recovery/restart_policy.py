"""The restart policy plug-in: it reacts to changes of replicas, restarts or abandons dead ones, and posts events to their jobs.

`restart_decision.py` decides about a single replica; this module collects the facts and carries the decision out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.control.nodes.dispatch import living_peers
from holdfast.control.nodes.replicas import DEAD, LIVING, STARTED, PlacedReplica
from holdfast.control.plugins import Plugin
from holdfast.control.recovery.log_fences import LogFences
from holdfast.control.recovery.restart_decision import STEADY_S, Abandon, LeaveDead, Restart, Situation, Wait, decide, leaves_dead
from holdfast.control.storage.stored_jobs import mark_finished, replace_placements, reset_failures
from holdfast.documents.job import Job

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command


class RestartPolicy(Plugin):
    """Evaluates a job whenever its replicas have changed. `ended_jobs` are ended jobs whose PEs other jobs share."""

    action_names = ("restart_policy.evaluate",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.ended_jobs: dict[int, JobState] = {}
        self._dead_keys: set[str] = set()
        self._reported: dict[str, str] = {}
        self._unstored: set[asyncio.Task[None]] = set()
        self._fences = LogFences(orchestrator)

    def replica_changed(self, replica: PlacedReplica) -> None:
        """Take a change of a replica and post a status event to every job that uses it."""
        self._reported.pop(replica.key, None)
        if replica.state in DEAD:
            self._dead_keys.add(replica.key)
            self._count_failure(replica)
        else:
            self._dead_keys.discard(replica.key)
            replica.due_s = None  # it recovered by itself
            if (replica.failures or replica.losses) and replica.state in STARTED:
                self._schedule_failure_reset(replica)
            if not replica.holds_room:
                self.orchestrator.resources.capacity_freed()
            if replica.state == "finished":  # the next orchestrator may start when the node no longer exists
                work = self.orchestrator.persistence.database.write(mark_finished(replica.to_stored()))
                task = self.orchestrator.spawn(work)
                self._unstored.add(task)
                task.add_done_callback(self._unstored.discard)
        self.orchestrator.events.emit(
            "replica",
            f"{replica.state}: {replica.error}" if replica.error else replica.state,
            job=replica.job,
            node=replica.node,
            replica=replica.key,
            data={"state": replica.state, "incarnation": replica.incarnation},
        )
        self._post_status_to_users(replica)

    def node_confirmed(self, replica: PlacedReplica) -> None:
        """Take a node's confirmation that a replica does not run there any more. A job that is being stopped may wait for it."""
        if replica.stopping is not None:
            self._post_status_to_users(replica)

    def _post_status_to_users(self, replica: PlacedReplica) -> None:
        for user in sorted(self.orchestrator.dataflow.graph.users_of(replica.job, replica.pe)):
            if user in self.orchestrator.jobs:
                self.orchestrator.post_status(self.orchestrator.jobs[user])

    @property
    def unstored(self) -> Collection[asyncio.Task[None]]:
        """The writes of reports that have been taken. The reports are not acknowledged before these have ended."""
        return self._unstored

    def status_changed(self, replica: PlacedReplica) -> None:
        """Take a replica's new status. Its failures are reset when it gets further than its task had got when it failed."""
        clean = replica.status.clean if replica.status is not None else None
        if clean is None:
            return
        replica.furthest = clean if replica.furthest is None else max(replica.furthest, clean)
        if replica.state in DEAD or replica.reached is None:
            replica.reached = self._furthest_of_task(replica)
        elif (replica.failures or replica.losses) and clean > replica.reached and self._shows_progress(replica):
            self._reset_failures(replica)

    def report_once(self, job: JobState, replica: PlacedReplica, text: str) -> None:
        """Emit why a replica stays as it is, unless that was the last text and the replica has not changed since."""
        if self._reported.get(replica.key) != text:
            self._reported[replica.key] = text
            self.orchestrator.events.emit("decision", text, job=job.id, node=replica.node, replica=replica.key)

    def forget(self, replica: PlacedReplica) -> None:
        """Forget a replica that was removed."""
        self._dead_keys.discard(replica.key)
        self._reported.pop(replica.key, None)

    def nodes_changed(self) -> None:
        """React to new capacity: evaluate jobs with dead replicas again, and move replicas off drained nodes."""
        for key in sorted(self._dead_keys):
            replica = self.orchestrator.replicas.get(key)
            if replica is not None and replica.state in DEAD and replica.due_s is None:
                job = self.orchestrator.jobs.get(self.responsible_job(replica))
                if job is not None:
                    self.orchestrator.post_status(job)
        for name in sorted(self.orchestrator.resources.draining):
            self.move_replicas_off(name)

    def move_replicas_off(self, node: str) -> None:
        """Post a `move` for every living replica on a node."""
        for replica in self.orchestrator.replicas.at(node):
            job = self.orchestrator.jobs.get(self.responsible_job(replica))
            data = {"key": replica.key, "node": node}
            if job is not None and replica.wanted and replica.state in LIVING and not job.has_queued("move", data):
                self.orchestrator.post(job, "move", data=data, cause=f"node {node} is drained")

    async def evaluate(self, job: JobState, command: Command) -> None:
        """Decide about the job's dead replicas, then post the event for what the job has reached: started, finished, stopped."""
        if "restart" in job.transitions:
            self._fail_if_shared_pe_is_missing(job)
            if abandoned := self._decide_about_dead(job):
                await self._abandon(job, abandoned)
            self._fail_incomplete_job(job)
        event = self._next_event(job)
        if event is not None and event in job.transitions:
            self.orchestrator.post(job, event, since=job.lifecycle.version)

    def repost_abandoned(self, job: JobState) -> None:
        """Post the events for abandoned PEs again: the abandoning is stored, but its effect on the job may have been lost."""
        for task in self.replicas_by_task(job):
            if task and all(replica.state == "abandoned" for replica in task):
                event = "error" if self.document_of(task[0]).policy.then == "cancel" else "gaveUp"
                if event in job.transitions:
                    self.orchestrator.post(
                        job, event, cause=f"{task[0].task_name} was abandoned before the orchestrator was started again"
                    )

    def responsible_job(self, replica: PlacedReplica) -> int:
        """Return the job that decides about a replica: its own, or, if that is stopping, the oldest other one that uses it."""
        users = self.orchestrator.dataflow.graph.users_of(replica.job, replica.pe)
        staying = [user for user in users if user in self.orchestrator.jobs and not self.orchestrator.jobs[user].is_stopping]
        return min(staying, key=lambda user: (user != replica.job, user), default=replica.job)

    def find_job(self, job: int) -> JobState | None:
        """Return a job that has not ended, or one whose PEs other jobs share."""
        return self.orchestrator.jobs.get(job) or self.ended_jobs.get(job)

    def document_of(self, replica: PlacedReplica) -> Job:
        """Return the job document whose policy applies to a replica."""
        job = self.find_job(replica.job) or self.orchestrator.jobs[self.responsible_job(replica)]
        return job.document

    def replicas_by_task(self, job: JobState) -> Iterator[list[PlacedReplica]]:
        """Yield the replicas of each task that a job uses."""
        for owner, task in self.orchestrator.dataflow.graph.uses(job.id):
            yield self.orchestrator.replicas.of(owner, [task.name])

    def _next_event(self, job: JobState) -> str | None:
        """Return the event that the states of the job's replicas imply, if any."""
        tasks = list(self.replicas_by_task(job))
        if job.is_stopping:
            own = self.orchestrator.dataflow.graph.used_only_by(job.id)
            replicas = [r for owner, names in own.items() for r in self.orchestrator.replicas.of(owner, names)]
            if any(replica.stopping is None for replica in replicas):  # other jobs used them when it was canceled, but no longer do
                self.orchestrator.dispatch.mark_stopping(job)
                self.orchestrator.dispatch.renew_assignments({replica.node for replica in replicas})
            if any(replica.state != "stopped" for replica in replicas) or self._fences.is_needed(job, replicas):
                return None
            return "failed" if job.failed else "stopped"
        if all(any(replica.state == "finished" for replica in task) for task in tasks):
            return "finished" if "finished" in job.transitions else "started"
        if all(task and all(self._has_settled(replica, task) for replica in task) for task in tasks):
            return "started"
        return None

    def _has_settled(self, replica: PlacedReplica, peers: list[PlacedReplica]) -> bool:
        """Return whether a replica has started, was abandoned, or stays dead while a peer lives."""
        if replica.state in STARTED or replica.state == "abandoned":
            return True
        stays_dead = replica.state in DEAD and replica.due_s is None and leaves_dead(self.document_of(replica).policy)
        return stays_dead and any(peer.state in STARTED for peer in peers)

    def _count_failure(self, replica: PlacedReplica) -> None:
        if replica.state == "lost" or replica.died_with_host:
            replica.losses += 1
        else:
            replica.failures += 1
        replica.reached = self._furthest_of_task(replica)
        changed = self.orchestrator.replicas.demote(replica)
        self.orchestrator.dispatch.renew_assignments({peer.node for peer in changed})

    def _schedule_failure_reset(self, replica: PlacedReplica) -> None:
        """Reset a replica's failures, also in the database, once it has run long enough."""
        incarnation, failures, losses = replica.incarnation, replica.failures, replica.losses

        def reset() -> None:
            same = self.orchestrator.replicas.get(replica.key) is replica and replica.state in STARTED
            unchanged = (replica.incarnation, replica.failures, replica.losses) == (incarnation, failures, losses)
            if same and unchanged and not self.orchestrator.stopping:
                self._reset_failures(replica)

        asyncio.get_running_loop().call_later(STEADY_S, reset)

    def _reset_failures(self, replica: PlacedReplica) -> None:
        stored, replica.failures, replica.losses = replica.failures, 0, 0
        if stored:
            self.orchestrator.spawn(self.orchestrator.persistence.database.write(reset_failures(replica.to_stored())))

    def _furthest_of_task(self, replica: PlacedReplica) -> int | None:
        """Return the highest clean epoch that a replica of this task has reported."""
        peers = self.orchestrator.replicas.of(replica.job, [replica.task_name])
        return max((peer.furthest for peer in peers if peer.furthest is not None), default=None)

    def _shows_progress(self, replica: PlacedReplica) -> bool:
        """Return whether a higher position of a replica means progress. A source commits empty epochs even if its reader always
        fails, so it must have read rows, too."""
        job = self.find_job(replica.job)
        tasks = job.layout.tasks if job is not None and job.layout is not None else ()
        is_source = any(task.name == replica.task_name and task.kind == "source" for task in tasks)
        return not is_source or bool(replica.status is not None and replica.status.rows_s)

    def _decide_about_dead(self, job: JobState) -> list[tuple[PlacedReplica, Abandon]]:
        """Decide about the job's dead replicas; return those to abandon."""
        dead = [
            (replica, task)
            for task in self.replicas_by_task(job)
            for replica in task
            if replica.state in DEAD and replica.due_s is None and self.responsible_job(replica) == job.id
        ]
        decisions = ((replica, self._decide(job, replica, task)) for replica, task in dead)
        return [(replica, decision) for replica, decision in decisions if decision is not None]

    def _decide(self, job: JobState, replica: PlacedReplica, peers: list[PlacedReplica]) -> Abandon | None:
        """Carry out the decision about a dead replica; return it if the replica is to be abandoned."""
        document = self.document_of(replica)
        node = self.orchestrator.resources.nodes.get(replica.node)
        decision = decide(
            document.policy,
            Situation(
                failures=replica.failures,
                losses=replica.losses,
                living_peers=living_peers(replica, peers),
                here=node is not None and node.takes_replicas,
                elsewhere=self.orchestrator.placement.has_other_node(replica, host_kind=document.host_kind),
            ),
        )
        match decision:
            case Restart(after_s=after_s):
                self._schedule_restart(after_s, replica)
            case Abandon():
                return decision
            case LeaveDead():
                pass
            case Wait(cause=cause):
                self.report_once(job, replica, f"waits: {cause}")
        return None

    async def _abandon(self, job: JobState, decided: list[tuple[PlacedReplica, Abandon]]) -> None:
        """Write which replicas are abandoned, then renew their nodes' assignments and notify the job. A replica that recovers
        during the write is abandoned all the same, unless it has finished."""
        rows = [replace(replica.to_stored(), abandoned=True) for replica, _ in decided]
        await self.orchestrator.persistence.database.write(replace_placements(rows))
        for replica, decision in decided:
            if replica.state != "finished":
                replica.state = "abandoned"
                self.orchestrator.dispatch.renew_assignments([replica.node])
                self._report_abandoned(job, replica, decision)
        self.orchestrator.resources.capacity_freed()

    def _fail_incomplete_job(self, job: JobState) -> None:
        """Fail a job with abandoned PEs once all others have finished, because its result is incomplete."""
        tasks = [task for task in self.replicas_by_task(job) if task]
        abandoned = [task for task in tasks if all(replica.state == "abandoned" for replica in task)]
        finished = [task for task in tasks if any(replica.state == "finished" for replica in task)]
        if abandoned and len(abandoned) + len(finished) == len(tasks):
            last = next((replica.error for task in abandoned for replica in task if replica.error), "no reason given")
            names = ", ".join(task[0].task_name for task in abandoned)
            cause = (
                f"{names} abandoned, last: {last}; the rest has finished" if finished else f"every PE was abandoned, last: {last}"
            )
            self.orchestrator.post(job, "error", cause=cause, since=job.lifecycle.version)

    def _report_abandoned(self, job: JobState, replica: PlacedReplica, decision: Abandon) -> None:
        last = replica.error or "no reason given"
        cause = f"{replica.task_name} replica {replica.replica} is abandoned: {decision.cause}; last: {last}"
        self.orchestrator.events.emit("decision", cause, job=job.id, node=replica.node, replica=replica.key)
        peers = self.orchestrator.replicas.of(replica.job, [replica.task_name])
        if decision.cancel:
            self.orchestrator.post(job, "error", cause=cause)
        elif not living_peers(replica, peers):
            self.orchestrator.post(job, "gaveUp", cause=cause)

    def _fail_if_shared_pe_is_missing(self, job: JobState) -> None:
        """Fail a job that shares a PE whose own job ended before the PE was placed."""
        for owner, task in self.orchestrator.dataflow.graph.uses(job.id) if job.refs else ():
            owning = self.orchestrator.jobs.get(owner)
            if (owning is None or owning.ended) and not self.orchestrator.replicas.of(owner, [task.name]):
                missing = f"shares PE '{task.pe}' of job {owner}, which ended before the PE was placed"
                self.orchestrator.post(
                    job, "error", cause=f"{missing}; submit that one again, then this one", since=job.lifecycle.version
                )
                return

    def _schedule_restart(self, after_s: float, replica: PlacedReplica) -> None:
        """Restart a replica after a delay, through the job that is then responsible for it."""
        replica.due_s = due_s = self.orchestrator.time.now_s() + after_s
        data = {"key": replica.key, "incarnation": replica.incarnation}

        def due() -> None:
            if replica.due_s != due_s:
                return  # it recovered by itself, or has its next incarnation already
            replica.due_s = None
            job = self.orchestrator.jobs.get(self.responsible_job(replica))
            if job is not None and "restart" in job.transitions:
                self.orchestrator.post(job, "restart", data=data, cause=f"{replica.key}: {replica.error or replica.state}")

        asyncio.get_running_loop().call_later(after_s, due)
