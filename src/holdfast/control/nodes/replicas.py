"""All replicas: where each should run, and the state that its node last reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from holdfast.control.storage.stored_jobs import StoredPlacement
from holdfast.documents.job import NO_NEED, Need
from holdfast.protocol.messages import AssignedReplica, ReplicaStatus

ReplicaState = Literal["placed", "starting", "running", "idle", "finished", "failed", "lost", "stopped", "abandoned"]
"""The state of a replica as the orchestrator sees it. `placed`: assigned, and not yet reported. `lost`: its node is silent.
`abandoned`: it failed and will not be restarted."""

STARTED = frozenset({"running", "idle", "finished"})
LIVING = frozenset({"placed", "starting", "running", "idle"})
DEAD = frozenset({"failed", "lost"})
OVER = frozenset({"finished", "failed", "stopped", "abandoned"})
"""States that an incarnation never leaves: any later report about it is outdated."""


@dataclass(slots=True, eq=False)
class PlacedReplica:
    """One replica. `since_s` is when its present state began, `failures` counts its own failures in a row, `losses` the deaths of
    its node or PE host in a row, `due_s` is when it will be restarted (if that is decided), `stopping` is the first generation of
    its node's assignment without it, and `need` is what it takes of its node. `left_on` are the nodes on which an earlier
    incarnation, or this one if it is stopping, may still run: they have not confirmed an assignment without it.

    `furthest` is the highest clean epoch that it has reported, and `reached` the highest one of its task when it last failed.
    `died_with_host`: it failed because its PE host died.
    """

    job: int
    pe: str
    task: int
    replica: int
    node: str
    need: Need = NO_NEED
    incarnation: int = 1
    rank: int = 0
    active: bool = True
    state: ReplicaState = "placed"
    since_s: float = 0.0
    error: str | None = None
    failures: int = 0
    losses: int = 0
    furthest: int | None = None
    reached: int | None = None
    died_with_host: bool = False
    due_s: float | None = None
    stopping: int | None = None
    status: ReplicaStatus | None = None
    left_on: set[str] = field(default_factory=set)

    @property
    def key(self) -> str:
        return f"{self.job}:{self.pe}/{self.task}.{self.replica}"

    @property
    def task_name(self) -> str:
        return f"{self.pe}/{self.task}"

    @property
    def wanted(self) -> bool:
        """Whether its node should run it."""
        return self.stopping is None and self.state not in ("stopped", "abandoned")

    @property
    def holds_room(self) -> bool:
        """Whether it takes room on its node. A failed replica does, because it may be restarted there."""
        return self.state not in ("finished", "stopped", "abandoned")

    def to_assigned(self) -> AssignedReplica:
        return AssignedReplica(
            job=self.job,
            pe=self.pe,
            task=self.task,
            replica=self.replica,
            incarnation=self.incarnation,
            rank=self.rank,
            active=self.active,
        )

    def to_stored(self) -> StoredPlacement:
        """Return the replica as the database stores it."""
        return StoredPlacement(
            self.job,
            self.task_name,
            self.replica,
            self.node,
            self.incarnation,
            self.active,
            self.failures,
            self.state == "abandoned",
            self.state == "finished",
            ",".join(sorted(self.left_on)),
        )

    def observe(self, state: str, *, incarnation: int, error: str | None, at_s: float) -> bool:
        """Take a state that its node reports; return whether the state changed.

        Reports may arrive twice and beats out of order, so a report about another incarnation, about one that is over, or about the
        start of one that runs, is ignored.
        """
        if incarnation != self.incarnation or self.state in OVER or self.state == state:
            return False
        if state == "starting" and self.state == "running":
            return False
        self.died_with_host = state == "lost"
        if state in ("stopped", "lost") and self.stopping is None:
            state, error = "failed", error or "its node stopped it"
        elif self.stopping is not None and state in ("failed", "finished", "lost"):
            state = "stopped"  # the orchestrator wanted it to end
        self.state, self.since_s, self.error = state, at_s, error  # type: ignore[assignment]  # the protocol's states, but for 'lost'
        return True


class Replicas:
    """All replicas, indexed by key, by job and task, and by node."""

    def __init__(self) -> None:
        self._by_key: dict[str, PlacedReplica] = {}
        self._by_job: dict[int, dict[str, list[PlacedReplica]]] = {}
        self._by_node: dict[str, dict[str, PlacedReplica]] = {}
        self._left_on: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[PlacedReplica]:
        return iter(self._by_key.values())

    def get(self, key: str) -> PlacedReplica | None:
        return self._by_key.get(key)

    def add(self, replica: PlacedReplica) -> None:
        self._by_key[replica.key] = replica
        self._by_job.setdefault(replica.job, {}).setdefault(replica.task_name, []).append(replica)
        self._by_node.setdefault(replica.node, {})[replica.key] = replica
        for node in replica.left_on:
            self._left_on.setdefault(node, {})[replica.key] = 1

    def leave(self, replica: PlacedReplica, node: str, *, until: int) -> None:
        """Note that a replica may run on a node until the node confirms an assignment of this generation."""
        replica.left_on.add(node)
        self._left_on.setdefault(node, {})[replica.key] = until

    def confirm(self, node: str, generation: int) -> list[PlacedReplica]:
        """Note that a node has carried out an assignment; return the replicas that do not run there any more."""
        unconfirmed = self._left_on.get(node)
        if not unconfirmed:
            return []
        ended = [self._by_key[key] for key, until in unconfirmed.items() if until <= generation]
        for replica in ended:
            self.end(replica, node)
        return ended

    def end(self, replica: PlacedReplica, node: str) -> None:
        """Note that a replica does not run on a node any more, or can do no harm there."""
        replica.left_on.discard(node)
        unconfirmed = self._left_on[node]
        unconfirmed.pop(replica.key, None)
        if not unconfirmed:
            del self._left_on[node]

    def remove(self, replica: PlacedReplica) -> None:
        for node in list(replica.left_on):
            self.end(replica, node)
        del self._by_key[replica.key]
        tasks = self._by_job[replica.job]
        tasks[replica.task_name].remove(replica)
        if not tasks[replica.task_name]:
            del tasks[replica.task_name]
        if not tasks:
            del self._by_job[replica.job]
        self._leave(replica)

    def move(self, replica: PlacedReplica, node: str) -> None:
        self._leave(replica)
        replica.node = node
        self._by_node.setdefault(node, {})[replica.key] = replica

    def of(self, job: int, tasks: Iterable[str] | None = None) -> list[PlacedReplica]:
        """Return the replicas of a job, or of some of its tasks."""
        by_task = self._by_job.get(job, {})
        return [replica for name in (by_task if tasks is None else tasks) for replica in by_task.get(name, ())]

    def at(self, node: str) -> list[PlacedReplica]:
        """Return the replicas that are placed on a node."""
        return list(self._by_node.get(node, {}).values())

    def needs_at(self, node: str) -> list[Need]:
        """Return the needs of the replicas that take room on a node."""
        return [replica.need for replica in self._by_node.get(node, {}).values() if replica.holds_room]

    def nodes(self) -> list[str]:
        return sorted(self._by_node)

    def demote(self, replica: PlacedReplica) -> list[PlacedReplica]:
        """Give a failed replica the last rank of its task; return the other replicas whose rank changed."""
        peers = self._by_job[replica.job][replica.task_name]
        if len(peers) == 1 or replica.rank == len(peers) - 1:
            return []
        changed = [peer for peer in peers if peer.rank > replica.rank]
        for peer in changed:
            peer.rank -= 1
        replica.rank = len(peers) - 1
        return changed

    def _leave(self, replica: PlacedReplica) -> None:
        on_node = self._by_node[replica.node]
        on_node.pop(replica.key, None)
        if not on_node:
            del self._by_node[replica.node]
