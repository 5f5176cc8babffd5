"""Placement as a plug-in: a job that finds no room waits a while for nodes, and says what is missing."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.control.placement.rules import NoCapacity, Room, Rooms, place, place_one
from holdfast.control.plugins import Plugin
from holdfast.control.storage.archive import StoredPlacement
from holdfast.documents.job import Need

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import LiveJob
    from holdfast.control.jobs.state_machine import Command
    from holdfast.control.nodes.replicas import PlacedReplica


class Placing(Plugin):
    """Finds nodes for replicas. What was promised to a job, or to a replica that moves, is held until the replicas are there."""

    action_names = ("placement.place",)

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._promised: dict[int, list[tuple[str, Need]]] = {}
        self._held: defaultdict[str, list[Need]] = defaultdict(list)
        self._seen: dict[str, Rooms] = {}

    async def place(self, job: LiveJob, command: Command) -> None:
        """Find a node for every replica of the job; on to `optim`."""
        try:
            self._place(job)
        except NoCapacity as lacking:
            self.orchestrator.begin_work(job, command.name, self._wait_for_room(job, job.life.moves, str(lacking)))
            return
        self.orchestrator.post(job, "optim", since=job.life.moves)

    async def _wait_for_room(self, job: LiveJob, moves: int, lacking: str) -> None:
        clock = self.orchestrator.time
        ends_s = clock.monotonic_s() + self.orchestrator.settings.capacity_wait_s
        self.orchestrator.events.tell("decision", f"waits for room: {lacking}", job=job.id)
        while (left_s := ends_s - clock.monotonic_s()) > 0:
            await self.orchestrator.resources.changed(for_s=min(left_s, 1.0))
            try:
                self._place(job)
            except NoCapacity as still:
                lacking = str(still)
                continue
            self.orchestrator.post(job, "optim", since=moves)
            return
        self.orchestrator.post(job, "error", cause=lacking, since=moves)

    def _place(self, job: LiveJob) -> None:
        assert job.layout is not None
        self.forget(job.id)
        found = place(job.layout, self.rooms(), host_kind=job.document.host_kind, need_of=job.document.need_of)
        job.plan = [StoredPlacement(job.id, task, replica, node) for task, on in found.items() for replica, node in enumerate(on)]
        self._promised[job.id] = [(placed.node, job.document.need_of(placed.task)) for placed in job.plan]
        for node, need in self._promised[job.id]:
            self._held[node].append(need)

    def forget(self, job: int) -> None:
        """A job's replicas have their places now, or need none any more."""
        for node, need in self._promised.pop(job, ()):
            self._held[node].remove(need)

    @contextmanager
    def holding(self, node: str, replica: PlacedReplica) -> Iterator[None]:
        """Hold what a replica needs on the node that it is about to move to: others that look meanwhile find it taken."""
        needs = [replica.need] if node != replica.node else []  # where it is already it holds its room
        self._held[node].extend(needs)
        try:
            yield
        finally:
            for need in needs:
                self._held[node].remove(need)

    def another(self, replica: PlacedReplica, *, host_kind: str) -> str | None:
        """A node for a replica that cannot stay where it is."""
        return self._another(replica, Rooms.of(self.rooms(), host_kind=host_kind))

    def may_go_elsewhere(self, replica: PlacedReplica, *, host_kind: str) -> bool:
        """Whether there was such a node at the beginning of this turn of the loop: when a thousand nodes are lost at once, or come
        back, each of their replicas asks."""
        if not self._seen:
            asyncio.get_running_loop().call_soon(self._seen.clear)
        if host_kind not in self._seen:
            self._seen[host_kind] = Rooms.of(self.rooms(), host_kind=host_kind)
        return self._another(replica, self._seen[host_kind]) is not None

    def look_again(self) -> None:
        """Nodes have come, or room was made: what was seen in this turn is not how it is."""
        self._seen.clear()

    def _another(self, replica: PlacedReplica, rooms: Rooms) -> str | None:
        beside = {peer.node for peer in self.orchestrator.replicas.of(replica.job, [replica.task_name]) if peer is not replica}
        return place_one(rooms, replica.need, not_on=beside | {replica.node}, beside=beside)

    def rooms(self) -> list[Room]:
        """The nodes that can take replicas, with what they hold and have been promised."""
        return [
            Room(
                node.name,
                node.offer.host_kind,
                node.rack,
                node.offer.cores,
                node.slots,
                node.offer.memory_bytes / 2**20,
                (*self.orchestrator.replicas.needs_at(node.name), *self._held.get(node.name, ())),
            )
            for node in self.orchestrator.resources.nodes.values()
            if node.takes_replicas
        ]
