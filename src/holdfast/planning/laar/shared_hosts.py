"""Replicas of one PE that share a host, and so are lost together: what a promise of completeness does not show."""

from collections import Counter
from collections.abc import Iterator

from holdfast.planning.laar.failure_models import FailureModel, HostCrash
from holdfast.planning.laar.instance import Instance

MOST_LISTED = 6


def shared_hosts(instance: Instance, *, failure: FailureModel | None = None) -> Iterator[str]:
    """The PEs that have several replicas on one host, in words: one sentence for each host and number of replicas.

    Only a failure model of host crashes counts with that; under others the sentence says that it is not counted.
    """
    replicas = instance.shape[2]
    together: dict[tuple[int, int], list[str]] = {}
    for pe, hosts in zip(instance.pes, instance.host_of, strict=True):
        for host, count in Counter(hosts.tolist()).items():
            if count > 1:
                together.setdefault((host, count), []).append(pe)
    uncounted = "" if isinstance(failure, HostCrash) else ", which the internal completeness told here does not count"
    hosts_there = f"{len(instance.hosts)} host{'' if len(instance.hosts) == 1 else 's'}"
    for (host, count), pes in sorted(together.items()):
        many = f"all {replicas}" if count == replicas else f"{count} of the {replicas}"
        listed = ", ".join(pes[:MOST_LISTED]) + (f" and {len(pes) - MOST_LISTED} more" if len(pes) > MOST_LISTED else "")
        yield (
            f"{many} replicas of {listed} are on host '{instance.hosts[host]}' and would be lost together{uncounted}: "
            f"{hosts_there} cannot hold {replicas} replicas apart; add hosts, or lower 'replicas'"
        )
