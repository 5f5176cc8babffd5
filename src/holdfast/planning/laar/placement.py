"""Placement ϑ of k replicas of every PE on nodes (LAAR Eq. 3): apart from each other, and balanced by load."""

from collections import Counter

from holdfast.documents.descriptor import Descriptor
from holdfast.errors import HoldfastError
from holdfast.planning.laar.rates import expected_work


def place(descriptor: Descriptor) -> dict[str, tuple[str, ...]]:
    """A node for each replica of each PE.

    Heaviest PE first, each replica on the node that is least loaded for its cores. Replicas of one PE share a node only
    when there are fewer nodes than replicas, and a rack only when there are fewer racks. Load is that of the
    configuration that asks for most. Ties go to the node with fewer replicas, then by name.
    """
    if not descriptor.nodes:
        raise HoldfastError(f"descriptor of '{descriptor.application}' names no nodes; add at least one under 'nodes'")
    works = [expected_work(descriptor, configuration) for configuration in descriptor.input_configurations]
    peak = max(works, key=lambda work: sum(work.values()))
    load = dict.fromkeys(descriptor.nodes, 0.0)
    count = Counter(dict.fromkeys(descriptor.nodes, 0))
    placed: dict[str, tuple[str, ...]] = {}
    for pe in sorted(descriptor.pes, key=lambda name: (-peak[name], name)):
        chosen: list[str] = []
        for _ in range(descriptor.replicas):
            on_node, on_rack = Counter(chosen), Counter(_rack(descriptor, node) for node in chosen)

            def crowding(node: str, on_node: Counter[str] = on_node, on_rack: Counter[str] = on_rack) -> tuple[int, int]:
                return on_node[node], on_rack[_rack(descriptor, node)]

            def fill(node: str, pe: str = pe) -> float:
                return (load[node] + peak[pe]) / descriptor.nodes[node].cores

            best = min(descriptor.nodes, key=lambda h: (*crowding(h), fill(h), count[h], h))
            chosen.append(best)
            load[best] += peak[pe]
            count[best] += 1
        placed[pe] = tuple(chosen)
    return {pe: placed[pe] for pe in descriptor.topological_order}


def _rack(descriptor: Descriptor, node: str) -> str:
    """The node's rack; a node without one is its own."""
    return descriptor.nodes[node].rack or f"node {node}"
