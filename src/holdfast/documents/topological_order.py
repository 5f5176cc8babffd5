"""Sort names by what they depend on, and find the cycles that prevent it.

Both functions take a mapping from each name to the names that must come before it. Names that are not keys are ignored.
"""

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice

MAX_CYCLES = 8  # reported for one graph: a graph can have too many cycles to list

Dependencies = Mapping[str, Collection[str]]


def sort_topologically(dependencies: Dependencies) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names in topological order, ties by name, and the names that have no place in it because of a cycle.

    >>> sort_topologically({"b": ["a"], "a": [], "c": ["d"], "d": ["c"]})
    (('a', 'b'), ('c', 'd'))
    """
    missing = {name: {other for other in others if other in dependencies} for name, others in dependencies.items()}
    dependents: dict[str, list[str]] = {name: [] for name in dependencies}
    for name, others in missing.items():
        for other in others:
            dependents[other].append(name)
    ready = [name for name, others in missing.items() if not others]
    heapify(ready)
    order = []
    while ready:
        name = heappop(ready)
        order.append(name)
        for dependent in dependents[name]:
            missing[dependent].discard(name)
            if not missing[dependent]:
                heappush(ready, dependent)
    return tuple(order), tuple(sorted(dependencies.keys() - set(order)))


def find_cycles(dependencies: Dependencies) -> tuple[list[list[str]], bool]:
    """Return the cycles, shortest first, ties by name, and whether there are more than those.

    Each cycle follows the flow of tuples and starts and ends with its alphabetically first name.

    >>> find_cycles({"a": ["a"], "b": ["c", "s"], "c": ["d"], "d": ["b"], "e": ["d"]})
    ([['a', 'a'], ['b', 'd', 'c', 'b']], False)
    """
    import rustworkx as rx  # imported late: an orchestrator that reads no cyclic graph does not need it

    names = sorted(dependencies)
    index = {name: i for i, name in enumerate(names)}
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from([(index[up], index[name], None) for name in names for up in sorted(dependencies[name]) if up in index])
    loops = [name for name in names if name in dependencies[name]]  # always reported: the limit does not apply to them
    graph.remove_edges_from([(index[name], index[name]) for name in loops])
    longer = islice(rx.simple_cycles(graph), MAX_CYCLES + 1)
    cycles = [[name] for name in loops] + [[names[i] for i in path] for path in longer]
    rotated = [path[at:] + path[: at + 1] for path in cycles for at in [path.index(min(path))]]
    limit = max(MAX_CYCLES, len(loops))
    return sorted(rotated[:limit], key=lambda path: (len(path), path)), len(rotated) > limit
