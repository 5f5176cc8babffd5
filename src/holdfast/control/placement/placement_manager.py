"""The placement plug-in: it finds nodes for replicas. A job without room waits for nodes, then fails with what is missing."""

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
    """Finds nodes for replicas. Room for a job, or for a replica that moves, is reserved until the replicas are assigned."""

    action_names = ("placement.place",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._reserved_for: dict[int, list[tuple[str, Need]]] = {}
        self._reserved: defaultdict[str, list[Need]] = defaultdict(list)
        self._capacities: dict[str, CapacityIndex] = {}

    async def place(self, job: JobState, command: Command) -> None:
        """Find a node for every replica of the job, then post `optim`."""
        try:
            self._place(job)
        except NoCapacity as error:
            self.orchestrator.run_in_background(job, command.name, self._wait_for_room(job, job.lifecycle.version, str(error)))
            return
        self.orchestrator.post(job, "optim", since=job.lifecycle.version)

    async def _wait_for_room(self, job: JobState, version: int, missing: str) -> None:
        clock = self.orchestrator.time
        ends_s = clock.monotonic_s() + self.orchestrator.settings.capacity_wait_s
        self.orchestrator.events.emit("decision", f"waits for room: {missing}", job=job.id)
        while (remaining_s := ends_s - clock.monotonic_s()) > 0:
            await self.orchestrator.resources.wait_for_change(for_s=min(remaining_s, 1.0))
            try:
                self._place(job)
            except NoCapacity as error:
                missing = str(error)
                continue
            self.orchestrator.post(job, "optim", since=version)
            return
        self.orchestrator.post(job, "error", cause=missing, since=version)

    def _place(self, job: JobState) -> None:
        assert job.layout is not None
        self.release(job.id)
        nodes = place(job.layout, self.capacities(), host_kind=job.document.host_kind, need_of=job.document.need_of)
        job.placement = [
            StoredPlacement(job.id, task, replica, node) for task, on in nodes.items() for replica, node in enumerate(on)
        ]
        self._reserved_for[job.id] = [(placed.node, job.document.need_of(placed.task)) for placed in job.placement]
        for node, need in self._reserved_for[job.id]:
            self._reserved[node].append(need)

    def release(self, job: int) -> None:
        """Release a job's reservation: its replicas are assigned, or it has ended."""
        for node, need in self._reserved_for.pop(job, ()):
            self._reserved[node].remove(need)

    @contextmanager
    def reserve(self, node: str, replica: PlacedReplica) -> Iterator[None]:
        """Reserve what a replica needs on the node that it is about to move to."""
        needs = [replica.need] if node != replica.node else []  # on its own node it holds its room already
        self._reserved[node].extend(needs)
        try:
            yield
        finally:
            for need in needs:
                self._reserved[node].remove(need)

    def find_other_node(self, replica: PlacedReplica, *, host_kind: str) -> str | None:
        """Return another node for a replica that cannot stay on its node, or None."""
        return self._find_node(replica, CapacityIndex.of(self.capacities(), host_kind=host_kind))

    def has_other_node(self, replica: PlacedReplica, *, host_kind: str) -> bool:
        """Return whether a replica could move to another node.

        The capacities are computed once per turn of the event loop, because a thousand nodes may be lost at once and every replica
        asks.
        """
        if not self._capacities:
            asyncio.get_running_loop().call_soon(self._capacities.clear)
        if host_kind not in self._capacities:
            self._capacities[host_kind] = CapacityIndex.of(self.capacities(), host_kind=host_kind)
        return self._find_node(replica, self._capacities[host_kind]) is not None

    def forget_capacities(self) -> None:
        """Compute the capacities again: a node has registered, or capacity was freed."""
        self._capacities.clear()

    def _find_node(self, replica: PlacedReplica, capacities: CapacityIndex) -> str | None:
        peers_on = {peer.node for peer in self.orchestrator.replicas.of(replica.job, [replica.task_name]) if peer is not replica}
        return place_replica(capacities, replica.need, not_on=peers_on | {replica.node}, peers_on=peers_on)

    def capacities(self) -> list[NodeCapacity]:
        """Return the nodes that accept replicas, with what they hold and what is reserved on them."""
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
