"""Replicas of one PE that share a node, and so are lost together: what a promise of completeness does not show."""

from collections import Counter
from collections.abc import Iterator

from holdfast.planning.laar.failure_models import FailureModel, NodeCrash
from holdfast.planning.laar.instance import Instance

MOST_LISTED = 6


def shared_nodes(instance: Instance, *, failure: FailureModel | None = None) -> Iterator[str]:
    """The PEs that have several replicas on one node, in words: one sentence for each node and number of replicas.

    Only a failure model of node crashes counts with that; under others the sentence says that it is not counted.
    """
    replicas = instance.shape[2]
    together: dict[tuple[int, int], list[str]] = {}
    for pe, nodes in zip(instance.pes, instance.node_of, strict=True):
        for node, count in Counter(nodes.tolist()).items():
            if count > 1:
                together.setdefault((node, count), []).append(pe)
    uncounted = "" if isinstance(failure, NodeCrash) else ", which the internal completeness told here does not count"
    nodes_there = f"{len(instance.nodes)} node{'' if len(instance.nodes) == 1 else 's'}"
    for (node, count), pes in sorted(together.items()):
        many = f"all {replicas}" if count == replicas else f"{count} of the {replicas}"
        listed = ", ".join(pes[:MOST_LISTED]) + (f" and {len(pes) - MOST_LISTED} more" if len(pes) > MOST_LISTED else "")
        yield (
            f"{many} replicas of {listed} are on node '{instance.nodes[node]}' and would be lost together{uncounted}: "
            f"{nodes_there} cannot hold {replicas} replicas apart; add nodes, or lower 'replicas'"
        )
