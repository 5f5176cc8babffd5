"""Find every error in an application's definitions before anything runs."""

import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.app.definition import Node, Operator, Sink, Source
from holdfast.app.graph import Graph, dependencies_of, inputs_of, operators_by_pe, partitioning_between, pe_dependencies
from holdfast.app.keep import LastEpochs, LastRows, StateTable
from holdfast.app.writers import bind_writer
from holdfast.documents.topological_order import find_cycles
from holdfast.errors import did_you_mean

OUTPUT_MODES = ("append", "update", "complete")

RESERVED = frozenset({"epoch"})
"""Columns that holdfast adds to every source."""


def find_errors(nodes: Sequence[Node]) -> list[str]:
    """Return the errors of an application's nodes, in the order in which a reader would look for them."""
    streams = {node.name: node for node in nodes if not isinstance(node, Sink)}
    errors = [
        f"the name '{name}' is defined {times} times ({_places(name, nodes)}); a name belongs to one source, operator or sink"
        for name, times in sorted(Counter(node.name for node in nodes).items())
        if times > 1
    ]
    errors += [error for node in nodes for error in _unknown_streams(node, streams)]
    connected = not errors  # only nodes whose inputs all exist form a graph
    if not any(isinstance(node, Source) for node in nodes):
        errors.append("no source: declare at least one with app.source(name, schema)")
    if not any(isinstance(node, Sink) for node in nodes):
        errors.append("no sink: declare at least one with app.sink(name, stream)")
        connected = False
    type_errors = [error for node in nodes for error in _type_errors(node)]
    if type_errors:  # the checks below would fail on values of the wrong type
        return errors + type_errors
    for node in nodes:
        errors += _source_errors(node) if isinstance(node, Source) else []
        errors += _operator_errors(node, streams) if isinstance(node, Operator) else []
        errors += _sink_errors(node) if isinstance(node, Sink) else []
    if connected:
        errors += _cycle_errors(nodes) or _shape_errors(nodes)
    return errors


def _unknown_streams(node: Node, streams: Mapping[str, Node]) -> list[str]:
    kind = type(node).__name__.lower()
    known = ", ".join(sorted(streams)) or "none"
    return [
        f"{kind} '{node.name}' ({node.origin}) reads stream '{stream}', which does not exist; streams are: {known}"
        f"{did_you_mean(stream, streams)}"
        for stream in inputs_of(node)
        if stream not in streams
    ]


