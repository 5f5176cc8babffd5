"""The graph of an application: what feeds what, and the questions that the planners, the assessor and the runtime ask of it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import rustworkx as rx

from holdfast.app.definition import Node, Operator, Sink, Source
from holdfast.documents.partitioning import Partitioning


@dataclass(frozen=True)
class Graph:
    """A checked, acyclic application graph. Made by `App.graph()`.

    Names are unique over sources, operators and sinks, so a name is enough to speak of a node; a stream is named after the
    source or operator that produces it.
    """

    nodes: Mapping[str, Node]
    order: tuple[str, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> "Graph":
        """The graph of nodes that `find_errors` found nothing wrong with."""
        by_name = {node.name: node for node in nodes}
        return cls(by_name, tuple(_topological(waits_of(nodes))))

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(node for node in self._ordered if isinstance(node, Source))

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        return tuple(node for node in self._ordered if isinstance(node, Operator))

    @cached_property
    def sinks(self) -> tuple[Sink, ...]:
        return tuple(node for node in self._ordered if isinstance(node, Sink))

    @cached_property
    def _ordered(self) -> tuple[Node, ...]:
        return tuple(self.nodes[name] for name in self.order)

    @cached_property
    def _successors(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {name: [] for name in self.order}
        for name in self.order:
            for stream in inputs_of(self.nodes[name]):
                found[stream].append(name)
        return {name: tuple(readers) for name, readers in found.items()}

    def operator(self, name: str) -> Operator:
        node = self.nodes[name]
        assert isinstance(node, Operator), f"'{name}' is no operator"
        return node

    def predecessors(self, name: str) -> tuple[str, ...]:
        """The streams that a node reads, in the order of its inputs."""
        return inputs_of(self.nodes[name])

    def successors(self, name: str) -> tuple[str, ...]:
        """The nodes that read a stream, in topological order."""
        return self._successors[name]

    def upstream(self, name: str) -> frozenset[str]:
        """Everything that a node depends on, itself left out."""
        return self._reach(name, self.predecessors)

    def downstream(self, name: str) -> frozenset[str]:
        """Everything that depends on a node, itself left out."""
        return self._reach(name, self.successors)

    def sources_of(self, part: Iterable[str]) -> tuple[str, ...]:
        """The nodes of a part that read nothing from within it, in topological order."""
        names = set(part)
        return tuple(n for n in self.order if n in names and not names.intersection(self.predecessors(n)))

    def sinks_of(self, part: Iterable[str]) -> tuple[str, ...]:
        """The nodes of a part that nothing within it reads, in topological order."""
        names = set(part)
        return tuple(n for n in self.order if n in names and not names.intersection(self.successors(n)))

    def streams_into(self, part: Iterable[str]) -> tuple[str, ...]:
        """The streams that a part reads from outside itself, in topological order."""
        names = set(part)
        read = {stream for name in names for stream in self.predecessors(name)}
        return tuple(n for n in self.order if n in read - names)

    def streams_out_of(self, part: Iterable[str]) -> tuple[str, ...]:
        """The streams made in a part that something outside it reads, sinks included, in topological order."""
        names = set(part)
        return tuple(n for n in self.order if n in names and set(self.successors(n)) - names)

    @cached_property
    def pes(self) -> Mapping[str, tuple[str, ...]]:
        """The processing elements: each a set of fused operators, both in topological order. An operator that names no PE is
        one."""
        parts = parts_of(self.operators)
        return {pe: parts[pe] for pe in _topological(waits_between(parts, self.nodes))}

    def partitioning(self, stream: str, reader: str) -> Partitioning:
        """How the tasks of `reader` are fed by the tasks of `stream`: as declared, else one-to-one where the tasks and keys are
        the same, else full."""
        return partitioning_between(self.nodes[stream], self.operator(reader))

    def _reach(self, name: str, step: Callable[[str], tuple[str, ...]]) -> frozenset[str]:
        seen: set[str] = set()
        waiting = list(step(name))
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting.extend(step(node))
        return frozenset(seen)


def inputs_of(node: Node) -> tuple[str, ...]:
    """The streams that a node reads."""
    if isinstance(node, Operator):
        return node.inputs
    return (node.input,) if isinstance(node, Sink) else ()


def partitioning_between(upstream: Node, reader: Operator) -> Partitioning:
    """The declared partitioning of an edge, or the one that follows from parallelism and key."""
    if upstream.name in reader.partitioning:
        return reader.partitioning[upstream.name]
    assert not isinstance(upstream, Sink)
    alike = upstream.parallelism == reader.parallelism and (upstream.key == reader.key or reader.parallelism == 1)
    return "one-to-one" if alike else "full"


def parts_of(operators: Iterable[Operator]) -> dict[str, tuple[str, ...]]:
    """The operators of each PE, in the order in which they are given."""
    parts: dict[str, list[str]] = {}
    for operator in operators:
        parts.setdefault(operator.pe or operator.name, []).append(operator.name)
    return {pe: tuple(part) for pe, part in parts.items()}


def waits_of(nodes: Iterable[Node]) -> dict[str, set[str]]:
    """For each node the nodes that it waits for."""
    return {node.name: set(inputs_of(node)) for node in nodes}


def waits_between(parts: Mapping[str, Sequence[str]], nodes: Mapping[str, Node]) -> dict[str, set[str]]:
    """For each PE the PEs that it waits for."""
    home = {name: pe for pe, part in parts.items() for name in part}
    return {
        pe: {home[stream] for name in part for stream in inputs_of(nodes[name]) if stream in home} - {pe}
        for pe, part in parts.items()
    }


def _drawn(waits: Mapping[str, Collection[str]]) -> tuple["rx.PyDiGraph[str, None]", list[str]]:
    names = sorted(waits)
    index = {name: i for i, name in enumerate(names)}
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from([(index[before], index[name], None) for name in names for before in sorted(waits[name])])
    return graph, names


def _topological(waits: Mapping[str, Collection[str]]) -> list[str]:
    """Every name after those it waits for; ties by name."""
    return list(rx.lexicographical_topological_sort(_drawn(waits)[0], key=str))


def cycle_in(waits: Mapping[str, Collection[str]]) -> list[str]:
    """Names that wait for each other, the first of them repeated at the end; empty where there are none."""
    graph, names = _drawn(waits)
    edges = rx.digraph_find_cycle(graph)
    return [names[edge[0]] for edge in edges] + [names[edges[0][0]]] if edges else []
