"""The cycles among things that wait for each other."""

from collections.abc import Collection, Mapping
from itertools import islice

import rustworkx as rx

MOST_TOLD = 8  # a graph can have more cycles than could ever be listed


def cycles_in(waits: Mapping[str, Collection[str]]) -> tuple[list[list[str]], bool]:
    """The cycles, each along the way that tuples go from its first name by the alphabet round to that name again; and whether
    there are more of them than are told.

    `waits` says for each name which others must come before it; names that are no keys of it are passed over. Short cycles
    stand first, ties by name.

    >>> cycles_in({"a": ["a"], "b": ["c", "s"], "c": ["d"], "d": ["b"], "e": ["d"]})
    ([['a', 'a'], ['b', 'd', 'c', 'b']], False)
    """
    names = sorted(waits)
    index = {name: i for i, name in enumerate(names)}
    graph: rx.PyDiGraph[str, None] = rx.PyDiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from([(index[up], index[name], None) for name in names for up in sorted(waits[name]) if up in index])
    # Those that read themselves are told first: they may not fall to the limit.
    alone = [name for name in names if name in waits[name]]
    graph.remove_edges_from([(index[name], index[name]) for name in alone])
    found = [[name] for name in alone] + [[names[i] for i in path] for path in islice(rx.simple_cycles(graph), MOST_TOLD + 1)]
    turned = [path[at:] + path[: at + 1] for path in found for at in [path.index(min(path))]]
    told = max(MOST_TOLD, len(alone))
    return sorted(turned[:told], key=lambda path: (len(path), path)), len(turned) > told
