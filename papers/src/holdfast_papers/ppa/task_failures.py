"""An application some of whose tasks are dead: what the others still make of a whole trace (PPA section VI-B)."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.app import Graph, Operator, Sink, Source
from holdfast.engine import Injection, run_batch, task_of
from holdfast.errors import HoldfastError


def run_without(
    graph: Graph, sources: Mapping[str, DataFrame], failed: Collection[str], *, epochs: tuple[int, int]
) -> dict[str, DataFrame]:
    """Every stream of the application over a whole trace in which the failed tasks, named as `vwap/0`, make nothing.

    A dead task reads nothing, so what would reach it is taken away; what a dead source task would have sent is missing on every
    edge that leaves the source. Raises HoldfastError for a task that the application does not have.
    """
    dead = _by_node(graph, failed)
    injections: dict[tuple[str, str], Injection] = {}
    for operator in graph.operators:
        for stream in operator.inputs:
            upstream = graph.nodes[stream]
            gone = [(destination(graph, stream, operator.name), dead[operator.name])] if operator.name in dead else []
            if isinstance(upstream, Source) and stream in dead:
                gone.append((producer(graph, stream), dead[stream]))
            if gone:
                injections[stream, operator.name] = _without(gone)
    return run_batch(graph, sources, epochs=epochs, injections=injections)


def destination(graph: Graph, stream: str, reader: str) -> Column:
    """The task of the reader, from 0, that a row of a stream goes to (PPA section II-A)."""
    operator, upstream = graph.operator(reader), graph.nodes[stream]
    assert not isinstance(upstream, Sink)
    above, below = upstream.parallelism, operator.parallelism
    if below == 1:
        return F.lit(0)
    kind = graph.partitioning(stream, reader)
    if kind == "one-to-one":
        return producer(graph, stream)
    if kind == "merge":
        return _looked_up(producer(graph, stream), (task * below // above for task in range(above)))
    if kind == "split":
        share = below // above
        return producer(graph, stream) * share + task_of(operator.key, share)
    return task_of(operator.key, below)


def producer(graph: Graph, stream: str) -> Column:
    """The task of its maker, from 0, that a row of a stream comes from: the one that the row it was made of went to.

    The columns that divide the maker's input must be in its output too.
    """
    node = graph.nodes[stream]
    if isinstance(node, Source):
        return task_of(node.key, node.parallelism) if node.parallelism > 1 else F.lit(0)
    assert isinstance(node, Operator)
    return destination(graph, node.inputs[0], stream)


def _by_node(graph: Graph, failed: Iterable[str]) -> dict[str, list[int]]:
    counts = {source.name: source.parallelism for source in graph.sources}
    counts |= {operator.name: operator.parallelism for operator in graph.operators}
    tasks = {f"{name}/{n}": (name, n) for name, count in counts.items() for n in range(count)}
    unknown = sorted(set(failed) - tasks.keys())
    if unknown:
        raise HoldfastError(f"task '{unknown[0]}' cannot fail: there is none; tasks are: {', '.join(sorted(tasks))}")
    found: dict[str, list[int]] = {}
    for task in sorted(failed):
        name, number = tasks[task]
        found.setdefault(name, []).append(number)
    return found


def _without(gone: list[tuple[Column, list[int]]]) -> Injection:
    def alive(frame: DataFrame) -> DataFrame:
        for task, dead in gone:
            frame = frame.where(~task.isin(dead))
        return frame

    return alive


def _looked_up(task: Column, groups: Iterable[int]) -> Column:
    pairs = chain.from_iterable((F.lit(task), F.lit(group)) for task, group in enumerate(groups))
    return F.create_map(*pairs)[task]
