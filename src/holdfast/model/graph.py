"""The graph of an application: what feeds what, and the questions that the planners, the assessor and the runtime ask of it."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import rustworkx as rx

from holdfast.model.definition import Node, Operator, Partitioning, Sink, Source
from holdfast.model.keep import StateTable

RESERVED = frozenset({"epoch"})
"""Columns that holdfast adds to every source."""


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
        """The graph of nodes that `problems_of` found nothing wrong with."""
        by_name = {node.name: node for node in nodes}
        return cls(by_name, tuple(_topological(by_name)))

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
        """The processing elements: each a set of fused operators, in topological order. An operator that names no PE is one."""
        return _pes_of(self.operators)

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


def problems_of(nodes: Sequence[Node]) -> list[str]:
    """Everything wrong with the nodes of an application, in the order in which a reader would look for it."""
    streams = {node.name: node for node in nodes if not isinstance(node, Sink)}
    problems = [
        f"the name '{name}' is defined {times} times ({_places(name, nodes)}); a name belongs to one source, operator or sink"
        for name, times in sorted(Counter(node.name for node in nodes).items())
        if times > 1
    ]
    if not any(isinstance(node, Source) for node in nodes):
        problems.append("no source: declare at least one with app.source(name, schema)")
    if not any(isinstance(node, Sink) for node in nodes):
        problems.append("no sink: declare at least one with app.sink(name, stream)")
    for node in nodes:
        problems += _unknown_streams(node, streams)
        problems += _source_problems(node) if isinstance(node, Source) else []
        problems += _operator_problems(node, streams) if isinstance(node, Operator) else []
    if not problems:  # a graph can be drawn only of nodes that fit together
        problems += _cycle_problems(nodes) or _shape_problems(nodes)
    return problems


def _unknown_streams(node: Node, streams: Mapping[str, Node]) -> list[str]:
    kind = type(node).__name__.lower()
    known = ", ".join(sorted(streams)) or "none"
    return [
        f"{kind} '{node.name}' ({node.origin}) reads stream '{stream}', which does not exist; streams are: {known}"
        for stream in inputs_of(node)
        if stream not in streams
    ]


def _source_problems(source: Source) -> list[str]:
    who = f"source '{source.name}' ({source.origin})"
    columns = [part.strip().split()[0].strip("`").lower() for part in source.schema.split(",") if part.strip()]
    problems = []
    if "seq" not in columns:
        problems.append(f"{who} has no column 'seq'; its schema must have 'seq long', ascending, got '{source.schema}'")
    problems += [
        f"{who} has a column '{name}', a name that holdfast gives to its own; call it something else"
        for name in columns
        if name in RESERVED
    ]
    if source.parallelism < 1:
        problems.append(f"{who} has parallelism {source.parallelism}; it must be at least 1")
    return problems


def _operator_problems(operator: Operator, streams: Mapping[str, Node]) -> list[str]:
    who = f"operator '{operator.name}' ({operator.origin})"
    problems = []
    if not operator.inputs:
        problems.append(f"{who} reads nothing; give it inputs")
    problems += [
        f"{who} reads stream '{stream}' {times} times; read it once and use the DataFrame twice"
        for stream, times in Counter(operator.inputs).items()
        if times > 1
    ]
    for what, named in (("keep", operator.keep), ("partitioning", operator.partitioning)):
        problems += [
            f"{who} has a {what} rule for '{stream}', which is not one of its inputs: {', '.join(operator.inputs)}"
            for stream in named
            if stream not in operator.inputs
        ]
    problems += [
        f"{who}: keep for '{stream}' is a state table; give it as keep=state_table(...), it belongs to the whole operator"
        for stream, rule in operator.keep.items()
        if isinstance(rule, StateTable)
    ]
    problems += _parameter_problems(who, operator)
    if operator.correlated and len(operator.inputs) < 2:
        problems.append(f"{who} is correlated but reads one stream; a join needs at least two")
    if operator.parallelism < 1:
        problems.append(f"{who} has parallelism {operator.parallelism}; it must be at least 1")
    if operator.parallelism > 1 and not operator.key:
        problems.append(f"{who} has parallelism {operator.parallelism} but no key to divide its rows by; give it key=...")
    problems += [
        problem
        for stream in operator.inputs
        if stream in streams and (problem := _partitioning_problem(who, streams[stream], operator))
    ]
    return problems


def _parameter_problems(who: str, operator: Operator) -> list[str]:
    wanted = len(operator.inputs) + (operator.state is not None)
    parameters = inspect.signature(operator.function).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return []
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in takes)
    if least <= wanted <= len(takes):
        return []
    state = " and the state table" if operator.state else ""
    return [f"{who} takes {len(takes)} arguments, but it must take {wanted}: one per input{state}"]


def _partitioning_problem(who: str, upstream: Node, reader: Operator) -> str | None:
    assert not isinstance(upstream, Sink)
    n1, n2 = upstream.parallelism, reader.parallelism
    kind = partitioning_between(upstream, reader)
    fits = {
        "one-to-one": n1 == n2,
        "split": n2 > n1 and n2 % n1 == 0,
        "merge": n1 > n2 and n1 % n2 == 0,
        "full": True,
    }
    if kind not in fits:
        return f"{who}: partitioning of '{upstream.name}' is '{kind}'; it must be one of {', '.join(fits)}"
    if fits[kind]:
        return None
    wants = {
        "one-to-one": "as many tasks on both sides",
        "split": "a multiple of the tasks upstream",
        "merge": "a divisor of them",
    }
    return f"{who}: partitioning '{kind}' of '{upstream.name}' wants {wants[kind]}, got {n1} tasks feeding {n2}"


def _cycle_problems(nodes: Sequence[Node]) -> list[str]:
    graph, names = _drawn({node.name: node for node in nodes})
    edges = rx.digraph_find_cycle(graph)
    if not edges:
        return []
    path = [names[edge[0]] for edge in edges] + [names[edges[0][0]]]
    return [f"the streams form a cycle: {' -> '.join(path)}; an application is acyclic"]


def _shape_problems(nodes: Sequence[Node]) -> list[str]:
    graph = Graph.of(nodes)
    problems = [
        f"{type(node).__name__.lower()} '{node.name}' ({node.origin}) leads to no sink; sink its stream or remove it"
        for node in nodes
        if not isinstance(node, Sink) and not any(isinstance(graph.nodes[n], Sink) for n in graph.downstream(node.name))
    ]
    for pe, part in graph.pes.items():
        between = frozenset[str]().union(*map(graph.downstream, part)) & frozenset[str]().union(*map(graph.upstream, part))
        outside = sorted(between - set(part))
        if outside:
            problems.append(
                f"PE '{pe}' fuses {', '.join(part)}, but {', '.join(outside)} lies between them and would wait for the PE "
                "while the PE waits for it; fuse it too or fuse less"
            )
    return problems


def _pes_of(operators: Iterable[Operator]) -> dict[str, tuple[str, ...]]:
    pes: dict[str, list[str]] = {}
    for operator in operators:
        pes.setdefault(operator.pe or operator.name, []).append(operator.name)
    return {pe: tuple(part) for pe, part in pes.items()}


def _places(name: str, nodes: Sequence[Node]) -> str:
    return ", ".join(str(node.origin) for node in nodes if node.name == name)


def _drawn(by_name: Mapping[str, Node]) -> tuple["rx.PyDiGraph[str, None]", list[str]]:
    names = sorted(by_name)
    index = {name: i for i, name in enumerate(names)}
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from([(index[s], index[n], None) for n in names for s in inputs_of(by_name[n])])
    return graph, names


def _topological(by_name: Mapping[str, Node]) -> list[str]:
    graph, _ = _drawn(by_name)
    return list(rx.lexicographical_topological_sort(graph, key=str))
