"""Where replicas go: replicas of one task on different nodes and, where there are several, different racks; by what is free."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.documents.job import NO_NEED, Layout, Need, Task
from holdfast.errors import HoldfastError

RACK = "rack"
"""The label that names a node's correlated failure domain."""
ROUNDING = 1e-6
"""Shares of a node that add up to all of it may do so in the last digits only."""


class NoCapacity(HoldfastError):
    """There is no room for a job, and the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Room:
    """A node that can take replicas: how many slots it has for them, how much memory, and what those that it holds need.

    A replica takes a slot; one that needs cores takes as many as its share of the node's cores is of its slots.
    """

    name: str
    host_kind: str
    rack: str
    cores: float
    slots: int
    memory_mib: float
    holds: tuple[Need, ...] = ()

    def slots_of(self, need: Need) -> float:
        """How many of its slots a replica takes.

        >>> Room("n1", "light", "", cores=4, slots=128, memory_mib=1024).slots_of(Need(cores=0.5))
        16.0
        """
        return max(1.0, need.cores * self.slots / self.cores)


@dataclass(slots=True)
class Rooms:
    """Nodes of one kind by how full they are, the emptiest first; ties by name."""

    rooms: dict[str, Room]
    used: dict[str, float] = field(default_factory=dict)
    used_mib: dict[str, float] = field(default_factory=dict)
    heap: list[tuple[float, str]] = field(default_factory=list)

    @classmethod
    def of(cls, rooms: Iterable[Room], *, host_kind: str) -> Rooms:
        made = cls({room.name: room for room in rooms if room.host_kind == host_kind})
        for name, room in made.rooms.items():
            needy = [need for need in room.holds if need.cores]
            made.used[name] = len(room.holds) - len(needy) + sum(map(room.slots_of, needy))
            made.used_mib[name] = sum(need.memory_mib for need in room.holds)
            made.heap.append((made.fill(name), name))
        heapq.heapify(made.heap)
        return made

    def fill(self, name: str) -> float:
        return self.used[name] / self.rooms[name].cores

    def take(self, name: str, need: Need) -> None:
        self.used[name] += self.rooms[name].slots_of(need)
        self.used_mib[name] += need.memory_mib
        heapq.heappush(self.heap, (self.fill(name), name))

    def fits(self, name: str, need: Need) -> bool:
        room = self.rooms[name]
        memory = not need.memory_mib or self.used_mib[name] + need.memory_mib <= room.memory_mib
        return memory and self.used[name] + room.slots_of(need) <= room.slots + ROUNDING

    def best(self, need: Need, *, not_on: set[str], not_in: set[str]) -> str | None:
        """The emptiest node with room that is none of `not_on`, in a rack that is none of `not_in` where there is one."""
        skipped: list[tuple[float, str]] = []
        second: str | None = None
        first: str | None = None
        while self.heap and first is None:
            entry = heapq.heappop(self.heap)
            fill, name = entry
            if fill != self.fill(name):
                continue  # an entry from before it was taken again
            skipped.append(entry)
            if name in not_on or not self.fits(name, need):
                continue
            if self.rooms[name].rack in not_in:
                second = second or name
            else:
                first = name
        for entry in skipped:
            heapq.heappush(self.heap, entry)
        return first or second


def place(
    layout: Layout, rooms: Sequence[Room], *, host_kind: str, need_of: Callable[[str], Need] = lambda task: NO_NEED
) -> dict[str, tuple[str, ...]]:
    """Per task the nodes of its replicas, in the order of the replicas. `need_of` is what a replica takes, by its task's name.

    Raises NoCapacity.

    Shared tasks are another job's to place. Where the layout names nodes, those decide: a name of a node is that node, any
    other names get nodes of their own, one each.
    """
    fitting = Rooms.of(rooms, host_kind=host_kind)
    tasks = [task for task in layout.tasks if task.shared is None]
    _check_enough(tasks, fitting, host_kind=host_kind, need_of=need_of)
    node_of = _nodes_of_layout(layout, fitting)
    placed: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        need = need_of(task.name)
        named = [node_of[name] for name in layout.nodes.get(task.name, ())[: task.replicas]]
        for name in named:
            if not fitting.fits(name, need):
                raise NoCapacity(
                    f"no room for task '{task.name}' on {name}, where its strategy wants it: it needs {need} "
                    f"({_told(fitting, name)}); cancel a job there, or plan anew"
                )
            fitting.take(name, need)
        placed[task.name] = (*named, *_place_task(task, need, fitting, has=named))
    return placed


def place_one(rooms: Rooms, need: Need = NO_NEED, *, not_on: set[str], beside: set[str]) -> str | None:
    """A node for one more replica: none of `not_on`, and preferably not in the racks of the nodes `beside`."""
    racks = {rooms.rooms[name].rack for name in beside if name in rooms.rooms and rooms.rooms[name].rack}
    return rooms.best(need, not_on=not_on, not_in=racks)


def _place_task(task: Task, need: Need, rooms: Rooms, *, has: Sequence[str]) -> list[str]:
    on = list(has)
    while len(on) < task.replicas:
        racks = {rooms.rooms[name].rack for name in on if rooms.rooms[name].rack}
        name = rooms.best(need, not_on=set(on), not_in=racks)
        if name is None:
            raise NoCapacity(
                f"no room for replica {len(on)} of task '{task.name}': it needs {need}, and no node that has none of it yet has "
                f"that free ({_told(rooms)}); start another node, or cancel a job"
            )
        rooms.take(name, need)
        on.append(name)
    return on[len(has) :]


def _check_enough(tasks: Sequence[Task], rooms: Rooms, *, host_kind: str, need_of: Callable[[str], Need]) -> None:
    """Raise NoCapacity for what can be seen before anything is placed, all of it at once."""
    missing = []
    most = max(tasks, key=lambda task: task.replicas, default=None)
    if most is not None and most.replicas > len(rooms.rooms):
        missing.append(
            f"task '{most.name}' wants {most.replicas} nodes for its replicas and {len(rooms.rooms)} "
            f"of kind '{host_kind}' {'is' if len(rooms.rooms) == 1 else 'are'} up"
        )
    wants = sum(task.replicas for task in tasks)
    free = sum(max(0, int(room.slots - rooms.used[name] + ROUNDING)) for name, room in rooms.rooms.items())
    if wants > free:
        missing.append(f"{wants} replicas want a place and {free} are free ({_told(rooms)})")
    for task in tasks:
        need = need_of(task.name)
        fitting = sum(rooms.fits(name, need) for name in rooms.rooms) if need != NO_NEED else task.replicas
        if fitting < task.replicas:
            on = "a node" if task.replicas == 1 else f"each of {task.replicas} nodes"
            missing.append(f"task '{task.name}' needs {need} on {on}, and {fitting or 'none'} have that free ({_told(rooms)})")
    if missing:
        raise NoCapacity(f"no capacity: {'; '.join(missing)}; start more nodes ('holdfast node'), or cancel a job")


def _nodes_of_layout(layout: Layout, rooms: Rooms) -> Mapping[str, str]:
    """Return the running node for each node name in the layout. A name that no running node has gets a node of its own."""
    names = sorted({name for names in layout.nodes.values() for name in names})
    left = [name for _, name in sorted((rooms.fill(name), name) for name in rooms.rooms) if name not in names]
    strangers = [name for name in names if name not in rooms.rooms]
    if len(strangers) > len(left):
        raise NoCapacity(
            f"no capacity: the strategy wants {len(names)} nodes ({', '.join(names)}) and {len(rooms.rooms)} nodes are up; "
            "start more nodes ('holdfast node')"
        )
    return {**{name: name for name in names if name in rooms.rooms}, **dict(zip(strangers, left, strict=False))}


def _told(rooms: Rooms, *names: str) -> str:
    """How full nodes are: these, or all."""
    told = [f"{name} {_full(rooms, name)}" for name in sorted(names or rooms.rooms)]
    return ", ".join(told[:5]) + (f" and {len(told) - 5} more" if len(told) > 5 else "") if told else "no node is up"


def _full(rooms: Rooms, name: str) -> str:
    room, used_mib = rooms.rooms[name], rooms.used_mib[name]
    memory = f" and {used_mib:.0f} of {room.memory_mib:.0f} MiB" if used_mib else ""
    return f"{rooms.used[name]:.3g} of {room.slots}{memory}"
