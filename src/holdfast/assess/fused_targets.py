"""PEs as targets: fused operators fail together (DEBS'11, section 7, limitation 2)."""

from collections.abc import Iterable

from holdfast.app import Graph
from holdfast.assess.injection import injected_edges
from holdfast.assess.targets import Choice, Target, target_name
from holdfast.documents.fault import Side


def fused_targets(graph: Graph, targets: Iterable[Target], *, side: Side = "input") -> dict[Target, Choice]:
    """Return the PEs of several operators whose failure differs from the failure of every given target, each with the reason."""
    edges_of_targets = [injected_edges(graph, target, side) for target in targets]
    choices: dict[Target, Choice] = {}
    for pe, operators in graph.pes.items():
        edges = injected_edges(graph, operators, side)
        if len(operators) > 1 and edges not in edges_of_targets:
            edges_of_targets.append(edges)
            choices[operators] = Choice(target_name(operators), (f"they run in PE '{pe}' and fail together",))
    return choices
