"""Protection units: a source, or a PE with all its fused operators. A unit fails and is protected as a whole."""

from collections.abc import Mapping

from holdfast.app import Graph
from holdfast.assess.targets import Choice, Target, choose_targets, target_name
from holdfast.documents.topology import TaskOperator, Topology

Units = Mapping[str, Target]
"""The operators of every unit, by unit name."""


def units_of(graph: Graph) -> dict[str, Target]:
    """Return every source and PE with its operators, in graph order.

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
    """Return the number of tasks of each unit. Protecting a unit takes a replica of each task."""
    tasks = {source.name: source.parallelism for source in graph.sources}
    tasks |= {target_name(part): max(graph.operator(name).parallelism for name in part) for part in graph.pes.values()}
    return {name: tasks[name] for name in units_of(graph)}


def choices_of(graph: Graph) -> tuple[Choice, ...]:
    """Return for every unit whether trials inject into it, or which unit it behaves like.

    A PE of several operators is always a target, because they fail together. So is an operator that behaves like a member of such
    a PE.
    """
    units = units_of(graph)
    alone = {choice.name: choice for choice in choose_targets(graph)}
    choices = []
    for name, part in units.items():
        if len(part) > 1:
            choices.append(Choice(name, ("they run in one PE and fail together",)))
        elif alone[name].chosen or alone[name].like in units:
            choices.append(alone[name])
        else:
            choices.append(Choice(name, (f"{alone[name].like}, whose behaviour it shares, fails together with others",)))
    return tuple(choices)


def whole_units(topology: Topology, graph: Graph) -> Topology:
    """Return the topology with every unit as one task and the same output rates. Partitioning is dropped."""
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
