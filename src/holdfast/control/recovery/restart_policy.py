"""Watching over replicas: what their changes mean for their jobs, and what policy says about the dead ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.control.nodes.dispatch import living_beside
from holdfast.control.nodes.replicas import DEAD, LIVING, STARTED, PlacedReplica
from holdfast.control.plugins import Plugin
from holdfast.control.recovery.restart_decision import STEADY_S, GiveUp, Leave, Restart, Situation, Wait, decide, leaves_dead
from holdfast.control.storage.archive import failures_forgotten, replica_finished, replicas_placed
from holdfast.documents.job import Job

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import LiveJob
    from holdfast.control.jobs.state_machine import Command


class RestartPolicy(Plugin):
    """Weighs jobs when something about their replicas has changed."""

    action_names = ("restart_policy.weigh",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.ended: dict[int, LiveJob] = {}
        self._dead: set[str] = set()
        self._said: dict[str, str] = {}

    def replica_changed(self, replica: PlacedReplica) -> None:
        """Note a change of a replica, and tell every job that uses it."""
        self._said.pop(replica.key, None)
        if replica.state in DEAD:
            self._dead.add(replica.key)
            self._count_failure(replica)
        else:
            self._dead.discard(replica.key)
            replica.due_s = None  # it came back by itself
            if replica.failures and replica.state in STARTED:
                self._prove(replica)
            if not replica.holds_room:
                self.orchestrator.resources.room_was_made()
            if replica.state == "finished":  # its node may be taken away before the next orchestrator could ask it
                self.orchestrator.spawn(self.orchestrator.persistence.database.write(replica_finished(replica.placed())))
        self.orchestrator.events.tell(
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

    def tell_once(self, job: LiveJob, replica: PlacedReplica, text: str) -> None:
        """Tell why a replica stays as it is: again only when that is for another reason, or something happened to it."""
        if self._said.get(replica.key) != text:
            self._said[replica.key] = text
            self.orchestrator.events.tell("decision", text, job=job.id, node=replica.node, replica=replica.key)

    def forget(self, replica: PlacedReplica) -> None:
        """A replica is not there any more."""
        self._dead.discard(replica.key)
        self._said.pop(replica.key, None)

    def nodes_changed(self) -> None:
        """There may be room where there was none: weigh jobs that wait for it, and empty nodes that are drained."""
        for key in sorted(self._dead):
            replica = self.orchestrator.replicas.get(key)
            if replica is not None and replica.state in DEAD and replica.due_s is None:
                job = self.orchestrator.jobs.get(self.responsible(replica))
                if job is not None:
                    self.orchestrator.post_status(job)
        for name in sorted(self.orchestrator.resources.draining):
            self.empty(name)

    def empty(self, node: str) -> None:
        """Ask for every replica of a node to be moved off it."""
        for replica in self.orchestrator.replicas.at(node):
            job = self.orchestrator.jobs.get(self.responsible(replica))
            data = {"key": replica.key, "node": node}
            if job is not None and replica.wanted and replica.state in LIVING and not job.awaits("move", data):
                self.orchestrator.post(job, "move", data=data, cause=f"node {node} is drained")

    async def weigh(self, job: LiveJob, command: Command) -> None:
        """See what is to be done about dead replicas, and whether the job has started, finished or stopped."""
        if "restart" in job.transitions:
            self._miss_shared(job)
            if decided := self._see_to_dead(job):
                await self._give_up(job, decided)
            self._end_what_is_left(job)
        verdict = self._verdict(job)
        if verdict is not None and verdict in job.transitions:
            self.orchestrator.post(job, verdict, since=job.life.moves)

    def recall(self, job: LiveJob) -> None:
        """Let a job hear once more of PEs that are given up: their being so is stored, and what came of it may not have been."""
        for task in self.used_by(job):
            if task and all(replica.state == "abandoned" for replica in task):
                event = "error" if self.document_of(task[0]).policy.then == "cancel" else "gaveUp"
                if event in job.transitions:
                    self.orchestrator.post(
                        job, event, cause=f"{task[0].task_name} was given up before the orchestrator was started again"
                    )

    def responsible(self, replica: PlacedReplica) -> int:
        """The job that sees to a replica: of those that use it and are not leaving its own, else the oldest."""
        users = self.orchestrator.dataflow.graph.users_of(replica.job, replica.pe)
        stay = [user for user in users if user in self.orchestrator.jobs and not self.orchestrator.jobs[user].leaving]
        return min(stay, key=lambda user: (user != replica.job, user), default=replica.job)

    def known(self, job: int) -> LiveJob | None:
        """A job that lives, or whose PEs live on in others."""
        return self.orchestrator.jobs.get(job) or self.ended.get(job)

    def document_of(self, replica: PlacedReplica) -> Job:
        """The job whose policy holds for a replica."""
        live = self.known(replica.job) or self.orchestrator.jobs[self.responsible(replica)]
        return live.document

    def used_by(self, job: LiveJob) -> Iterator[list[PlacedReplica]]:
        """Per task that a job uses, its replicas."""
        for owner, task in self.orchestrator.dataflow.graph.uses(job.id):
            yield self.orchestrator.replicas.of(owner, [task.name])

    def _verdict(self, job: LiveJob) -> str | None:
        tasks = list(self.used_by(job))
        if job.leaving:
            mine = self.orchestrator.dataflow.graph.left_by(job.id)
            left = [r for owner, names in mine.items() for r in self.orchestrator.replicas.of(owner, names)]
            if any(replica.stopping is None for replica in left):  # others used them when it was canceled, and do no more
                self.orchestrator.dispatch.mark_stopping(job)
                self.orchestrator.dispatch.touch({replica.node for replica in left})
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
        self.orchestrator.dispatch.touch({peer.node for peer in changed})

    def _prove(self, replica: PlacedReplica) -> None:
        """Forget a replica's failures when it has run for long enough; the next orchestrator must not count them either."""
        incarnation, failures = replica.incarnation, replica.failures

        def proven() -> None:
            same = self.orchestrator.replicas.get(replica.key) is replica and replica.state in STARTED
            if same and (replica.incarnation, replica.failures) == (incarnation, failures) and not self.orchestrator.stopping:
                replica.failures = 0
                self.orchestrator.spawn(self.orchestrator.persistence.database.write(failures_forgotten(replica.placed())))

        asyncio.get_running_loop().call_later(STEADY_S, proven)

    def _see_to_dead(self, job: LiveJob) -> list[tuple[PlacedReplica, GiveUp]]:
        """Decide about dead replicas; those that are to be given up."""
        dead = [
            (replica, task)
            for task in self.used_by(job)
            for replica in task
            if replica.state in DEAD and replica.due_s is None and self.responsible(replica) == job.id
        ]
        decided = ((replica, self._see_to(job, replica, task)) for replica, task in dead)
        return [(replica, given_up) for replica, given_up in decided if given_up is not None]

    def _see_to(self, job: LiveJob, replica: PlacedReplica, peers: list[PlacedReplica]) -> GiveUp | None:
        """Do what policy says about a dead replica, but for giving it up."""
        document = self.document_of(replica)
        node = self.orchestrator.resources.nodes.get(replica.node)
        decision = decide(
            document.policy,
            Situation(
                failures=replica.failures,
                living=living_beside(replica, peers),
                here=node is not None and node.takes_replicas,
                elsewhere=self.orchestrator.placement.may_go_elsewhere(replica, host_kind=document.host_kind),
            ),
        )
        match decision:
            case Restart(after_s=after_s):
                self._later(after_s, replica)
            case GiveUp():
                return decision
            case Leave():
                pass
            case Wait(why=why):
                self.tell_once(job, replica, f"waits: {why}")
        return None

    async def _give_up(self, job: LiveJob, decided: list[tuple[PlacedReplica, GiveUp]]) -> None:
        """Write which replicas are given up, then let their nodes and the job know. One that came back meanwhile, and has not
        finished, has come too late."""
        rows = [replace(replica.placed(), abandoned=True) for replica, _ in decided]
        await self.orchestrator.persistence.database.write(replicas_placed(rows))
        for replica, given_up in decided:
            if replica.state != "finished":
                replica.state = "abandoned"
                self.orchestrator.dispatch.touch([replica.node])
                self._tell_given_up(job, replica, given_up)
        self.orchestrator.resources.room_was_made()

    def _end_what_is_left(self, job: LiveJob) -> None:
        """End a job of which PEs were given up when all others have finished: its result is incomplete."""
        tasks = [task for task in self.used_by(job) if task]
        given_up = [task for task in tasks if all(replica.state == "abandoned" for replica in task)]
        finished = [task for task in tasks if any(replica.state == "finished" for replica in task)]
        if given_up and len(given_up) + len(finished) == len(tasks):
            last = next((replica.error for task in given_up for replica in task if replica.error), "no reason given")
            names = ", ".join(task[0].task_name for task in given_up)
            cause = (
                f"{names} given up, last: {last}; the rest has finished" if finished else f"every PE of it given up, last: {last}"
            )
            self.orchestrator.post(job, "error", cause=cause, since=job.life.moves)

    def _tell_given_up(self, job: LiveJob, replica: PlacedReplica, given_up: GiveUp) -> None:
        last = replica.error or "no reason given"
        cause = f"{replica.task_name} replica {replica.replica} is given up: {given_up.why}; last: {last}"
        self.orchestrator.events.tell("decision", cause, job=job.id, node=replica.node, replica=replica.key)
        peers = self.orchestrator.replicas.of(replica.job, [replica.task_name])
        if given_up.cancel:
            self.orchestrator.post(job, "error", cause=cause)
        elif not living_beside(replica, peers):
            self.orchestrator.post(job, "gaveUp", cause=cause)

    def _miss_shared(self, job: LiveJob) -> None:
        """End a job that shares a PE which will never be there: the PE's own job has ended before it had a place."""
        for owner, task in self.orchestrator.dataflow.graph.uses(job.id) if job.refs else ():
            live = self.orchestrator.jobs.get(owner)
            if (live is None or live.ended) and not self.orchestrator.replicas.of(owner, [task.name]):
                missing = f"shares PE '{task.pe}' of job {owner}, which has ended before the PE had a place"
                self.orchestrator.post(job, "error", cause=f"{missing}; submit that one again, then this one", since=job.life.moves)
                return

    def _later(self, after_s: float, replica: PlacedReplica) -> None:
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
