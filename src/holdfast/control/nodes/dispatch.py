"""The assignments of nodes: which replicas each node should run. Replicas are added, moved, activated, idled and removed here."""

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
    """Computes the nodes' assignments. A change of a replica's placement is written to the database before any node learns of
    it."""

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
        """Add the job's replicas to the nodes of its stored placement."""
        added = self.add_replicas(job.placement)
        job.placement = []
        self.orchestrator.placement.release(job.id)
        self._publish_placements({replica.node for replica in added})  # none after a recovery, which adds all replicas
        self.orchestrator.post_status(job)  # shared PEs may run already

    def add_replicas(self, placement: Iterable[StoredPlacement]) -> list[PlacedReplica]:
        """Add the replicas of a placement, except those that exist already; return the added ones."""
        replicas = self.orchestrator.replicas
        added = []
        for placed in placement:
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
                left_on={node for node in placed.left_on.split(",") if node},
            )
            if replicas.get(replica.key) is None:
                replicas.add(replica)
                added.append(replica)
        return added

    async def restart(self, job: JobState, command: Command) -> None:
        """Start the next incarnation of a failed replica where its policy wants it, unless it has recovered by itself."""
        replica = self._dead_replica(command)
        if replica is None:
            return
        document = self.orchestrator.restart_policy.document_of(replica)
        own_node = self.orchestrator.resources.nodes.get(replica.node)
        node = replica.node if own_node is not None and own_node.takes_replicas else None
        if document.policy.restart != "here":
            node = self.orchestrator.placement.find_other_node(replica, host_kind=document.host_kind) or node
        if node is None:
            return  # no room now: the restart policy decides again when there is some
        await self._place_next_incarnation(replica, node, cause=f"restarted after failure {replica.failures + replica.losses}")

    async def move(self, job: JobState, command: Command) -> None:
        """Move a replica off its node, because the node is drained or an observer asks for it."""
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
        await self._place_next_incarnation(replica, node, cause=command.event.cause or "its node is drained")

    async def activate(self, job: JobState, command: Command) -> None:
        """Activate and idle replicas, so that exactly those in the event are active."""
        active = command.event.data["active"]
        changed = [
            replica
            for replica in self.orchestrator.replicas.of(job.id, active)
            if replica.active != (replica.replica in active[replica.task_name])
        ]
        if not changed:
            return
        rows = [replace(replica.to_stored(), active=not replica.active) for replica in changed]
        await self.orchestrator.persistence.database.write(stored_jobs.replace_placements(rows))
        for replica in changed:
            replica.active = not replica.active
        self.renew_assignments({replica.node for replica in changed})
        for replica in changed:
            text = "activated" if replica.active else "idled"
            self.orchestrator.events.emit("replica", text, job=job.id, node=replica.node, replica=replica.key)

    async def stop(self, job: JobState, command: Command) -> None:
        """Stop every replica that only this job uses. The restart policy posts `stopped` when the nodes have stopped them."""
        self.mark_stopping(job)
        self.renew_assignments({replica.node for replica in self._replicas_only_used_by(job.id)})
        self.orchestrator.post_status(job)

    def mark_stopping(self, job: JobState) -> None:
        """Mark the replicas that only this job uses as stopping: the next assignments leave them out."""
        for replica in self._replicas_only_used_by(job.id):
            node = self.orchestrator.resources.nodes.get(replica.node)
            until = 1 if node is None else node.generation + 1
            if replica.stopping is None:
                replica.stopping = until
            if replica.state in ("abandoned", "failed", "lost"):  # its node may not know that it should not run
                self.orchestrator.replicas.leave(replica, replica.node, until=until)
            if replica.state in ("abandoned", "failed", "finished", "lost"):
                replica.state = "stopped"

    async def release(self, job: JobState, command: Command) -> None:
        """Remove the replicas of a job that has ended."""
        self.remove_replicas(job.id)

    def remove_replicas(self, job: int) -> None:
        """Remove every replica that only this job uses."""
        removed = self._replicas_only_used_by(job)
        for replica in removed:
            self.orchestrator.replicas.remove(replica)
            self.orchestrator.restart_policy.forget(replica)
        self.renew_assignments({replica.node for replica in removed})
        self.forget(job)
        if removed:
            self.orchestrator.resources.capacity_freed()

    def forget(self, job: int) -> None:
        """Forget the settings of a job, so that they are computed again."""
        self._settings.pop(job, None)

    def renew_ended_job(self, job: int) -> None:
        """Renew the assignments with replicas of an ended job that other jobs share."""
        self.forget(job)
        self.renew_assignments({replica.node for replica in self.orchestrator.replicas.of(job)})

    def renew_assignments(self, nodes: Iterable[str]) -> None:
        """Give these nodes a new generation of their assignments."""
        for name in nodes:
            node = self.orchestrator.resources.nodes.get(name)
            if node is not None:
                node.renew_assignment()

    def assignment(self, node: Node) -> Assignment:
        """Return the assignment of a node."""
        replicas = [replica for replica in self.orchestrator.replicas.at(node.name) if replica.wanted]
        agents = self.orchestrator.agents.at(node.name)
        return Assignment(
            term=self.orchestrator.term,
            generation=node.generation,
            replicas=tuple(replica.to_assigned() for replica in sorted(replicas, key=lambda replica: replica.key)),
            agents=agents,
            jobs={job: self.settings_of(job) for job in sorted({r.job for r in replicas} | {a.job for a in agents})},
            faults=node.faults,
        )

    def settings_of(self, job: int) -> dict[str, Any]:
        """Return what PE hosts need to know about a job: its layout's settings, the logs of the jobs that it names, and, if it has
        ended and other jobs share PEs of it, which tasks still run."""
        if job not in self._settings:
            state = self.orchestrator.restart_policy.find_job(job)
            settings = dict(state.layout.settings) if state is not None and state.layout is not None else {}
            if state is not None and state.document.log is not None:
                settings["owner"] = state.log_owner
            if state is not None and state.refs:
                settings["logs"] = {name: self._log_of(number) for name, number in state.refs.items()}
            if state is not None and job in self.orchestrator.restart_policy.ended_jobs:
                settings["remaining"] = sorted({replica.task_name for replica in self.orchestrator.replicas.of(job)})
            self._settings[job] = settings
        return self._settings[job]

    def _log_of(self, job: int) -> str | None:
        layout = self.orchestrator.dataflow.graph.layouts.get(job)
        return layout.settings.get("job", {}).get("log") if layout is not None else None

    async def _place_next_incarnation(self, replica: PlacedReplica, node: str, *, cause: str) -> None:
        """Write the replica's next incarnation on a node, then renew the assignments.

        A replica that recovered or finished during the write keeps its incarnation, which is then written again.
        """
        previous, incarnation, dead = replica.node, replica.incarnation + 1, replica.state in DEAD
        left_on = replica.left_on | {previous} - {node}  # until it confirms, the previous node may run the previous incarnation
        placed = replace(
            StoredPlacement(replica.job, replica.task_name, replica.replica, node, incarnation, replica.active, replica.failures),
            left_on=",".join(sorted(left_on)),
        )
        with self.orchestrator.placement.reserve(node, replica):
            await self.orchestrator.persistence.database.write(stored_jobs.replace_placements([placed]))
        if self.orchestrator.replicas.get(replica.key) is not replica or replica.stopping is not None:
            return
        if replica.state == "finished" or (dead and replica.state not in DEAD):
            await self.orchestrator.persistence.database.write(stored_jobs.replace_placements([replica.to_stored()]))
            return
        self.orchestrator.replicas.move(replica, node)
        replica.incarnation, replica.state, replica.since_s = incarnation, "placed", self.orchestrator.time.now_s()
        replica.error = replica.status = replica.due_s = None
        text = f"moved from {previous} to {node}" if node != previous else f"started again on {node}"
        self.orchestrator.events.emit(
            "replica", f"{text}: {cause}", job=replica.job, node=node, replica=replica.key, data={"incarnation": incarnation}
        )
        self.renew_assignments([previous])
        if previous != node:
            old = self.orchestrator.resources.nodes.get(previous)
            self.orchestrator.replicas.leave(replica, previous, until=1 if old is None else old.generation)
        self._publish_placements([node])

    def _publish_placements(self, nodes: Collection[str]) -> None:
        """Renew assignments after new placements. A node that was lost or drained during the write gets the same treatment again,
        for these replicas."""
        self.renew_assignments(nodes)
        for name in nodes:
            node = self.orchestrator.resources.nodes.get(name)
            if node is None or node.state == "lost":
                self.orchestrator.resources.mark_replicas_lost(name, "it was lost before the replica was placed there")
            elif node.draining:
                self.orchestrator.restart_policy.move_replicas_off(name)

    def _dead_replica(self, command: Command) -> PlacedReplica | None:
        """Return the replica to restart, if it is still dead and of the same incarnation."""
        replica = self.orchestrator.replicas.get(command.event.data["key"])
        same = replica is not None and replica.incarnation == command.event.data["incarnation"]
        return replica if same and replica is not None and replica.state in DEAD and replica.stopping is None else None

    def _replicas_only_used_by(self, job: int) -> list[PlacedReplica]:
        owners = self.orchestrator.dataflow.graph.used_only_by(job).items()
        return [replica for owner, tasks in owners for replica in self.orchestrator.replicas.of(owner, tasks)]


def living_peers(replica: PlacedReplica, peers: Iterable[PlacedReplica]) -> int:
    """Return how many other replicas of the same task live, will be restarted, or have finished."""
    others = (peer for peer in peers if peer is not replica)
    return sum(peer.state in LIVING or peer.state == "finished" or peer.due_s is not None for peer in others)
