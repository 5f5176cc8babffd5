"""The resource manager: nodes register and send beats. The orchestrator notices here that a node died: its beats stop, or the
requests that it keeps open close.

The clock that measures a node's silence stops while the orchestrator itself does not run. Otherwise all nodes would look dead after
a pause of the orchestrator.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.control.api.guard import Bucket
from holdfast.control.api.submission_checks import Conflict
from holdfast.control.nodes.replicas import LIVING, PlacedReplica
from holdfast.control.placement.rules import RACK
from holdfast.control.plugins import Plugin
from holdfast.control.storage.stored_jobs import set_draining
from holdfast.errors import HoldfastError
from holdfast.protocol.messages import (
    MAX_REASON,
    OLDEST_PROTOCOL,
    SLOTS,
    Assignment,
    Beat,
    BeatAnswer,
    FaultOrder,
    HostStatus,
    Registration,
    ReplicaStatus,
)

TICK_S = 0.25
MAX_NODES = 10_000
FORGOTTEN_S = 600.0
"""After this time, a lost node without replicas is no longer listed."""
REGISTRATIONS_PER_S, REGISTRATION_BURST = 5.0, 20.0
"""How often a node may register again: per second, and in a burst. After each registration, all jobs that wait for room try
again."""

HOLDERS = ("controller", "host")
"""The processes of a node that keep a request open while they live."""
TOGETHER_S, CONFIRM_S = 0.25, 0.5
"""If both close their last requests within TOGETHER_S, they have died together. The node then counts as lost unless it sends a beat
within CONFIRM_S."""
FAULT_TAKEN_S = 5.0
GATHER_S = 0.02
"""How long a changed assignment waits for further changes, because many jobs at once change every node many times."""


class UnknownNode(HoldfastError):
    """The node is not registered with this orchestrator, or was lost. It must register again."""

    http_status = 409


@dataclass(slots=True, eq=False)
class Node:
    """A node as the orchestrator sees it. `last_beat_s` is the time of its last beat by the orchestrator's waking time; `every_s`
    is the beat interval that it last received; `registered` is the generation that its registration began with; `registrations`
    limits how often it registers; `injected` is the number of the last order among its `faults` that it has accepted."""

    offer: Registration
    last_beat_s: float
    since_s: float
    slots: int
    state: Literal["up", "lost"] = "up"
    draining: bool = False
    acknowledged: int = 0
    registered: int = 0
    generation: int = 1
    host: HostStatus | None = None
    stalled_s: float = 0.0
    every_s: float = 0.0
    faults: tuple[FaultOrder, ...] = ()
    injected: int = 0
    registrations: Bucket = field(default_factory=lambda: Bucket(REGISTRATION_BURST, 0.0))
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return self.offer.name

    @property
    def rack(self) -> str:
        return self.offer.labels.get(RACK, "")

    @property
    def takes_replicas(self) -> bool:
        return self.state == "up" and not self.draining

    def renew_assignment(self) -> None:
        """Start a new generation of the assignment and wake the calls that wait for one."""
        self.generation += 1
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass(slots=True)
class WakingTime:
    """Time since the start, without the time that this process slept longer than it intended to."""

    last_s: float
    slept_s: float = 0.0

    def tick(self, now_s: float, *, planned_s: float) -> float:
        """Return the waking time at `now_s`, when the previous tick intended to sleep for `planned_s`.

        >>> time = WakingTime(last_s=10.0)
        >>> time.tick(10.25, planned_s=0.25), time.tick(40.0, planned_s=0.25), time.at(40.5)
        (10.25, 10.5, 11.0)
        """
        late_s = now_s - self.last_s - planned_s
        if late_s > planned_s:
            self.slept_s += late_s
        self.last_s = now_s
        return self.at(now_s)

    def at(self, now_s: float) -> float:
        return now_s - self.slept_s


def beat_every_s(nodes: int, *, least_s: float) -> float:
    """Return how often each node should send a beat, so that all together send at most a hundred a second.

    >>> beat_every_s(10, least_s=0.5), beat_every_s(1000, least_s=0.5)
    (0.5, 10.0)
    """
    return max(least_s, nodes / 100)


class ResourceManager(Plugin):
    """Keeps the registered nodes, takes their beats, and marks those that died as lost."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self.nodes: dict[str, Node] = {}
        self.draining: set[str] = set()
        self._up = 0
        self._waking = WakingTime(orchestrator.time.monotonic_s())
        self._news = asyncio.Event()
        self._capacity_freed = False
        self._presences: Counter[tuple[str, str]] = Counter()
        self._vanished_s: dict[tuple[str, str], float] = {}
        self._of_later_term: set[str] = set()
        self._fault_numbers = itertools.count(1)
        self._forgotten = 0  # the highest generation of forgotten nodes: one that returns still has its last assignment

    @property
    def every_s(self) -> float:
        return beat_every_s(self._up, least_s=self.orchestrator.settings.beat_s)

    def register(self, offer: Registration) -> Node:
        """Register a node, and reconcile the replicas that it has with those that it should have.

        Raises Conflict while another controller runs under that name, because both would run the same replicas; and for a node that
        has heard from a later orchestrator, because it would obey only that one.
        """
        if offer.protocol < OLDEST_PROTOCOL:
            raise HoldfastError(
                f"node '{offer.name}' speaks version {offer.protocol} of the protocol, and this orchestrator wants at least "
                f"{OLDEST_PROTOCOL}; update the node"
            )
        if offer.heard > self.orchestrator.term:
            raise Conflict(self._refuse_later_term(offer))
        previous = self.nodes.get(offer.name)
        if previous is not None and previous.state == "up" and previous.offer.controller != offer.controller:
            raise Conflict(
                f"node '{offer.name}' is already up, run by another controller; give this one another --name, "
                "or wait until that one is lost"
            )
        if previous is None and len(self.nodes) >= MAX_NODES:
            raise HoldfastError(f"there are {MAX_NODES} nodes already, the most that one orchestrator accepts")
        returns = previous is not None and previous.state == "lost"
        node = Node(
            offer,
            last_beat_s=self._now_s(),
            since_s=self.orchestrator.time.now_s(),
            slots=self._slots(offer),
            draining=offer.name in self.draining,
            host=offer.process,
            generation=(self._forgotten if previous is None else previous.generation) + 1,
        )
        node.registered, node.acknowledged = node.generation, offer.reported
        if previous is not None:
            node.registrations = previous.registrations
            if previous.offer.controller == offer.controller:  # another controller numbers its reports anew
                node.acknowledged = max(previous.acknowledged, offer.reported)
            previous.changed.set()
        self.nodes[offer.name] = node
        if previous is None or returns:
            self._up += 1
            self.orchestrator.events.emit("node", f"node {offer.name} is {'back' if returns else 'up'}", node=offer.name)
        node.every_s = self.every_s
        self._reconcile(node, offer.replicas)
        self.orchestrator.agents.take_statuses(node.name, offer.agents)
        self._notify_changed()
        return node

    def _refuse_later_term(self, offer: Registration) -> str:
        """Return why a node that obeys a later orchestrator is refused. Report it once per node."""
        text = (
            f"node '{offer.name}' has heard from an orchestrator of term {offer.heard}, and this one is of term "
            f"{self.orchestrator.term}: use that one; or, if the database is a restored backup, start this one with --restored; "
            "or, if the database is a new one, give the node a new --work"
        )
        if offer.name not in self._of_later_term and len(self._of_later_term) < MAX_NODES:
            self._of_later_term.add(offer.name)
            self.orchestrator.events.emit("node", text)
            self.orchestrator.say(text)
        return text

    def registered_node(self, name: str, term: int, controller: str) -> Node:
        """Return a node that is registered and not lost. Raises UnknownNode, also if the caller has another term or another
        controller than the one that registered."""
        node = self.nodes.get(name)
        if node is None or node.state == "lost" or term != self.orchestrator.term or node.offer.controller != controller:
            raise UnknownNode(
                f"node '{name}' is not registered with the orchestrator of term {self.orchestrator.term}; register again"
            )
        return node

    def mark_alive(self, name: str, beat: Beat) -> Node:
        """Return the node that sent a beat, and note that it lives, even if its reports are refused. Raises UnknownNode."""
        node = self.registered_node(name, beat.term, beat.controller)
        if beat.registration and beat.registration < node.registered:
            raise UnknownNode(f"node '{name}' has registered again since it sent this beat")
        node.last_beat_s, node.stalled_s = self._now_s(), beat.stalled_s
        return node

    def take_beat(self, node: Node, beat: Beat) -> BeatAnswer:
        """Process the reports and statuses in a node's beat, and return the answer."""
        for report in sorted(beat.reports, key=lambda report: report.number):
            if report.number > node.acknowledged:
                self._observe(node, report.key, report.state, report.incarnation, report.error)
                node.acknowledged = report.number
        self.orchestrator.agents.take_statuses(node.name, beat.agents)
        if beat.fault > node.injected:
            node.injected = beat.fault
            node.faults = tuple(order for order in node.faults if order.number > beat.fault)
        if beat.host is not None:
            node.host = beat.host
            self._take_status(node, beat.host)
        if beat.unhosted is not None:
            self._take_stopped(node, beat.unhosted, has=frozenset())
        node.every_s = self.every_s
        return BeatAnswer(
            term=self.orchestrator.term, acknowledged=node.acknowledged, generation=node.generation, every_s=node.every_s
        )

    async def assignment(self, name: str, *, controller: str, term: int, generation: int, wait_s: float) -> Assignment | None:
        """Return a node's assignment as soon as it is newer than (term, generation), or None after `wait_s`. Raises UnknownNode."""
        ends_s = self.orchestrator.time.monotonic_s() + wait_s
        while True:
            node = self.registered_node(name, self.orchestrator.term, controller)
            ready = not self.orchestrator.recovering
            if ready and (term, generation) < (self.orchestrator.term, node.generation):
                return self.orchestrator.dispatch.assignment(node)
            remaining_s = ends_s - self.orchestrator.time.monotonic_s()
            if remaining_s <= 0 or self.orchestrator.stopping:
                return None
            try:
                async with asyncio.timeout(remaining_s):
                    await (node.changed.wait() if ready else self.orchestrator.recovered.wait())
                    await asyncio.sleep(GATHER_S)
            except TimeoutError:
                return None

    async def order_fault(self, name: str, **order: Any) -> None:
        """Order a node to inject a fault, and wait until it accepts the order. Raises HoldfastError if it does not."""
        node = self.nodes.get(name)
        if node is None or node.state != "up":
            raise HoldfastError(f"node '{name}' is not up, so it cannot inject a fault")
        number = next(self._fault_numbers)
        node.faults = (*node.faults, FaultOrder(number=number, **order))
        node.renew_assignment()
        ends_s = self.orchestrator.time.monotonic_s() + FAULT_TAKEN_S
        while node.injected < number:
            if self.nodes.get(name) is not node or self.orchestrator.time.monotonic_s() > ends_s:
                node.faults = tuple(each for each in node.faults if each.number != number)
                raise HoldfastError(f"node '{name}' did not accept the fault within {FAULT_TAKEN_S:g} s")
            await self.orchestrator.time.sleep(GATHER_S)

    async def wait_for_change(self, *, for_s: float) -> None:
        """Wait until a node registers or capacity is freed, at most `for_s`."""
        try:
            async with asyncio.timeout(for_s):
                await self._news.wait()
        except TimeoutError:
            return

    def capacity_freed(self) -> None:
        """Let all jobs that wait for room try again. Calls within GATHER_S of each other cause one attempt."""
        if not self._capacity_freed:
            self._capacity_freed = True
            asyncio.get_running_loop().call_later(GATHER_S, self._notify_capacity)

    def _notify_capacity(self) -> None:
        self._capacity_freed = False
        if not self.orchestrator.stopping:
            self._notify_changed()

    @contextlib.contextmanager
    def presence(self, name: str, holder: str) -> Iterator[None]:
        """Count an open request of a node's process. When the last one closes, the node has probably died."""
        self._presences[name, holder] += 1
        try:
            yield
        finally:
            self._presences[name, holder] -= 1
            self._vanished_s[name, holder] = self._now_s()
            if self._have_died_together(name) and not self.orchestrator.stopping:
                self.orchestrator.spawn(self._confirm_death(name, self.nodes.get(name), self._now_s()))

    def _have_died_together(self, name: str) -> bool:
        """Return whether both processes of a node had a request open, and have closed their last ones at about the same time."""
        closed_s = [self._vanished_s.get((name, holder), -math.inf) for holder in HOLDERS]
        return max(closed_s) - min(closed_s) <= TOGETHER_S and not any(self._presences[name, holder] for holder in HOLDERS)

    async def _confirm_death(self, name: str, node: Node | None, since_s: float) -> None:
        """Mark a node whose processes seem to have died at `since_s` as lost, unless it sends a beat."""
        await self.orchestrator.time.sleep(CONFIRM_S)
        is_silent = node is not None and node.state == "up" and self.nodes.get(name) is node and node.last_beat_s <= since_s
        if node is not None and is_silent and self._have_died_together(name):
            self.mark_lost(node, "its processes closed their connections")

    async def drain(self, node: Node, draining: bool) -> None:
        """Drain a node, so that its replicas move away and it gets no new ones, or use it again."""
        await self.orchestrator.persistence.database.write(set_draining(node.name, draining))
        (self.draining.add if draining else self.draining.discard)(node.name)
        node.draining = draining
        self.orchestrator.events.emit("node", f"node {node.name} is {'drained' if draining else 'used again'}", node=node.name)
        self._notify_changed()

    def list_absent_drained_nodes(self) -> None:
        """List drained nodes that have not registered with this orchestrator as lost, so that a user can undrain them."""
        now_s = self.orchestrator.time.now_s()
        for name in self.draining - set(self.nodes):
            offer = Registration(name=name, cores=0.0, memory_bytes=0, host_kind="")
            self.nodes[name] = Node(offer, last_beat_s=self._now_s(), since_s=now_s, slots=0, state="lost", draining=True)

    async def watch(self) -> None:
        """Mark nodes as lost when their beats stop. Runs until cancelled."""
        while True:
            await self.orchestrator.time.sleep(TICK_S)
            now_s = self._waking.tick(self.orchestrator.time.monotonic_s(), planned_s=TICK_S)
            for node in list(self.nodes.values()):
                if node.state == "up" and now_s - node.last_beat_s > self._lost_after_s(node):
                    self.mark_lost(node, f"no beat for {now_s - node.last_beat_s:.1f} s")
                elif node.state == "lost" and now_s - node.last_beat_s > FORGOTTEN_S and not self._is_needed(node):
                    del self.nodes[node.name]
                    self._forgotten = max(self._forgotten, node.generation)

    def _lost_after_s(self, node: Node) -> float:
        """Return how long a node may be silent. It sends beats at the interval that it last received, which may be
        longer than the present one."""
        return max(self.orchestrator.settings.lost_after_s, 4 * self.every_s, 4 * node.every_s)

    def mark_lost(self, node: Node, cause: str) -> None:
        """Mark a node and every replica on it as lost."""
        node.state = "lost"
        self._up -= 1
        node.since_s = self.orchestrator.time.now_s()
        self.orchestrator.events.emit("node", f"node {node.name} is lost: {cause}", node=node.name)
        self.mark_replicas_lost(node.name, cause)

    def mark_replicas_lost(self, name: str, cause: str) -> None:
        now_s = self.orchestrator.time.now_s()
        for replica in self.orchestrator.replicas.at(name):
            if replica.state not in LIVING:
                continue
            if replica.stopping is not None:
                self.orchestrator.replicas.leave(replica, name, until=replica.stopping)
            replica.state = "stopped" if replica.stopping is not None else "lost"
            replica.since_s, replica.error = now_s, f"node {name} is lost: {cause}"
            self.orchestrator.restart_policy.replica_changed(replica)

    def fail_replica(self, key: str, incarnation: int, cause: str) -> None:
        """Mark a replica as failed although its node reports it as running. Later reports about this incarnation are ignored."""
        replica = self.orchestrator.replicas.get(key)
        if replica is not None and replica.observe(
            "failed", incarnation=incarnation, error=cause[:MAX_REASON], at_s=self.orchestrator.time.now_s()
        ):
            self.orchestrator.restart_policy.replica_changed(replica)

    def _reconcile(self, node: Node, replicas: tuple[ReplicaStatus, ...]) -> None:
        """Compare a registration's replicas with those placed on the node. A replica that the node does not have becomes
        `placed`."""
        statuses = {status.key: status for status in replicas}
        for replica in self.orchestrator.replicas.at(node.name):
            status = statuses.get(replica.key)
            if status is not None and status.incarnation == replica.incarnation:
                self._set_status(replica, status)
                self._observe(node, replica.key, status.state, status.incarnation, status.error)
            elif replica.stopping is not None:
                continue  # the node has yet to confirm the assignment without it
            elif replica.state not in ("finished", "failed", "abandoned", "stopped", "placed"):
                replica.state, replica.since_s = "placed", self.orchestrator.time.now_s()
                self.orchestrator.restart_policy.replica_changed(replica)

    def _take_status(self, node: Node, host: HostStatus) -> None:
        current = host.term == self.orchestrator.term
        has = set()
        for status in host.replicas:
            has.add(status.key)
            replica = self._replica_on(node, status.key)
            if replica is not None and replica.incarnation == status.incarnation:
                self._set_status(replica, status)
                if current:
                    self._observe(node, status.key, status.state, status.incarnation, status.error)
        if current:
            self._take_stopped(node, host.generation, has=has)

    def _set_status(self, replica: PlacedReplica, status: ReplicaStatus) -> None:
        replica.status = status
        self.orchestrator.restart_policy.status_changed(replica)

    def _take_stopped(self, node: Node, generation: int, *, has: Collection[str]) -> None:
        """Mark replicas as stopped that a node no longer has, now that it has carried out an assignment of this generation."""
        for replica in self.orchestrator.replicas.at(node.name):
            if replica.stopping is not None and replica.stopping <= generation and replica.key not in has:
                self._observe(node, replica.key, "stopped", replica.incarnation, None)
        for replica in self.orchestrator.replicas.confirm(node.name, generation):
            self.orchestrator.restart_policy.node_confirmed(replica)

    def _observe(self, node: Node, key: str, state: str, incarnation: int, error: str | None) -> None:
        replica = self._replica_on(node, key)
        now_s = self.orchestrator.time.now_s()
        if replica is not None and replica.observe(state, incarnation=incarnation, error=error, at_s=now_s):
            self.orchestrator.restart_policy.replica_changed(replica)

    def _replica_on(self, node: Node, key: str) -> PlacedReplica | None:
        """Return the replica with this key if it is placed on the node. A node cannot report about another node's replicas."""
        replica = self.orchestrator.replicas.get(key)
        return replica if replica is not None and replica.node == node.name else None

    def _is_needed(self, node: Node) -> bool:
        """Return whether a lost node must stay listed, because replicas are placed there or it is drained."""
        return node.draining or bool(self.orchestrator.replicas.at(node.name))

    def _slots(self, offer: Registration) -> int:
        label = offer.labels.get(SLOTS)
        return int(label) if label is not None else math.ceil(offer.cores * self.orchestrator.settings.replicas_per_core)

    def _now_s(self) -> float:
        return self._waking.at(self.orchestrator.time.monotonic_s())

    def _notify_changed(self) -> None:
        self.orchestrator.placement.forget_capacities()
        self._news.set()
        self._news = asyncio.Event()
        self.orchestrator.restart_policy.nodes_changed()
