"""Derive the task topology of an application for the PPA planners."""

from collections.abc import Mapping, Sequence

from holdfast.app.graph import Graph
from holdfast.documents.topology import TaskOperator, Topology


def topology_of(
    graph: Graph,
    *,
    name: str,
    rates: Mapping[str, float] | None = None,
    shares: Mapping[str, Sequence[float]] | None = None,
) -> Topology:
    """Return the topology of sources and operators with their partitionings.

    `rates` are the output rates of sources and operators in tuples per second, 1 by default. `shares` are the shares of an
    operator's tasks in input that is divided by key, equal by default.

    >>> from holdfast import App
    >>> app = App("shop")
    >>> orders = app.source("orders", "seq long, shop string", key="shop", parallelism=2)
    >>> totals = app.operator(inputs=orders, key="shop", parallelism=2, name="totals")(lambda orders: orders)
    >>> app.sink("out", totals)
    >>> topology_of(app.graph(), name="shop").tasks
    ('orders/0', 'orders/1', 'totals/0', 'totals/1')
    """
    leaving, divided = rates or {}, shares or {}
    operators = {
        source.name: TaskOperator(
            parallelism=source.parallelism, rate=leaving.get(source.name, 1.0), shares=_tuple(divided.get(source.name))
        )
        for source in graph.sources
    }
    for operator in graph.operators:
        inputs = {stream: graph.partitioning(stream, operator.name) for stream in operator.inputs}
        operators[operator.name] = TaskOperator(
            parallelism=operator.parallelism,
            inputs=inputs,
            correlated=operator.correlated,
            rate=leaving.get(operator.name),
            shares=_tuple(divided.get(operator.name)),
        )
    return Topology(topology=name, operators=operators)


def _tuple(shares: Sequence[float] | None) -> tuple[float, ...] | None:
    return tuple(shares) if shares is not None else None
