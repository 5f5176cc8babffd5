"""Placement as a plug-in: a job that finds no room waits a while for nodes, and says what is missing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.control.placement.rules import CapacityIndex, NoCapacity, NodeCapacity, place, place_replica
from holdfast.control.plugins import Plugin
from holdfast.control.storage.stored_jobs import StoredPlacement
from holdfast.documents.job import Need

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command
    from holdfast.control.nodes.replicas import PlacedReplica


class PlacementManager(Plugin):
    """Finds nodes for replicas. What was promised to a job, or to a replica that moves, is held until the replicas are there."""

    action_names = ("placement.place",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._promised: dict[int, list[tuple[str, Need]]] = {}
        self._reserved: defaultdict[str, list[Need]] = defaultdict(list)
        self._capacities: dict[str, CapacityIndex] = {}

    async def place(self, job: JobState, command: Command) -> None:
        """Find a node for every replica of the job; on to `optim`."""
        try:
            self._place(job)
        except NoCapacity as lacking:
            self.orchestrator.run_in_background(job, command.name, self._wait_for_room(job, job.lifecycle.version, str(lacking)))
            return
        self.orchestrator.post(job, "optim", since=job.lifecycle.version)

    async def _wait_for_room(self, job: JobState, moves: int, lacking: str) -> None:
        clock = self.orchestrator.time
        ends_s = clock.monotonic_s() + self.orchestrator.settings.capacity_wait_s
        self.orchestrator.events.emit("decision", f"waits for room: {lacking}", job=job.id)
        while (left_s := ends_s - clock.monotonic_s()) > 0:
            await self.orchestrator.resources.wait_for_change(for_s=min(left_s, 1.0))
            try:
                self._place(job)
            except NoCapacity as still:
                lacking = str(still)
                continue
            self.orchestrator.post(job, "optim", since=moves)
            return
        self.orchestrator.post(job, "error", cause=lacking, since=moves)

    def _place(self, job: JobState) -> None:
        assert job.layout is not None
        self.release(job.id)
        found = place(job.layout, self.capacities(), host_kind=job.document.host_kind, need_of=job.document.need_of)
        job.plan = [StoredPlacement(job.id, task, replica, node) for task, on in found.items() for replica, node in enumerate(on)]
        self._promised[job.id] = [(placed.node, job.document.need_of(placed.task)) for placed in job.plan]
        for node, need in self._promised[job.id]:
            self._reserved[node].append(need)

    def release(self, job: int) -> None:
        """A job's replicas have their places now, or need none any more."""
        for node, need in self._promised.pop(job, ()):
            self._reserved[node].remove(need)

    @contextmanager
    def reserve(self, node: str, replica: PlacedReplica) -> Iterator[None]:
        """Hold what a replica needs on the node that it is about to move to: others that look meanwhile find it taken."""
        needs = [replica.need] if node != replica.node else []  # where it is already it holds its room
        self._reserved[node].extend(needs)
        try:
            yield
        finally:
            for need in needs:
                self._reserved[node].remove(need)

    def find_other_node(self, replica: PlacedReplica, *, host_kind: str) -> str | None:
        """A node for a replica that cannot stay where it is."""
        return self._find_node(replica, CapacityIndex.of(self.capacities(), host_kind=host_kind))

    def has_other_node(self, replica: PlacedReplica, *, host_kind: str) -> bool:
        """Whether there was such a node at the beginning of this turn of the loop: when a thousand nodes are lost at once, or come
        back, each of their replicas asks."""
        if not self._capacities:
            asyncio.get_running_loop().call_soon(self._capacities.clear)
        if host_kind not in self._capacities:
            self._capacities[host_kind] = CapacityIndex.of(self.capacities(), host_kind=host_kind)
        return self._find_node(replica, self._capacities[host_kind]) is not None

    def forget_capacities(self) -> None:
        """Nodes have come, or room was made: what was seen in this turn is not how it is."""
        self._capacities.clear()

    def _find_node(self, replica: PlacedReplica, capacities: CapacityIndex) -> str | None:
        beside = {peer.node for peer in self.orchestrator.replicas.of(replica.job, [replica.task_name]) if peer is not replica}
        return place_replica(capacities, replica.need, not_on=beside | {replica.node}, peers_on=beside)

    def capacities(self) -> list[NodeCapacity]:
        """The nodes that can take replicas, with what they hold and have been promised."""
        return [
            NodeCapacity(
                node.name,
                node.offer.host_kind,
                node.rack,
                node.offer.cores,
                node.slots,
                node.offer.memory_bytes / 2**20,
                (*self.orchestrator.replicas.needs_at(node.name), *self._reserved.get(node.name, ())),
            )
            for node in self.orchestrator.resources.nodes.values()
            if node.takes_replicas
        ]
