"""The graph of an application: which node reads which stream, and the PEs that fused operators form."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.app.definition import Node, Operator, Sink, Source
from holdfast.documents.partitioning import Partitioning
from holdfast.documents.topological_order import sort_topologically
from holdfast.errors import HoldfastError


@dataclass(frozen=True)
class Graph:
    """A checked, acyclic application graph. `App.graph()` creates it.

    Names are unique over sources, operators and sinks, so a name identifies a node. A stream has the name of the source or
    operator that produces it.
    """

    nodes: Mapping[str, Node]
    order: tuple[str, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> "Graph":
        """Return the graph of nodes in which `find_errors` found no error."""
        by_name = {node.name: node for node in nodes}
        return cls(by_name, sort_topologically(dependencies_of(nodes))[0])

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
        readers: dict[str, list[str]] = {name: [] for name in self.order}
        for name in self.order:
            for stream in inputs_of(self.nodes[name]):
                readers[stream].append(name)
        return {name: tuple(names) for name, names in readers.items()}

    def operator(self, name: str) -> Operator:
        node = self.nodes[name]
        assert isinstance(node, Operator), f"'{name}' is not an operator"
        return node

    def predecessors(self, name: str) -> tuple[str, ...]:
        """Return the streams that a node reads, in the order of its inputs."""
        return inputs_of(self.nodes[name])

    def successors(self, name: str) -> tuple[str, ...]:
        """Return the nodes that read a stream, in topological order."""
        return self._successors[name]

    def reads_query(self, name: str) -> bool:
        """Return whether an operator reads rows that come from a query: these are numbered by epoch, not as by the sources."""
        nodes = (self.nodes[stream] for stream in self.upstream(name))
        return any(isinstance(node, Operator) and node.is_query for node in nodes)

    def require_no_queries(self, command: str) -> None:
        """Raise HoldfastError for a command that supports only function operators."""
        queries = [str(operator) for operator in self.operators if operator.is_query]
        if queries:
            raise HoldfastError(f"{command} supports function operators only, but the application has {', '.join(queries)}")

    def upstream(self, name: str) -> frozenset[str]:
        """Return the nodes that a node depends on, without itself."""
        return self._reach(name, self.predecessors)

    def downstream(self, name: str) -> frozenset[str]:
        """Return the nodes that depend on a node, without itself."""
        return self._reach(name, self.successors)

    def sources_of(self, part: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes of a part that read nothing from within it, in topological order."""
        names = set(part)
        return tuple(n for n in self.order if n in names and not names.intersection(self.predecessors(n)))

    def sinks_of(self, part: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes of a part that nothing within it reads, in topological order."""
        names = set(part)
        return tuple(n for n in self.order if n in names and not names.intersection(self.successors(n)))

    def streams_into(self, part: Iterable[str]) -> tuple[str, ...]:
        """Return the streams that a part reads from outside itself, in topological order."""
        names = set(part)
        read = {stream for name in names for stream in self.predecessors(name)}
        return tuple(n for n in self.order if n in read - names)

    def streams_out_of(self, part: Iterable[str]) -> tuple[str, ...]:
        """Return the streams of a part that a node outside it reads, sinks included, in topological order."""
        names = set(part)
        return tuple(n for n in self.order if n in names and set(self.successors(n)) - names)

    @cached_property
    def pes(self) -> Mapping[str, tuple[str, ...]]:
        """The operators of each PE, PEs and operators in topological order. An operator that names no PE is a PE of its own."""
        parts = operators_by_pe(self.operators)
        return {pe: parts[pe] for pe in sort_topologically(pe_dependencies(parts, self.nodes))[0]}

    def partitioning(self, stream: str, reader: str) -> Partitioning:
        """Return how the tasks of `stream` feed the tasks of `reader`: as declared; otherwise one-to-one if the tasks and keys are
        the same; otherwise full."""
        return partitioning_between(self.nodes[stream], self.operator(reader))

    def _reach(self, name: str, step: Callable[[str], tuple[str, ...]]) -> frozenset[str]:
        reached: set[str] = set()
        pending = list(step(name))
        while pending:
            node = pending.pop()
            if node not in reached:
                reached.add(node)
                pending.extend(step(node))
        return frozenset(reached)


def inputs_of(node: Node) -> tuple[str, ...]:
    """Return the streams that a node reads."""
    if isinstance(node, Operator):
        return node.inputs
    return (node.input,) if isinstance(node, Sink) else ()


def partitioning_between(upstream: Node, reader: Operator) -> Partitioning:
    """Return the declared partitioning of an edge, or the one that follows from parallelism and key."""
    if upstream.name in reader.partitioning:
        return reader.partitioning[upstream.name]
    assert not isinstance(upstream, Sink)
    if isinstance(upstream, Source) and upstream.input is not None and upstream.parallelism > 1 and reader.key:
        return "full"  # its tasks divide partitions or files, not keys
    same_tasks = upstream.parallelism == reader.parallelism and (upstream.key == reader.key or reader.parallelism == 1)
    return "one-to-one" if same_tasks else "full"


def operators_by_pe(operators: Iterable[Operator]) -> dict[str, tuple[str, ...]]:
    """Return the operators of each PE, in the given order."""
    parts: dict[str, list[str]] = {}
    for operator in operators:
        parts.setdefault(operator.pe or operator.name, []).append(operator.name)
    return {pe: tuple(part) for pe, part in parts.items()}


def dependencies_of(nodes: Iterable[Node]) -> dict[str, set[str]]:
    """Return the nodes that each node reads."""
    return {node.name: set(inputs_of(node)) for node in nodes}


def pe_dependencies(parts: Mapping[str, Sequence[str]], nodes: Mapping[str, Node]) -> dict[str, set[str]]:
    """Return the other PEs that each PE reads."""
    home = {name: pe for pe, part in parts.items() for name in part}
    return {
        pe: {home[stream] for name in part for stream in inputs_of(nodes[name]) if stream in home} - {pe}
        for pe, part in parts.items()
    }
