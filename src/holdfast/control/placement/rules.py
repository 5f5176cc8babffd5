"""Choose nodes for replicas: one node per replica of a task, different racks where possible, the emptiest node first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.documents.job import NO_NEED, Layout, Need, Task
from holdfast.errors import HoldfastError

RACK = "rack"
"""The label that names a node's correlated failure domain."""
ROUNDING = 1e-6
"""Tolerance for shares that add up to a whole node only up to rounding."""


class NoCapacity(HoldfastError):
    """The nodes have no room for a job. The text says what is missing."""


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A node that accepts replicas: its slots, its memory, and the needs of the replicas that it already holds.

    A replica takes one slot. A replica that needs cores takes the same share of the slots as it takes of the cores.
    """

    name: str
    host_kind: str
    rack: str
    cores: float
    slots: int
    memory_mib: float
    holds: tuple[Need, ...] = ()

    def slots_of(self, need: Need) -> float:
        """Return how many slots a replica takes.

        >>> NodeCapacity("n1", "light", "", cores=4, slots=128, memory_mib=1024).slots_of(Need(cores=0.5))
        16.0
        """
        return max(1.0, need.cores * self.slots / self.cores)


@dataclass(slots=True)
class CapacityIndex:
    """The nodes of one host kind in the order of how full they are, the emptiest first. Ties are broken by name."""

    nodes: dict[str, NodeCapacity]
    used: dict[str, float] = field(default_factory=dict)
    used_mib: dict[str, float] = field(default_factory=dict)
    heap: list[tuple[float, str]] = field(default_factory=list)

    @classmethod
    def of(cls, nodes: Iterable[NodeCapacity], *, host_kind: str) -> CapacityIndex:
        index = cls({node.name: node for node in nodes if node.host_kind == host_kind})
        for name, node in index.nodes.items():
            with_cores = [need for need in node.holds if need.cores]
            index.used[name] = len(node.holds) - len(with_cores) + sum(map(node.slots_of, with_cores))
            index.used_mib[name] = sum(need.memory_mib for need in node.holds)
            index.heap.append((index.fill(name), name))
        heapq.heapify(index.heap)
        return index

    def fill(self, name: str) -> float:
        return self.used[name] / self.nodes[name].cores

    def take(self, name: str, need: Need) -> None:
        self.used[name] += self.nodes[name].slots_of(need)
        self.used_mib[name] += need.memory_mib
        heapq.heappush(self.heap, (self.fill(name), name))

    def fits(self, name: str, need: Need) -> bool:
        node = self.nodes[name]
        memory = not need.memory_mib or self.used_mib[name] + need.memory_mib <= node.memory_mib
        return memory and self.used[name] + node.slots_of(need) <= node.slots + ROUNDING

    def best(self, need: Need, *, not_on: set[str], not_in: set[str]) -> str | None:
        """Return the emptiest node with room that is not in `not_on`, preferably in a rack that is not in `not_in`."""
        popped: list[tuple[float, str]] = []
        second: str | None = None
        first: str | None = None
        while self.heap and first is None:
            entry = heapq.heappop(self.heap)
            fill, name = entry
            if fill != self.fill(name):
                continue  # an outdated entry: `take` has pushed a newer one
            popped.append(entry)
            if name in not_on or not self.fits(name, need):
                continue
            if self.nodes[name].rack in not_in:
                second = second or name
            else:
                first = name
        for entry in popped:
            heapq.heappush(self.heap, entry)
        return first or second


def place(
    layout: Layout, nodes: Sequence[NodeCapacity], *, host_kind: str, need_of: Callable[[str], Need] = lambda task: NO_NEED
) -> dict[str, tuple[str, ...]]:
    """Return, per task, the nodes of its replicas in the order of the replicas. Raises NoCapacity.

    `need_of` returns what a replica needs, by the name of its task. Shared tasks are left out, because another job places them.
    Where the layout names nodes, these names decide: the name of a running node is that node, and every other name gets a node of
    its own.
    """
    index = CapacityIndex.of(nodes, host_kind=host_kind)
    tasks = [task for task in layout.tasks if task.shared is None]
    _check_enough(tasks, index, host_kind=host_kind, need_of=need_of)
    node_of = _nodes_of_layout(layout, index)
    placement: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        need = need_of(task.name)
        prescribed = [node_of[name] for name in layout.nodes.get(task.name, ())[: task.replicas]]
        for name in prescribed:
            if not index.fits(name, need):
                raise NoCapacity(
                    f"no room for task '{task.name}' on {name}, where its strategy wants it: it needs {need} "
                    f"({_fill_text(index, name)}); cancel a job there, or plan again"
                )
            index.take(name, need)
        placement[task.name] = (*prescribed, *_place_task(task, need, index, prescribed=prescribed))
    return placement


def place_replica(index: CapacityIndex, need: Need = NO_NEED, *, not_on: set[str], peers_on: set[str]) -> str | None:
    """Return a node for one replica: not in `not_on`, and preferably in another rack than the nodes in `peers_on`."""
    racks = {index.nodes[name].rack for name in peers_on if name in index.nodes and index.nodes[name].rack}
    return index.best(need, not_on=not_on, not_in=racks)


def _place_task(task: Task, need: Need, index: CapacityIndex, *, prescribed: Sequence[str]) -> list[str]:
    nodes = list(prescribed)
    while len(nodes) < task.replicas:
        name = place_replica(index, need, not_on=set(nodes), peers_on=set(nodes))
        if name is None:
            raise NoCapacity(
                f"no room for replica {len(nodes)} of task '{task.name}': it needs {need}, and no node without a replica of the "
                f"task has that free ({_fill_text(index)}); start another node, or cancel a job"
            )
        index.take(name, need)
        nodes.append(name)
    return nodes[len(prescribed) :]


def _check_enough(tasks: Sequence[Task], index: CapacityIndex, *, host_kind: str, need_of: Callable[[str], Need]) -> None:
    """Raise NoCapacity with everything that is certain to be missing before any replica is placed."""
    missing = []
    largest = max(tasks, key=lambda task: task.replicas, default=None)
    if largest is not None and largest.replicas > len(index.nodes):
        missing.append(
            f"task '{largest.name}' wants {largest.replicas} nodes for its replicas and {len(index.nodes)} "
            f"of kind '{host_kind}' {'is' if len(index.nodes) == 1 else 'are'} up"
        )
    replicas = sum(task.replicas for task in tasks)
    free = sum(max(0, int(node.slots - index.used[name] + ROUNDING)) for name, node in index.nodes.items())
    if replicas > free:
        missing.append(f"{replicas} replicas need a slot each and {free} {'is' if free == 1 else 'are'} free ({_fill_text(index)})")
    for task in tasks:
        need = need_of(task.name)
        fitting = sum(index.fits(name, need) for name in index.nodes) if need != NO_NEED else task.replicas
        if fitting < task.replicas:
            on = "a node" if task.replicas == 1 else f"each of {task.replicas} nodes"
            missing.append(f"task '{task.name}' needs {need} on {on}, and {fitting or 'none'} have that free ({_fill_text(index)})")
    if missing:
        raise NoCapacity(f"no capacity: {'; '.join(missing)}; start more nodes ('holdfast node'), or cancel a job")


def _nodes_of_layout(layout: Layout, index: CapacityIndex) -> Mapping[str, str]:
    """Return the running node for each node name in the layout. A name that no running node has gets a node of its own."""
    names = sorted({name for names in layout.nodes.values() for name in names})
    others = [name for _, name in sorted((index.fill(name), name) for name in index.nodes) if name not in names]
    unknown = [name for name in names if name not in index.nodes]
    if len(unknown) > len(others):
        raise NoCapacity(
            f"no capacity: the strategy wants {len(names)} nodes ({', '.join(names)}) and {len(index.nodes)} nodes are up; "
            "start more nodes ('holdfast node')"
        )
    return {**{name: name for name in names if name in index.nodes}, **dict(zip(unknown, others, strict=False))}


def _fill_text(index: CapacityIndex, *names: str) -> str:
    """Return how full these nodes are, or all nodes if none are named."""
    texts = [f"{name} {_fill_of(index, name)}" for name in sorted(names or index.nodes)]
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "") if texts else "no node is up"


def _fill_of(index: CapacityIndex, name: str) -> str:
    node, used_mib = index.nodes[name], index.used_mib[name]
    memory = f" and {used_mib:.0f} of {node.memory_mib:.0f} MiB" if used_mib else ""
    return f"{index.used[name]:.3g} of {node.slots}{memory}"
