"""What fails as one and is protected as one: a source, or a PE with all the operators that are fused in it."""

from collections.abc import Mapping

from holdfast.app import Graph
from holdfast.assess.targets import Choice, Target, choose_targets, target_name
from holdfast.documents.topology import TaskOperator, Topology

Units = Mapping[str, Target]
"""The operators of every source and PE, by the name that they have together."""


def units_of(graph: Graph) -> dict[str, Target]:
    """Every source and PE, in the order of the graph.

    >>> from holdfast import App
    >>> app = App("shop")
    >>> orders = app.source("orders", "seq long, price double")
    >>> paid = app.operator(inputs=orders, name="paid", pe="till")(lambda orders: orders)
    >>> app.sink("out", app.operator(inputs=paid, name="total", pe="till")(lambda paid: paid))
    >>> units_of(app.graph())
    {'orders': ('orders',), 'paid+total': ('paid', 'total')}
    """
    parts: list[Target] = [*((source.name,) for source in graph.sources), *graph.pes.values()]
    return {target_name(part): part for part in sorted(parts, key=lambda part: graph.order.index(part[0]))}


def tasks_of(graph: Graph) -> dict[str, int]:
    """Into how many tasks each unit is divided: a replica of it is one of each of them."""
    tasks = {source.name: source.parallelism for source in graph.sources}
    tasks |= {target_name(part): max(graph.operator(name).parallelism for name in part) for part in graph.pes.values()}
    return {name: tasks[name] for name in units_of(graph)}


def choices_of(graph: Graph) -> tuple[Choice, ...]:
    """A verdict on every unit: whether it is let fail, or another in its stead.

    Operators of one PE fail together, so that they are a target of their own; so is what would behave like one of them alone.
    """
    units = units_of(graph)
    alone = {choice.name: choice for choice in choose_targets(graph)}
    found = []
    for name, part in units.items():
        if len(part) > 1:
            found.append(Choice(name, ("they run in one PE and fail together",)))
        elif alone[name].chosen or alone[name].like in units:
            found.append(alone[name])
        else:
            found.append(Choice(name, (f"{alone[name].like}, whose behaviour it shares, fails together with others",)))
    return tuple(found)


def whole_units(topology: Topology, graph: Graph) -> Topology:
    """The topology with every unit as one task: the rates of what leaves it stay, partitionings no longer matter."""
    units = units_of(graph)
    home = {member: name for name, part in units.items() for member in part}
    leaving = {name: float(topology.rates[span].sum()) for name, span in zip(topology.order, topology.spans, strict=True)}
    merged = {
        name: TaskOperator(
            inputs=dict.fromkeys((home[stream] for stream in graph.streams_into(part)), "one-to-one"),
            correlated=any(topology.operators[member].correlated for member in part),
            rate=sum(leaving[stream] for stream in graph.streams_out_of(part)),
        )
        for name, part in units.items()
    }
    return Topology(topology=topology.topology, operators=merged)