def _type_errors(node: Node) -> list[str]:
    """Return an error for a name that cannot be a file name, and for each value of the wrong type."""
    who = f"{type(node).__name__.lower()} '{node.name}' ({node.origin})"
    errors = []
    if not (isinstance(node.name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", node.name)):
        errors.append(f"{who}: a name consists of letters, digits, _ and -, and starts with a letter; give it one with name=")
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
    if isinstance(node, Sink) and node.writer is not None and not callable(node.writer):
        errors.append(f"{who}: writer must be a function, got {type(node.writer).__name__}")
    return errors


def _source_errors(source: Source) -> list[str]:
    who = f"source '{source.name}' ({source.origin})"
    columns = columns_of(source.schema)
    errors = []
    if "seq" not in columns:
        errors.append(f"{who} has no column 'seq'; its schema must have 'seq long', ascending, got '{source.schema}'")
    errors += [
        f"{who} has a column '{name}', a name that holdfast reserves; rename the column"
        for name in columns
        if name.lower() in RESERVED
    ]
    errors += [
        f"{who} has {times} columns called '{name}'; give each its own name (Spark ignores case)"
        for name, times in Counter(name.lower() for name in columns).items()
        if times > 1
    ]
    if source.parallelism < 1:
        errors.append(f"{who} has parallelism {source.parallelism}; it must be at least 1")
    return errors


def columns_of(ddl: str) -> list[str]:
    """Return the names of the columns that a schema in Spark's DDL declares.

    >>> columns_of("seq long, `a b` decimal(10, 2), place struct<x: int, y: int>")
    ['seq', 'a b', 'place']
    """
    while (flat := re.sub(r"\([^()]*\)|<[^<>]*>", "", ddl)) != ddl:  # drop the parameters of types
        ddl = flat
    matches = (re.match(r"\s*(?:`([^`]*)`|([^\s:]+))", part) for part in ddl.split(","))
    return [match[1] or match[2] for match in matches if match]


def _operator_errors(operator: Operator, streams: Mapping[str, Node]) -> list[str]:
    who = str(operator)
    errors = []
    if not operator.inputs:
        errors.append(f"{who} reads nothing; give it inputs")
    errors += [
        f"{who} reads stream '{stream}' {times} times; read it once and use the DataFrame twice"
        for stream, times in Counter(operator.inputs).items()
        if times > 1
    ]
    for rule_name, rules in (("keep", operator.keep), ("partitioning", operator.partitioning)):
        errors += [
            f"{who} has a {rule_name} rule for '{stream}', which is not one of its inputs: {', '.join(operator.inputs)}"
            for stream in rules
            if stream not in operator.inputs
        ]
    errors += [
        f"{who}: keep for '{stream}' is a state table, which belongs to the whole operator; give it as keep=state_table(...)"
        for stream, rule in operator.keep.items()
        if isinstance(rule, StateTable)
    ]
    errors += _parameter_errors(who, operator)
    if operator.output_mode is not None and operator.output_mode not in OUTPUT_MODES:
        errors.append(f"{who} has the output mode {operator.output_mode!r}; it must be one of {', '.join(OUTPUT_MODES)}")
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
    expected = len(operator.inputs) + (operator.state is not None)
    try:
        parameters = inspect.signature(operator.function).parameters.values()
    except ValueError:  # some built-in functions have no signature
        return []
    keyword_only = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if keyword_only:
        return [f"{who} takes '{keyword_only[0]}' by name only, but inputs are passed in order; make it a positional argument"]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    if required <= expected <= len(positional):
        return []
    state = " and the state table" if operator.state else ""
    return [f"{who} takes {len(positional)} arguments, but it must take {expected}: one per input{state}"]


def _sink_errors(sink: Sink) -> list[str]:
    if sink.writer is None:
        return []
    try:
        bind_writer(sink.writer)
    except ValueError as error:
        signature = "it must take (rows, epoch) or (rows, epoch, quality), and may take 'token'"
        return [f"the writer of sink '{sink.name}' ({sink.origin}) {error}; {signature}"]
    return []


def _partitioning_error(who: str, upstream: Node, reader: Operator) -> str | None:
    assert not isinstance(upstream, Sink)
    n1, n2 = upstream.parallelism, reader.parallelism
    if n1 < 1 or n2 < 1:
        return None  # reported elsewhere
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
    requirements = {
        "one-to-one": "as many tasks as upstream",
        "split": "a multiple of the upstream tasks",
        "merge": "a divisor of the upstream tasks",
    }
    return f"{who}: partitioning '{kind}' of '{upstream.name}' requires {requirements[kind]}, got {n1} tasks feeding {n2}"


def _cycle_errors(nodes: Sequence[Node]) -> list[str]:
    cycles, _ = find_cycles(dependencies_of(nodes))
    return [f"the streams form a cycle: {' -> '.join(cycle)}; an application is acyclic" for cycle in cycles[:1]]


def _shape_errors(nodes: Sequence[Node]) -> list[str]:
    graph = Graph.of(nodes)
    errors = [
        f"{type(node).__name__.lower()} '{node.name}' ({node.origin}) leads to no sink; sink its stream or remove it"
        for node in nodes
        if not isinstance(node, Sink) and not any(isinstance(graph.nodes[n], Sink) for n in graph.downstream(node.name))
    ]
    return errors + _pe_errors(graph)


def _pe_errors(graph: Graph) -> list[str]:
    parts = operators_by_pe(graph.operators)
    errors = [
        f"PE '{pe}' has the name of a {type(graph.nodes[pe]).__name__.lower()}; give it another name"
        for pe in sorted(parts)
        if isinstance(graph.nodes.get(pe), Source | Sink)
    ]
    for pe, part in sorted(parts.items()):
        between = frozenset[str]().union(*map(graph.downstream, part)) & frozenset[str]().union(*map(graph.upstream, part))
        outside = sorted(between - set(part))
        if outside:
            errors.append(
                f"PE '{pe}' fuses {', '.join(part)}, but {', '.join(outside)} lies between them, so that it and the PE "
                "would wait for each other; fuse it too or fuse less"
            )
    cycles = [] if errors else find_cycles(pe_dependencies(parts, graph.nodes))[0]
    return errors + [f"the PEs wait for each other: {' -> '.join(cycle)}; fuse them into one or fuse less" for cycle in cycles[:1]]


def _places(name: str, nodes: Sequence[Node]) -> str:
    return ", ".join(str(node.origin) for node in nodes if node.name == name)
