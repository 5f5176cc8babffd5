"""Watching over replicas: what their changes mean for their jobs, and what policy says about the dead ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.control.nodes.dispatch import living_beside
from holdfast.control.nodes.replicas import DEAD, LIVING, STARTED, PlacedReplica
from holdfast.control.plugins import Plugin
from holdfast.control.recovery.restart_decision import STEADY_S, Abandon, LeaveDead, Restart, Situation, Wait, decide, leaves_dead
from holdfast.control.storage.stored_jobs import mark_finished, replace_placements, reset_failures
from holdfast.documents.job import Job

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command


class RestartPolicy(Plugin):
    """Weighs jobs when something about their replicas has changed."""

    action_names = ("restart_policy.evaluate",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.ended_jobs: dict[int, JobState] = {}
        self._dead_keys: set[str] = set()
        self._reported: dict[str, str] = {}

    def replica_changed(self, replica: PlacedReplica) -> None:
        """Note a change of a replica, and tell every job that uses it."""
        self._reported.pop(replica.key, None)
        if replica.state in DEAD:
            self._dead_keys.add(replica.key)
            self._count_failure(replica)
        else:
            self._dead_keys.discard(replica.key)
            replica.due_s = None  # it came back by itself
            if replica.failures and replica.state in STARTED:
                self._schedule_failure_reset(replica)
            if not replica.holds_room:
                self.orchestrator.resources.capacity_freed()
            if replica.state == "finished":  # its node may be taken away before the next orchestrator could ask it
                self.orchestrator.spawn(self.orchestrator.persistence.database.write(mark_finished(replica.placed())))
        self.orchestrator.events.emit(
            "replica",
            f"{replica.state}: {replica.error}" if replica.error else replica.state,
            job=replica.job,
            node=replica.node,
            replica=replica.key,
            data={"state": replica.state, "incarnation": replica.incarnation},
        )
        for user in sorted(self.orchestrator.dataflow.graph.users_of(replica.job, replica.pe)):
            if user in self.orchestrator.jobs:
                self.orchestrator.post_status(self.orchestrator.jobs[user])

    def report_once(self, job: JobState, replica: PlacedReplica, text: str) -> None:
        """Tell why a replica stays as it is: again only when that is for another reason, or something happened to it."""
        if self._reported.get(replica.key) != text:
            self._reported[replica.key] = text
            self.orchestrator.events.emit("decision", text, job=job.id, node=replica.node, replica=replica.key)

    def forget(self, replica: PlacedReplica) -> None:
        """A replica is not there any more."""
        self._dead_keys.discard(replica.key)
        self._reported.pop(replica.key, None)

    def nodes_changed(self) -> None:
        """There may be room where there was none: weigh jobs that wait for it, and empty nodes that are drained."""
        for key in sorted(self._dead_keys):
            replica = self.orchestrator.replicas.get(key)
            if replica is not None and replica.state in DEAD and replica.due_s is None:
                job = self.orchestrator.jobs.get(self.responsible(replica))
                if job is not None:
                    self.orchestrator.post_status(job)
        for name in sorted(self.orchestrator.resources.draining):
            self.move_replicas_off(name)

    def move_replicas_off(self, node: str) -> None:
        """Ask for every replica of a node to be moved off it."""
        for replica in self.orchestrator.replicas.at(node):
            job = self.orchestrator.jobs.get(self.responsible(replica))
            data = {"key": replica.key, "node": node}
            if job is not None and replica.wanted and replica.state in LIVING and not job.has_queued("move", data):
                self.orchestrator.post(job, "move", data=data, cause=f"node {node} is drained")

    async def evaluate(self, job: JobState, command: Command) -> None:
        """See what is to be done about dead replicas, and whether the job has started, finished or stopped."""
        if "restart" in job.transitions:
            self._fail_if_shared_pe_is_missing(job)
            if decided := self._decide_about_dead(job):
                await self._abandon(job, decided)
            self._fail_incomplete_job(job)
        verdict = self._next_event(job)
        if verdict is not None and verdict in job.transitions:
            self.orchestrator.post(job, verdict, since=job.lifecycle.version)

    def repost_abandoned(self, job: JobState) -> None:
        """Let a job hear once more of PEs that are given up: their being so is stored, and what came of it may not have been."""
        for task in self.replicas_by_task(job):
            if task and all(replica.state == "abandoned" for replica in task):
                event = "error" if self.document_of(task[0]).policy.then == "cancel" else "gaveUp"
                if event in job.transitions:
                    self.orchestrator.post(
                        job, event, cause=f"{task[0].task_name} was given up before the orchestrator was started again"
                    )

    def responsible(self, replica: PlacedReplica) -> int:
        """The job that sees to a replica: of those that use it and are not leaving its own, else the oldest."""
        users = self.orchestrator.dataflow.graph.users_of(replica.job, replica.pe)
        stay = [user for user in users if user in self.orchestrator.jobs and not self.orchestrator.jobs[user].is_stopping]
        return min(stay, key=lambda user: (user != replica.job, user), default=replica.job)

    def find_job(self, job: int) -> JobState | None:
        """A job that lives, or whose PEs live on in others."""
        return self.orchestrator.jobs.get(job) or self.ended_jobs.get(job)

    def document_of(self, replica: PlacedReplica) -> Job:
        """The job whose policy holds for a replica."""
        live = self.find_job(replica.job) or self.orchestrator.jobs[self.responsible(replica)]
        return live.document

    def replicas_by_task(self, job: JobState) -> Iterator[list[PlacedReplica]]:
        """Per task that a job uses, its replicas."""
        for owner, task in self.orchestrator.dataflow.graph.uses(job.id):
            yield self.orchestrator.replicas.of(owner, [task.name])

    def _next_event(self, job: JobState) -> str | None:
        tasks = list(self.replicas_by_task(job))
        if job.is_stopping:
            mine = self.orchestrator.dataflow.graph.left_by(job.id)
            left = [r for owner, names in mine.items() for r in self.orchestrator.replicas.of(owner, names)]
            if any(replica.stopping is None for replica in left):  # others used them when it was canceled, and do no more
                self.orchestrator.dispatch.mark_stopping(job)
                self.orchestrator.dispatch.renew_assignments({replica.node for replica in left})
            return ("failed" if job.broken else "stopped") if all(replica.state == "stopped" for replica in left) else None
        if all(any(replica.state == "finished" for replica in task) for task in tasks):
            if "finished" in job.transitions:
                return "finished"
            return "started"
        if all(task and all(self._has_settled(replica, task) for replica in task) for task in tasks):
            return "started"
        return None

    def _has_settled(self, replica: PlacedReplica, peers: list[PlacedReplica]) -> bool:
        """Whether nothing is to come of a replica: it has started, was given up, or is left dead for as long as a peer lives."""
        if replica.state in STARTED or replica.state == "abandoned":
            return True
        left = replica.state in DEAD and replica.due_s is None and leaves_dead(self.document_of(replica).policy)
        return left and any(peer.state in STARTED for peer in peers)

    def _count_failure(self, replica: PlacedReplica) -> None:
        replica.failures += 1
        changed = self.orchestrator.replicas.demote(replica)
        self.orchestrator.dispatch.renew_assignments({peer.node for peer in changed})

    def _schedule_failure_reset(self, replica: PlacedReplica) -> None:
        """Forget a replica's failures when it has run for long enough; the next orchestrator must not count them either."""
        incarnation, failures = replica.incarnation, replica.failures

        def reset() -> None:
            same = self.orchestrator.replicas.get(replica.key) is replica and replica.state in STARTED
            if same and (replica.incarnation, replica.failures) == (incarnation, failures) and not self.orchestrator.stopping:
                replica.failures = 0
                self.orchestrator.spawn(self.orchestrator.persistence.database.write(reset_failures(replica.placed())))

        asyncio.get_running_loop().call_later(STEADY_S, reset)

    def _decide_about_dead(self, job: JobState) -> list[tuple[PlacedReplica, Abandon]]:
        """Decide about dead replicas; those that are to be given up."""
        dead = [
            (replica, task)
            for task in self.replicas_by_task(job)
            for replica in task
            if replica.state in DEAD and replica.due_s is None and self.responsible(replica) == job.id
        ]
        decided = ((replica, self._decide(job, replica, task)) for replica, task in dead)
        return [(replica, given_up) for replica, given_up in decided if given_up is not None]

    def _decide(self, job: JobState, replica: PlacedReplica, peers: list[PlacedReplica]) -> Abandon | None:
        """Do what policy says about a dead replica, but for giving it up."""
        document = self.document_of(replica)
        node = self.orchestrator.resources.nodes.get(replica.node)
        decision = decide(
            document.policy,
            Situation(
                failures=replica.failures,
                living=living_beside(replica, peers),
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
            case Wait(why=why):
                self.report_once(job, replica, f"waits: {why}")
        return None

    async def _abandon(self, job: JobState, decided: list[tuple[PlacedReplica, Abandon]]) -> None:
        """Write which replicas are given up, then let their nodes and the job know. One that came back meanwhile, and has not
        finished, has come too late."""
        rows = [replace(replica.placed(), abandoned=True) for replica, _ in decided]
        await self.orchestrator.persistence.database.write(replace_placements(rows))
        for replica, given_up in decided:
            if replica.state != "finished":
                replica.state = "abandoned"
                self.orchestrator.dispatch.renew_assignments([replica.node])
                self._report_abandoned(job, replica, given_up)
        self.orchestrator.resources.capacity_freed()

    def _fail_incomplete_job(self, job: JobState) -> None:
        """End a job of which PEs were given up when all others have finished: its result is incomplete."""
        tasks = [task for task in self.replicas_by_task(job) if task]
        given_up = [task for task in tasks if all(replica.state == "abandoned" for replica in task)]
        finished = [task for task in tasks if any(replica.state == "finished" for replica in task)]
        if given_up and len(given_up) + len(finished) == len(tasks):
            last = next((replica.error for task in given_up for replica in task if replica.error), "no reason given")
            names = ", ".join(task[0].task_name for task in given_up)
            cause = (
                f"{names} given up, last: {last}; the rest has finished" if finished else f"every PE of it given up, last: {last}"
            )
            self.orchestrator.post(job, "error", cause=cause, since=job.lifecycle.version)

    def _report_abandoned(self, job: JobState, replica: PlacedReplica, given_up: Abandon) -> None:
        last = replica.error or "no reason given"
        cause = f"{replica.task_name} replica {replica.replica} is given up: {given_up.why}; last: {last}"
        self.orchestrator.events.emit("decision", cause, job=job.id, node=replica.node, replica=replica.key)
        peers = self.orchestrator.replicas.of(replica.job, [replica.task_name])
        if given_up.cancel:
            self.orchestrator.post(job, "error", cause=cause)
        elif not living_beside(replica, peers):
            self.orchestrator.post(job, "gaveUp", cause=cause)

    def _fail_if_shared_pe_is_missing(self, job: JobState) -> None:
        """End a job that shares a PE which will never be there: the PE's own job has ended before it had a place."""
        for owner, task in self.orchestrator.dataflow.graph.uses(job.id) if job.refs else ():
            live = self.orchestrator.jobs.get(owner)
            if (live is None or live.ended) and not self.orchestrator.replicas.of(owner, [task.name]):
                missing = f"shares PE '{task.pe}' of job {owner}, which has ended before the PE had a place"
                self.orchestrator.post(
                    job, "error", cause=f"{missing}; submit that one again, then this one", since=job.lifecycle.version
                )
                return

    def _schedule_restart(self, after_s: float, replica: PlacedReplica) -> None:
        """Have a replica started anew after so long, by whichever job is responsible for it then."""
        replica.due_s = due_s = self.orchestrator.time.now_s() + after_s
        data = {"key": replica.key, "incarnation": replica.incarnation}

        def due() -> None:
            if replica.due_s != due_s:
                return  # it came back by itself, or has its next incarnation already
            replica.due_s = None
            job = self.orchestrator.jobs.get(self.responsible(replica))
            if job is not None and "restart" in job.transitions:
                self.orchestrator.post(job, "restart", data=data, cause=f"{replica.key}: {replica.error or replica.state}")

        asyncio.get_running_loop().call_later(after_s, due)
