"""The replicas there should be, where, and how each is doing as far as its node has said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from holdfast.control.storage.stored_jobs import StoredPlacement
from holdfast.documents.job import NO_NEED, Need
from holdfast.protocol.messages import AssignedReplica, ReplicaStatus

ReplicaState = Literal["placed", "starting", "running", "idle", "finished", "failed", "lost", "stopped", "abandoned"]
"""What a replica does, as the orchestrator sees it. `placed`: assigned, and its node has not said more. `lost`: its node is silent.
`abandoned`: it failed and will not be started again."""

STARTED = frozenset({"running", "idle", "finished"})
LIVING = frozenset({"placed", "starting", "running", "idle"})
DEAD = frozenset({"failed", "lost"})
OVER = frozenset({"finished", "failed", "stopped", "abandoned"})
"""States that an incarnation does not leave: whatever is said of it later is old."""


@dataclass(slots=True, eq=False)
class PlacedReplica:
    """One replica. `since_s` is when the present state began; `failures` counts those in a row; `due_s` is when it will be started
    again, where that is decided; `stopping` is the generation of its node's assignment that no longer has it; `need` is what it
    takes of its node."""

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
    due_s: float | None = None
    stopping: int | None = None
    status: ReplicaStatus | None = None

    @property
    def key(self) -> str:
        return f"{self.job}:{self.pe}/{self.task}.{self.replica}"

    @property
    def task_name(self) -> str:
        return f"{self.pe}/{self.task}"

    @property
    def wanted(self) -> bool:
        """Whether its node should have it."""
        return self.stopping is None and self.state not in ("stopped", "abandoned")

    @property
    def holds_room(self) -> bool:
        """Whether it takes room on its node, or will again: a failed one may be started there anew."""
        return self.state not in ("finished", "stopped", "abandoned")

    def assigned(self) -> AssignedReplica:
        return AssignedReplica(
            job=self.job,
            pe=self.pe,
            task=self.task,
            replica=self.replica,
            incarnation=self.incarnation,
            rank=self.rank,
            active=self.active,
        )

    def placed(self) -> StoredPlacement:
        """It, as the database keeps it."""
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
        )

    def observe(self, state: str, *, incarnation: int, error: str | None, at_s: float) -> bool:
        """Take what its node says of it; whether that is news.

        Word of another incarnation is old, and so is any word of an incarnation that is over: reports may come twice, and
        beats may overtake one another.
        """
        if incarnation != self.incarnation or self.state in OVER or self.state == state:
            return False
        if state in ("stopped", "lost") and self.stopping is None:
            state, error = "failed", error or "its node stopped it"
        elif self.stopping is not None and state in ("failed", "finished", "lost"):
            state = "stopped"  # it was to end, and it has
        self.state, self.since_s, self.error = state, at_s, error  # type: ignore[assignment]  # the protocol's states, but for 'lost'
        return True


class Replicas:
    """All replicas, found by key, by job, by task and by node."""

    def __init__(self) -> None:
        self._all: dict[str, PlacedReplica] = {}
        self._of: dict[int, dict[str, list[PlacedReplica]]] = {}
        self._at: dict[str, dict[str, PlacedReplica]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[PlacedReplica]:
        return iter(self._all.values())

    def get(self, key: str) -> PlacedReplica | None:
        return self._all.get(key)

    def add(self, replica: PlacedReplica) -> None:
        self._all[replica.key] = replica
        self._of.setdefault(replica.job, {}).setdefault(replica.task_name, []).append(replica)
        self._at.setdefault(replica.node, {})[replica.key] = replica

    def remove(self, replica: PlacedReplica) -> None:
        del self._all[replica.key]
        tasks = self._of[replica.job]
        tasks[replica.task_name].remove(replica)
        if not tasks[replica.task_name]:
            del tasks[replica.task_name]
        if not tasks:
            del self._of[replica.job]
        self._leave(replica)

    def move(self, replica: PlacedReplica, node: str) -> None:
        self._leave(replica)
        replica.node = node
        self._at.setdefault(node, {})[replica.key] = replica

    def of(self, job: int, tasks: Iterable[str] | None = None) -> list[PlacedReplica]:
        """The replicas of a job, or of some of its tasks."""
        by_task = self._of.get(job, {})
        return [replica for name in (by_task if tasks is None else tasks) for replica in by_task.get(name, ())]

    def at(self, node: str) -> list[PlacedReplica]:
        """The replicas whose place is on a node."""
        return list(self._at.get(node, {}).values())

    def needs_at(self, node: str) -> list[Need]:
        """What the replicas that hold room on a node need, each."""
        return [replica.need for replica in self._at.get(node, {}).values() if replica.holds_room]

    def nodes(self) -> list[str]:
        return sorted(self._at)

    def demote(self, replica: PlacedReplica) -> list[PlacedReplica]:
        """Put a failed replica last among those of its task; those whose rank changed by that."""
        peers = self._of[replica.job][replica.task_name]
        if len(peers) == 1 or replica.rank == len(peers) - 1:
            return []
        changed = [peer for peer in peers if peer.rank > replica.rank]
        for peer in changed:
            peer.rank -= 1
        replica.rank = len(peers) - 1
        return changed

    def _leave(self, replica: PlacedReplica) -> None:
        here = self._at[replica.node]
        here.pop(replica.key, None)
        if not here:
            del self._at[replica.node]
