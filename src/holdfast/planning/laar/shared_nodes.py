"""Warnings about replicas of one PE that share a node and would be lost together."""

from collections import Counter
from collections.abc import Iterator

from holdfast.planning.laar.failure_models import FailureModel, NodeCrash
from holdfast.planning.laar.instance import Instance

MOST_LISTED = 6


def shared_nodes(instance: Instance, *, failure: FailureModel | None = None) -> Iterator[str]:
    """Yield a sentence for each node that has several replicas of the same PE.

    Only the model of node crashes accounts for that. Under other models the sentence says that IC does not account for it.
    """
    replicas = instance.shape[2]
    together: dict[tuple[int, int], list[str]] = {}
    for pe, nodes in zip(instance.pes, instance.node_of, strict=True):
        for node, count in Counter(nodes.tolist()).items():
            if count > 1:
                together.setdefault((node, count), []).append(pe)
    uncounted = "" if isinstance(failure, NodeCrash) else ", which the internal completeness does not account for"
    node_count = f"{len(instance.nodes)} node{'' if len(instance.nodes) == 1 else 's'}"
    for (node, count), pes in sorted(together.items()):
        many = f"all {replicas}" if count == replicas else f"{count} of the {replicas}"
        listed = ", ".join(pes[:MOST_LISTED]) + (f" and {len(pes) - MOST_LISTED} more" if len(pes) > MOST_LISTED else "")
        yield (
            f"{many} replicas of {listed} are on node '{instance.nodes[node]}' and would be lost together{uncounted}: "
            f"{node_count} cannot hold {replicas} replicas apart; add nodes, or lower 'replicas'"
        )
