"""Runs an application over a whole trace while some of its tasks are dead (PPA section VI-B)."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.app import Graph, Operator, Sink, Source
from holdfast.engine import Injection, build_whole_trace, task_of
from holdfast.errors import HoldfastError


def run_without(
    graph: Graph, sources: Mapping[str, DataFrame], failed: Collection[str], *, epochs: tuple[int, int]
) -> dict[str, DataFrame]:
    """Return every stream of the application over a whole trace while the failed tasks, such as `vwap/0`, produce nothing.

    Rows that would reach a dead task are removed. Rows of a dead source task are removed from every edge that leaves the source.
    Raises HoldfastError for a task that the application does not have.
    """
    dead = _by_node(graph, failed)
    injections: dict[tuple[str, str], Injection] = {}
    for operator in graph.operators:
        for stream in operator.inputs:
            upstream = graph.nodes[stream]
            dead_tasks = [(destination(graph, stream, operator.name), dead[operator.name])] if operator.name in dead else []
            if isinstance(upstream, Source) and stream in dead:
                dead_tasks.append((producer(graph, stream), dead[stream]))
            if dead_tasks:
                injections[stream, operator.name] = _without(dead_tasks)
    return build_whole_trace(graph, sources, epochs=epochs, injections=injections)


def destination(graph: Graph, stream: str, reader: str) -> Column:
    """Return the number of the reader's task that a row of a stream goes to (PPA section II-A)."""
    operator, upstream = graph.operator(reader), graph.nodes[stream]
    assert not isinstance(upstream, Sink)
    above, below = upstream.parallelism, operator.parallelism
    if below == 1:
        return F.lit(0)
    kind = graph.partitioning(stream, reader)
    if kind == "one-to-one":
        return producer(graph, stream)
    if kind == "merge":
        return _look_up(producer(graph, stream), (task * below // above for task in range(above)))
    if kind == "split":
        share = below // above
        return producer(graph, stream) * share + task_of(operator.key, share)
    return task_of(operator.key, below)


def producer(graph: Graph, stream: str) -> Column:
    """Return the number of the task that produced a row of a stream: the one that its input row went to.

    The columns that divide the producer's input must be in its output too.
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
        raise HoldfastError(f"task '{unknown[0]}' does not exist; tasks are: {', '.join(sorted(tasks))}")
    numbers: dict[str, list[int]] = {}
    for task in sorted(failed):
        name, number = tasks[task]
        numbers.setdefault(name, []).append(number)
    return numbers


def _without(dead_tasks: list[tuple[Column, list[int]]]) -> Injection:
    def alive(frame: DataFrame) -> DataFrame:
        for task, dead in dead_tasks:
            frame = frame.where(~task.isin(dead))
        return frame

    return alive


def _look_up(task: Column, groups: Iterable[int]) -> Column:
    pairs = chain.from_iterable((F.lit(task), F.lit(group)) for task, group in enumerate(groups))
    return F.create_map(*pairs)[task]
