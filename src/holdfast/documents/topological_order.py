"""The order in which things that wait for each other can come."""

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush


def in_order(waits: Mapping[str, Collection[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names in topological order, ties by name, and those that a cycle keeps out of it.

    `waits` says for each name which others must come before it; names that are no keys of it are passed over.

    >>> in_order({"b": ["a"], "a": [], "c": ["d"], "d": ["c"]})
    (('a', 'b'), ('c', 'd'))
    """
    left = {name: {other for other in others if other in waits} for name, others in waits.items()}
    readers: dict[str, list[str]] = {name: [] for name in waits}
    for name, others in left.items():
        for other in others:
            readers[other].append(name)
    ready = [name for name, others in left.items() if not others]
    heapify(ready)
    order = []
    while ready:
        name = heappop(ready)
        order.append(name)
        for reader in readers[name]:
            left[reader].discard(name)
            if not left[reader]:
                heappush(ready, reader)
    return tuple(order), tuple(sorted(waits.keys() - set(order)))
