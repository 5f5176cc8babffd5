"""The placement ϑ of k replicas of every PE on nodes (LAAR Eq. 3): on different nodes and racks, balanced by load."""

from collections import Counter

from holdfast.documents.descriptor import Descriptor
from holdfast.errors import HoldfastError
from holdfast.planning.laar.rates import expected_work


def place(descriptor: Descriptor) -> dict[str, tuple[str, ...]]:
    """Return a node for each replica of each PE.

    PEs are placement heaviest first, each replica on the node with the least load per core. Replicas of one PE share a node
    only if there are fewer nodes than replicas, and a rack only if there are fewer racks. The load is that of the configuration
    with the most work. Ties go to the node with fewer replicas, then by name.
    """
    if not descriptor.nodes:
        raise HoldfastError(f"descriptor of '{descriptor.application}' names no nodes; add at least one under 'nodes'")
    works = [expected_work(descriptor, configuration) for configuration in descriptor.input_configurations]
    peak = max(works, key=lambda work: sum(work.values()))
    load = dict.fromkeys(descriptor.nodes, 0.0)
    count = Counter(dict.fromkeys(descriptor.nodes, 0))
    placement: dict[str, tuple[str, ...]] = {}
    for pe in sorted(descriptor.pes, key=lambda name: (-peak[name], name)):
        chosen: list[str] = []
        for _ in range(descriptor.replicas):
            on_node, on_rack = Counter(chosen), Counter(_rack(descriptor, node) for node in chosen)

            def crowding(node: str, on_node: Counter[str] = on_node, on_rack: Counter[str] = on_rack) -> tuple[int, int]:
                return on_node[node], on_rack[_rack(descriptor, node)]

            def fill(node: str, pe: str = pe) -> float:
                return (load[node] + peak[pe]) / descriptor.nodes[node].cores

            best = min(descriptor.nodes, key=lambda node: (*crowding(node), fill(node), count[node], node))
            chosen.append(best)
            load[best] += peak[pe]
            count[best] += 1
        placement[pe] = tuple(chosen)
    return {pe: placement[pe] for pe in descriptor.topological_order}


def _rack(descriptor: Descriptor, node: str) -> str:
    """Return the node's rack. A node without one counts as its own rack."""
    return descriptor.nodes[node].rack or f"node {node}"
