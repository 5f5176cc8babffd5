"""What each node should have: replicas get their place, lose it, move, wake and idle, and nodes are told the sum of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.control.nodes.replicas import DEAD, LIVING, PlacedReplica
from holdfast.control.plugins import Plugin
from holdfast.control.storage import stored_jobs
from holdfast.control.storage.stored_jobs import StoredPlacement
from holdfast.documents.job import NO_NEED
from holdfast.protocol.messages import Assignment

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command
    from holdfast.control.nodes.resource_manager import Node


class Dispatch(Plugin):
    """Keeps the nodes' assignments. A change of a replica's place is written before any node hears of it."""

    action_names = (
        "dispatch.assign",
        "dispatch.restart",
        "dispatch.move",
        "dispatch.activate",
        "dispatch.stop",
        "dispatch.release",
    )

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._settings: dict[int, dict[str, Any]] = {}

    async def assign(self, job: JobState, command: Command) -> None:
        """Give the job's replicas the places that were written for them."""
        added = self.add_replicas(job.plan)
        job.plan = []
        self.orchestrator.placement.release(job.id)
        self._publish_placements(
            {replica.node for replica in added}
        )  # none after a recovery: a node's first assignment has had them all
        self.orchestrator.post_status(job)  # PEs that it shares may run already

    def add_replicas(self, plan: Iterable[StoredPlacement]) -> list[PlacedReplica]:
        """Add replicas where they are placed, and return them; those that are there already stay as they are."""
        replicas = self.orchestrator.replicas
        added = []
        for placed in plan:
            pe, _, task = placed.task.rpartition("/")
            owner = self.orchestrator.restart_policy.find_job(placed.job)
            replica = PlacedReplica(
                placed.job,
                pe,
                int(task),
                placed.replica,
                placed.node,
                NO_NEED if owner is None else owner.document.need_of(placed.task),
                incarnation=placed.incarnation,
                rank=placed.replica,
                active=placed.active,
                failures=placed.failures,
                state="finished" if placed.finished else "abandoned" if placed.abandoned else "placed",
                since_s=self.orchestrator.time.now_s(),
            )
            if replicas.get(replica.key) is None:
                replicas.add(replica)
                added.append(replica)
        return added

    async def restart(self, job: JobState, command: Command) -> None:
        """Start a failed replica anew, where its policy wants it, unless it has come back by itself."""
        replica = self._dead_replica(command)
        if replica is None:
            return
        here = self.orchestrator.resources.nodes.get(replica.node)
        up = here is not None and here.takes_replicas
        document = self.orchestrator.restart_policy.document_of(replica)
        node = replica.node if up else None
        if document.policy.restart != "here":
            node = self.orchestrator.placement.find_other_node(replica, host_kind=document.host_kind) or node
        if node is None:
            return  # no room now: it is weighed again when there is some
        await self._place_next_incarnation(replica, node, why=f"restarted after failure {replica.failures}")

    async def move(self, job: JobState, command: Command) -> None:
        """Take a replica off a node that is being drained, or where it does not get on."""
        replica = self.orchestrator.replicas.get(command.event.data["key"])
        if replica is None or not replica.wanted or replica.node != command.event.data["node"] or replica.state == "finished":
            return
        document = self.orchestrator.restart_policy.document_of(replica)
        node = self.orchestrator.placement.find_other_node(replica, host_kind=document.host_kind)
        if node is None:
            text = (
                f"cannot leave {replica.node}: every other node of kind '{document.host_kind}' is full or has another replica of "
                "the same task; start one more"
            )
            self.orchestrator.restart_policy.report_once(job, replica, text)
            return
        await self._place_next_incarnation(replica, node, why=command.event.cause or "its node is drained")

    async def activate(self, job: JobState, command: Command) -> None:
        """Wake and idle replicas: per task, those that should be active."""
        wanted = command.event.data["active"]
        changed = [
            replica
            for replica in self.orchestrator.replicas.of(job.id, wanted)
            if replica.active != (replica.replica in wanted[replica.task_name])
        ]
        if not changed:
            return
        rows = [replace(replica.placed(), active=not replica.active) for replica in changed]
        await self.orchestrator.persistence.database.write(stored_jobs.replace_placements(rows))
        for replica in changed:
            replica.active = not replica.active
        self.renew_assignments({replica.node for replica in changed})
        for replica in changed:
            text = "activated" if replica.active else "idled"
            self.orchestrator.events.emit("replica", text, job=job.id, node=replica.node, replica=replica.key)

    async def stop(self, job: JobState, command: Command) -> None:
        """Stop every replica that only this job uses; on to `stopped` when their nodes have said so."""
        self.mark_stopping(job)
        self.renew_assignments({replica.node for replica in self._replicas_only_used_by(job.id)})
        self.orchestrator.post_status(job)

    def mark_stopping(self, job: JobState) -> None:
        """From the next assignments on, no node has what only this job uses."""
        for replica in self._replicas_only_used_by(job.id):
            node = self.orchestrator.resources.nodes.get(replica.node)
            if replica.state in ("abandoned", "failed", "finished", "lost"):
                replica.state = "stopped"
            if replica.stopping is None:
                replica.stopping = 1 if node is None else node.generation + 1

    async def release(self, job: JobState, command: Command) -> None:
        """Give the places of a job that has ended free."""
        self.remove_replicas(job.id)

    def remove_replicas(self, job: int) -> None:
        """Remove every replica that only this job uses."""
        gone = self._replicas_only_used_by(job)
        for replica in gone:
            self.orchestrator.replicas.remove(replica)
            self.orchestrator.restart_policy.forget(replica)
        self.renew_assignments({replica.node for replica in gone})
        self.forget(job)
        if gone:
            self.orchestrator.resources.capacity_freed()

    def forget(self, job: int) -> None:
        """Nothing of a job is to be told to nodes any more."""
        self._settings.pop(job, None)

    def renew_ended_job(self, job: int) -> None:
        """Let nodes know what is left of a job that has ended."""
        self.forget(job)
        self.renew_assignments({replica.node for replica in self.orchestrator.replicas.of(job)})

    def renew_assignments(self, nodes: Iterable[str]) -> None:
        """The assignments of these nodes have changed."""
        for name in nodes:
            node = self.orchestrator.resources.nodes.get(name)
            if node is not None:
                node.renew_assignment()

    def assignment(self, node: Node) -> Assignment:
        """Everything that should be on a node."""
        wanted = [replica for replica in self.orchestrator.replicas.at(node.name) if replica.wanted]
        agents = self.orchestrator.agents.at(node.name)
        return Assignment(
            term=self.orchestrator.term,
            generation=node.generation,
            replicas=tuple(replica.assigned() for replica in sorted(wanted, key=lambda replica: replica.key)),
            agents=agents,
            jobs={job: self.settings_of(job) for job in sorted({r.job for r in wanted} | {a.job for a in agents})},
        )

    def settings_of(self, job: int) -> dict[str, Any]:
        """What the PE hosts need to know of a job: its layout's settings, and where the logs of the jobs it names are. Of one that
        has ended, and whose PEs others share, also which tasks are left."""
        if job not in self._settings:
            live = self.orchestrator.restart_policy.find_job(job)
            settings = dict(live.layout.settings) if live is not None and live.layout is not None else {}
            if live is not None and live.refs:
                settings["logs"] = {name: self._log_of(number) for name, number in live.refs.items()}
            if live is not None and job in self.orchestrator.restart_policy.ended_jobs:
                settings["left"] = sorted({replica.task_name for replica in self.orchestrator.replicas.of(job)})
            self._settings[job] = settings
        return self._settings[job]

    def _log_of(self, job: int) -> str | None:
        layout = self.orchestrator.dataflow.graph.layouts.get(job)
        return layout.settings.get("job", {}).get("log") if layout is not None else None

    async def _place_next_incarnation(self, replica: PlacedReplica, node: str, *, why: str) -> None:
        """Write the replica's next incarnation on a node, then let the nodes know. One that came back or finished while that was
        written stays what it is, and that is written again."""
        was, incarnation, dead = replica.node, replica.incarnation + 1, replica.state in DEAD
        placed = StoredPlacement(
            replica.job, replica.task_name, replica.replica, node, incarnation, replica.active, replica.failures
        )
        with self.orchestrator.placement.reserve(node, replica):
            await self.orchestrator.persistence.database.write(stored_jobs.replace_placements([placed]))
        if self.orchestrator.replicas.get(replica.key) is not replica or replica.stopping is not None:
            return
        if replica.state == "finished" or (dead and replica.state not in DEAD):
            await self.orchestrator.persistence.database.write(stored_jobs.replace_placements([replica.placed()]))
            return
        self.orchestrator.replicas.move(replica, node)
        replica.incarnation, replica.state, replica.since_s = incarnation, "placed", self.orchestrator.time.now_s()
        replica.error = replica.status = replica.due_s = None
        moved = f"moved from {was} to {node}" if node != was else f"started again on {node}"
        self.orchestrator.events.emit(
            "replica", f"{moved}: {why}", job=replica.job, node=node, replica=replica.key, data={"incarnation": incarnation}
        )
        self.renew_assignments([was])
        self._publish_placements([node])

    def _publish_placements(self, nodes: Collection[str]) -> None:
        """Let nodes know of new places. While these were written a node may have been lost, or drained: they came too late to be
        lost with the others, or moved."""
        self.renew_assignments(nodes)
        for name in nodes:
            node = self.orchestrator.resources.nodes.get(name)
            if node is None or node.state == "lost":
                self.orchestrator.resources.mark_replicas_lost(name, "it was already when this got its place there")
            elif node.draining:
                self.orchestrator.restart_policy.move_replicas_off(name)

    def _dead_replica(self, command: Command) -> PlacedReplica | None:
        """The replica that a restart speaks of, if it is still the dead one."""
        replica = self.orchestrator.replicas.get(command.event.data["key"])
        same = replica is not None and replica.incarnation == command.event.data["incarnation"]
        return replica if same and replica is not None and replica.state in DEAD and replica.stopping is None else None

    def _replicas_only_used_by(self, job: int) -> list[PlacedReplica]:
        graph = self.orchestrator.dataflow.graph
        return [replica for owner, tasks in graph.left_by(job).items() for replica in self.orchestrator.replicas.of(owner, tasks)]


def living_beside(replica: PlacedReplica, peers: Iterable[PlacedReplica]) -> int:
    """How many other replicas of the same task live, are about to be started, or have finished: then nothing of it is missing."""
    others = (peer for peer in peers if peer is not replica)
    return sum(peer.state in LIVING or peer.state == "finished" or peer.due_s is not None for peer in others)
