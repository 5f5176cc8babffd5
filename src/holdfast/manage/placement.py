"""Where replicas go: replicas of one task on different nodes and, where there are several, different racks; by what is free."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.errors import HoldfastError
from holdfast.model.job import Layout, Task

RACK = "rack"
"""The label that names a node's correlated failure domain."""


class NoCapacity(HoldfastError):
    """There is no room for a job, and the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Room:
    """A node that can take replicas: how many it holds, how many it can hold."""

    name: str
    host: str
    rack: str
    cores: float
    slots: int
    used: int = 0


@dataclass(slots=True)
class _Rooms:
    """Nodes of one kind by how full they are, the emptiest first; ties by name."""

    rooms: dict[str, Room]
    used: dict[str, int]
    heap: list[tuple[float, str]] = field(default_factory=list)

    @classmethod
    def of(cls, rooms: Iterable[Room]) -> _Rooms:
        made = cls({room.name: room for room in rooms}, {})
        made.used = {room.name: room.used for room in made.rooms.values()}
        made.heap = [(made.fill(name), name) for name in made.rooms]
        heapq.heapify(made.heap)
        return made

    def fill(self, name: str) -> float:
        return self.used[name] / self.rooms[name].cores

    def take(self, name: str) -> None:
        self.used[name] += 1
        heapq.heappush(self.heap, (self.fill(name), name))

    def free(self, name: str) -> bool:
        return self.used[name] < self.rooms[name].slots

    def best(self, *, not_on: set[str], not_in: set[str]) -> str | None:
        """The emptiest node that is none of `not_on`, in a rack that is none of `not_in` where there is one."""
        skipped: list[tuple[float, str]] = []
        second: str | None = None
        first: str | None = None
        while self.heap and first is None:
            entry = heapq.heappop(self.heap)
            fill, name = entry
            if fill != self.fill(name):
                continue  # an entry from before it was taken again
            skipped.append(entry)
            if name in not_on or not self.free(name):
                continue
            if self.rooms[name].rack in not_in:
                second = second or name
            else:
                first = name
        for entry in skipped:
            heapq.heappush(self.heap, entry)
        return first or second


def place(layout: Layout, rooms: Sequence[Room], *, host: str) -> dict[str, tuple[str, ...]]:
    """Per task the nodes of its replicas, in the order of the replicas. Raises NoCapacity.

    Shared tasks are another job's to place. Where the layout names hosts, those decide: a name of a node is that node, any
    other names get nodes of their own, one each.
    """
    fitting = _Rooms.of(room for room in rooms if room.host == host)
    tasks = [task for task in layout.tasks if task.shared is None]
    _check_enough(tasks, fitting, host=host)
    hosts = _hosts(layout, fitting)
    placed: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        named = [hosts[name] for name in layout.hosts.get(task.name, ())[: task.replicas]]
        for name in named:
            fitting.take(name)
        placed[task.name] = (*named, *_place_task(task, fitting, has=named))
    return placed


def place_one(rooms: Sequence[Room], *, host: str, not_on: set[str], beside: set[str]) -> str | None:
    """A node for one more replica: none of `not_on`, and preferably not in the racks of the nodes `beside`."""
    fitting = _Rooms.of(room for room in rooms if room.host == host)
    racks = {fitting.rooms[name].rack for name in beside if name in fitting.rooms and fitting.rooms[name].rack}
    return fitting.best(not_on=not_on, not_in=racks)


def _place_task(task: Task, rooms: _Rooms, *, has: Sequence[str]) -> list[str]:
    on = list(has)
    while len(on) < task.replicas:
        racks = {rooms.rooms[name].rack for name in on if rooms.rooms[name].rack}
        name = rooms.best(not_on=set(on), not_in=racks)
        if name is None:
            raise NoCapacity(
                f"no room for replica {len(on)} of task '{task.name}': the nodes that have none of it are full "
                f"({_told(rooms)}); start another node, or cancel a job"
            )
        rooms.take(name)
        on.append(name)
    return on[len(has) :]


def _check_enough(tasks: Sequence[Task], rooms: _Rooms, *, host: str) -> None:
    """Raise NoCapacity for what can be seen before anything is placed, all of it at once."""
    missing = []
    most = max(tasks, key=lambda task: task.replicas, default=None)
    if most is not None and most.replicas > len(rooms.rooms):
        missing.append(
            f"task '{most.name}' wants {most.replicas} nodes for its replicas and {len(rooms.rooms)} "
            f"of kind '{host}' {'is' if len(rooms.rooms) == 1 else 'are'} up"
        )
    wants = sum(task.replicas for task in tasks)
    free = sum(room.slots - room.used for room in rooms.rooms.values())
    if wants > free:
        missing.append(f"{wants} replicas want a place and {max(0, free)} are free ({_told(rooms)})")
    if missing:
        raise NoCapacity(f"no capacity: {'; '.join(missing)}; start more nodes ('holdfast node'), or cancel a job")


def _hosts(layout: Layout, rooms: _Rooms) -> Mapping[str, str]:
    """The node of each host that the layout names."""
    names = sorted({name for hosts in layout.hosts.values() for name in hosts})
    left = [name for _, name in sorted((rooms.fill(name), name) for name in rooms.rooms) if name not in names]
    strangers = [name for name in names if name not in rooms.rooms]
    if len(strangers) > len(left):
        raise NoCapacity(
            f"no capacity: the strategy wants {len(names)} hosts ({', '.join(names)}) and {len(rooms.rooms)} nodes are up; "
            "start more nodes ('holdfast node')"
        )
    return {**{name: name for name in names if name in rooms.rooms}, **dict(zip(strangers, left, strict=False))}


def _told(rooms: _Rooms) -> str:
    told = [f"{name} {rooms.used[name]} of {room.slots}" for name, room in sorted(rooms.rooms.items())]
    return ", ".join(told[:5]) + (f" and {len(told) - 5} more" if len(told) > 5 else "") if told else "no node is up"
