"""Everything that can be wrong with an application's definitions, told before anything runs."""

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.app.definition import Node, Operator, Sink, Source
from holdfast.app.graph import Graph, cycle_in, inputs_of, partitioning_between, parts_of, waits_between, waits_of
from holdfast.app.keep import LastEpochs, LastRows, StateTable

RESERVED = frozenset({"epoch"})
"""Columns that holdfast adds to every source."""


def find_errors(nodes: Sequence[Node]) -> list[str]:
    """Everything wrong with the nodes of an application, in the order in which a reader would look for it."""
    streams = {node.name: node for node in nodes if not isinstance(node, Sink)}
    errors = [
        f"the name '{name}' is defined {times} times ({_places(name, nodes)}); a name belongs to one source, operator or sink"
        for name, times in sorted(Counter(node.name for node in nodes).items())
        if times > 1
    ]
    errors += [error for node in nodes for error in _unknown_streams(node, streams)]
    fits = not errors  # a graph can be drawn only of nodes that fit together
    if not any(isinstance(node, Source) for node in nodes):
        errors.append("no source: declare at least one with app.source(name, schema)")
    if not any(isinstance(node, Sink) for node in nodes):
        errors.append("no sink: declare at least one with app.sink(name, stream)")
        fits = False
    wrong = [error for node in nodes for error in _kind_errors(node)]
    if wrong:  # values of the wrong kind would only be stumbled over further on
        return errors + wrong
    for node in nodes:
        errors += _source_errors(node) if isinstance(node, Source) else []
        errors += _operator_errors(node, streams) if isinstance(node, Operator) else []
    if fits:
        errors += _cycle_errors(nodes) or _shape_errors(nodes)
    return errors


def _unknown_streams(node: Node, streams: Mapping[str, Node]) -> list[str]:
    kind = type(node).__name__.lower()
    known = ", ".join(sorted(streams)) or "none"
    return [
        f"{kind} '{node.name}' ({node.origin}) reads stream '{stream}', which does not exist; streams are: {known}"
        for stream in inputs_of(node)
        if stream not in streams
    ]


