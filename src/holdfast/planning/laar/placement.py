"""Placement ϑ of k replicas of every PE on hosts (LAAR Eq. 3): apart from each other, and balanced by load."""

from collections import Counter

from holdfast.documents.descriptor import Descriptor
from holdfast.errors import HoldfastError
from holdfast.planning.laar.rates import expected_work


def place(descriptor: Descriptor) -> dict[str, tuple[str, ...]]:
    """A host for each replica of each PE.

    Heaviest PE first, each replica on the host that is least loaded for its cores. Replicas of one PE share a host only
    when there are fewer hosts than replicas, and a rack only when there are fewer racks. Load is that of the
    configuration that asks for most. Ties go to the host with fewer replicas, then by name.
    """
    if not descriptor.hosts:
        raise HoldfastError(f"descriptor of '{descriptor.application}' names no hosts; add at least one under 'hosts'")
    works = [expected_work(descriptor, configuration) for configuration in descriptor.input_configurations]
    peak = max(works, key=lambda work: sum(work.values()))
    load = dict.fromkeys(descriptor.hosts, 0.0)
    count = Counter(dict.fromkeys(descriptor.hosts, 0))
    placed: dict[str, tuple[str, ...]] = {}
    for pe in sorted(descriptor.pes, key=lambda name: (-peak[name], name)):
        chosen: list[str] = []
        for _ in range(descriptor.replicas):
            on_host, on_rack = Counter(chosen), Counter(_rack(descriptor, host) for host in chosen)

            def crowding(host: str, on_host: Counter[str] = on_host, on_rack: Counter[str] = on_rack) -> tuple[int, int]:
                return on_host[host], on_rack[_rack(descriptor, host)]

            def fill(host: str, pe: str = pe) -> float:
                return (load[host] + peak[pe]) / descriptor.hosts[host].cores

            best = min(descriptor.hosts, key=lambda h: (*crowding(h), fill(h), count[h], h))
            chosen.append(best)
            load[best] += peak[pe]
            count[best] += 1
        placed[pe] = tuple(chosen)
    return {pe: placed[pe] for pe in descriptor.topological_order}


def _rack(descriptor: Descriptor, host: str) -> str:
    """The host's rack; a host without one is its own."""
    return descriptor.hosts[host].rack or f"host {host}"