def _kind_errors(node: Node) -> list[str]:
    """Names that cannot be file names, and values of another kind than their parameter wants."""
    who = f"{type(node).__name__.lower()} '{node.name}' ({node.origin})"
    errors = []
    if not (isinstance(node.name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", node.name)):
        errors.append(f"{who}: a name is made of letters, digits, _ and -, and starts with a letter; give it one with name=")
    if isinstance(node, Source) and not isinstance(node.schema, str):
        errors.append(f"{who}: schema must be a text such as 'seq long, price double', got {type(node.schema).__name__}")
    if isinstance(node, Source | Operator) and (not isinstance(node.parallelism, int) or isinstance(node.parallelism, bool)):
        errors.append(f"{who}: parallelism must be a whole number, got {node.parallelism!r}")
    if isinstance(node, Operator):
        errors += [
            f"{who}: keep for '{stream}' must be last_rows(...), last_epochs(...) or state_table(...), got {rule!r}"
            for stream, rule in node.keep.items()
            if not isinstance(rule, LastRows | LastEpochs | StateTable)
        ]
        if not callable(node.function):
            errors.append(f"{who}: an operator is a function, got {type(node.function).__name__}")
    return errors


def _source_errors(source: Source) -> list[str]:
    who = f"source '{source.name}' ({source.origin})"
    columns = columns_of(source.schema)
    errors = []
    if "seq" not in columns:
        errors.append(f"{who} has no column 'seq'; its schema must have 'seq long', ascending, got '{source.schema}'")
    errors += [
        f"{who} has a column '{name}', a name that holdfast gives to its own; call it something else"
        for name in columns
        if name.lower() in RESERVED
    ]
    errors += [
        f"{who} has {times} columns called '{name}'; give each a name of its own (upper and lower case are the same to Spark)"
        for name, times in Counter(name.lower() for name in columns).items()
        if times > 1
    ]
    if source.parallelism < 1:
        errors.append(f"{who} has parallelism {source.parallelism}; it must be at least 1")
    return errors


def columns_of(ddl: str) -> list[str]:
    """The names of the columns that a schema in Spark's DDL declares; what stands in brackets belongs to a column's type.

    >>> columns_of("seq long, `a b` decimal(10, 2), place struct<x: int, y: int>")
    ['seq', 'a b', 'place']
    """
    while (flat := re.sub(r"\([^()]*\)|<[^<>]*>", "", ddl)) != ddl:
        ddl = flat
    found = (re.match(r"\s*(?:`([^`]*)`|([^\s:]+))", part) for part in ddl.split(","))
    return [name[1] or name[2] for name in found if name]


def _operator_errors(operator: Operator, streams: Mapping[str, Node]) -> list[str]:
    who = f"operator '{operator.name}' ({operator.origin})"
    errors = []
    if not operator.inputs:
        errors.append(f"{who} reads nothing; give it inputs")
    errors += [
        f"{who} reads stream '{stream}' {times} times; read it once and use the DataFrame twice"
        for stream, times in Counter(operator.inputs).items()
        if times > 1
    ]
    for what, named in (("keep", operator.keep), ("partitioning", operator.partitioning)):
        errors += [
            f"{who} has a {what} rule for '{stream}', which is not one of its inputs: {', '.join(operator.inputs)}"
            for stream in named
            if stream not in operator.inputs
        ]
    errors += [
        f"{who}: keep for '{stream}' is a state table; give it as keep=state_table(...), it belongs to the whole operator"
        for stream, rule in operator.keep.items()
        if isinstance(rule, StateTable)
    ]
    errors += _parameter_errors(who, operator)
    if operator.correlated and len(operator.inputs) < 2:
        errors.append(f"{who} is correlated but reads one stream; a join needs at least two")
    if operator.parallelism < 1:
        errors.append(f"{who} has parallelism {operator.parallelism}; it must be at least 1")
    if operator.parallelism > 1 and not operator.key:
        errors.append(f"{who} has parallelism {operator.parallelism} but no key to divide its rows by; give it key=...")
    errors += [
        error for stream in operator.inputs if stream in streams and (error := _partitioning_error(who, streams[stream], operator))
    ]
    return errors


def _parameter_errors(who: str, operator: Operator) -> list[str]:
    wanted = len(operator.inputs) + (operator.state is not None)
    try:
        parameters = inspect.signature(operator.function).parameters.values()
    except ValueError:  # some built-in functions tell nobody what they take
        return []
    named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if named:
        return [f"{who} takes '{named[0]}' by name only, but its inputs are given in order; make it an ordinary argument"]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return []
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in takes)
    if least <= wanted <= len(takes):
        return []
    state = " and the state table" if operator.state else ""
    return [f"{who} takes {len(takes)} arguments, but it must take {wanted}: one per input{state}"]


def _partitioning_error(who: str, upstream: Node, reader: Operator) -> str | None:
    assert not isinstance(upstream, Sink)
    n1, n2 = upstream.parallelism, reader.parallelism
    if n1 < 1 or n2 < 1:
        return None  # told already
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


def _cycle_errors(nodes: Sequence[Node]) -> list[str]:
    path = cycle_in(waits_of(nodes))
    return [f"the streams form a cycle: {' -> '.join(path)}; an application is acyclic"] if path else []


def _shape_errors(nodes: Sequence[Node]) -> list[str]:
    graph = Graph.of(nodes)
    errors = [
        f"{type(node).__name__.lower()} '{node.name}' ({node.origin}) leads to no sink; sink its stream or remove it"
        for node in nodes
        if not isinstance(node, Sink) and not any(isinstance(graph.nodes[n], Sink) for n in graph.downstream(node.name))
    ]
    return errors + _pe_errors(graph)


def _pe_errors(graph: Graph) -> list[str]:
    parts = parts_of(graph.operators)
    errors = [
        f"PE '{pe}' has the name of a {type(graph.nodes[pe]).__name__.lower()}; give it a name of its own"
        for pe in sorted(parts)
        if isinstance(graph.nodes.get(pe), Source | Sink)
    ]
    for pe, part in sorted(parts.items()):
        between = frozenset[str]().union(*map(graph.downstream, part)) & frozenset[str]().union(*map(graph.upstream, part))
        outside = sorted(between - set(part))
        if outside:
            errors.append(
                f"PE '{pe}' fuses {', '.join(part)}, but {', '.join(outside)} lies between them and would wait for the PE "
                "while the PE waits for it; fuse it too or fuse less"
            )
    path = [] if errors else cycle_in(waits_between(parts, graph.nodes))
    if path:
        errors.append(f"the PEs wait for each other: {' -> '.join(path)}; fuse them into one or fuse less")
    return errors


def _places(name: str, nodes: Sequence[Node]) -> str:
    return ", ".join(str(node.origin) for node in nodes if node.name == name)
