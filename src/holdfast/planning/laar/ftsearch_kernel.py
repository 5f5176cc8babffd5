"""The compiled walk through FT-Search's tree: it goes on, pauses, and can be split in two."""

from __future__ import annotations

from holdfast.compiled import compiled, compiled_step
from holdfast.planning.laar.ftsearch_tree import Trail, Tree
from holdfast.planning.laar.instance import Floats

PAUSED, FOUND, DONE = 0, 1, 2
PRUNINGS = ("CPU", "COMPL", "COST", "DOM")
TIE = 1e-9  # a cheaper strategy must be cheaper by this share of the cost without replication
_CPU, _COMPL, _COST, _DOM = range(4)
_DEPTH, _BASE, _NODES, _ENTERED = range(4)


@compiled_step
def _enter(tree: Tree, trail: Trail, v: int) -> None:
    """Begin level v: what arrives there, and its slots, emptiest node first."""
    c, i = tree.configuration[v], tree.pe[v]
    first = v - i
    arrived, emitted = tree.external_in[v], tree.external_out[v]
    for e in range(tree.first_edge[i], tree.first_edge[i + 1]):
        out = trail.out[first + tree.tail[e]]
        arrived += out
        emitted += tree.selectivity[e] * out
    trail.arrived[v], trail.emitted[v] = arrived, emitted
    trail.next[v] = 0
    trail.blocked[v, 0] = trail.blocked[v, 1] = 0
    for s in range(tree.slots[v]):
        node = tree.slot_node[v, s]
        trail.saved[v, s] = trail.load[c, node]
        at = s
        while at > 0:
            other = trail.order[v, at - 1]
            if trail.saved[v, other] / tree.limit[tree.slot_node[v, other]] <= trail.saved[v, s] / tree.limit[node]:
                break
            trail.order[v, at] = other
            at -= 1
        trail.order[v, at] = s


@compiled
def _back(tree: Tree, trail: Trail, v: int) -> None:
    """Undo the decision of level v."""
    if tree.limited[v]:
        for s in range(tree.slots[v]):
            trail.load[tree.configuration[v], tree.slot_node[v, s]] = trail.saved[v, s]


@compiled_step
def _overloads(tree: Tree, trail: Trail, v: int, value: int) -> bool:
    """Whether the value breaks Eq. 11 on one of its nodes."""
    if value > 0:
        return bool(trail.saved[v, value - 1] + tree.work[v] > tree.limit[tree.slot_node[v, value - 1]])
    for s in range(tree.slots[v]):
        if trail.saved[v, s] + tree.work[v] * tree.slot_count[v, s] > tree.limit[tree.slot_node[v, s]]:
            return True
    return False


@compiled_step
def _put(tree: Tree, trail: Trail, v: int, value: int) -> None:
    """Load the nodes of level v with the replicas that the value activates."""
    c = tree.configuration[v]
    if value > 0:
        trail.load[c, tree.slot_node[v, value - 1]] = trail.saved[v, value - 1] + tree.work[v]
        return
    for s in range(tree.slots[v]):
        trail.load[c, tree.slot_node[v, s]] = trail.saved[v, s] + tree.work[v] * tree.slot_count[v, s]


@compiled_step
def _leave(tree: Tree, trail: Trail, v: int) -> None:
    """Come back to level v from below.

    Alone on one node or on another, a PE costs and brings the same. If no node's load cut anything below the slot that was
    tried, then all ways to go on were seen there, and the level's other slots would show the same again.
    """
    blocked = trail.blocked[v + 1, 0] | trail.blocked[v + 1, 1]
    if trail.chosen[v] == 0:
        trail.blocked[v, 0] |= blocked
    elif blocked or not tree.skip_slots:
        trail.blocked[v, 1] |= blocked
    else:
        trail.blocked[v, 1] = 0
        if tree.full_first[v]:
            trail.next[v] = tree.slots[v] + 1
        elif trail.next[v] < tree.slots[v]:
            trail.next[v] = tree.slots[v]


@compiled
def step(tree: Tree, trail: Trail, best: Floats, budget: int) -> int:
    """Search on for at most `budget` nodes, or until a strategy cheaper than best[0] is found.

    Returns PAUSED, FOUND or DONE. A node is one value tried at one level. Another thread may lower `best` meanwhile.
    """
    levels = len(tree.pe)
    if trail.cursor[_ENTERED] == 0:
        trail.cursor[_ENTERED] = 1
        _enter(tree, trail, 0)
    v, base, end = trail.cursor[_DEPTH], trail.cursor[_BASE], trail.cursor[_NODES] + budget
    while True:
        if trail.next[v] > tree.slots[v]:
            v -= 1
            if v < base:
                trail.cursor[_DEPTH] = v
                return DONE
            _back(tree, trail, v)
            _leave(tree, trail, v)
            continue
        if trail.cursor[_NODES] >= end:
            trail.cursor[_DEPTH] = v
            return PAUSED
        trail.cursor[_NODES] += 1
        turn = trail.next[v]
        trail.next[v] += 1
        if tree.full_first[v]:
            value = 0 if turn == 0 else 1 + trail.order[v, turn - 1]
        else:
            value = 0 if turn == tree.slots[v] else 1 + trail.order[v, turn]
        alone = 1 if value > 0 else 0

        height = levels - 1 - v
        if value == 0 and trail.arrived[v] == 0.0:
            trail.pruned[_DOM] += 1
            trail.heights[_DOM] += height
            continue
        total = 0.0 if tree.pe[v] == 0 else trail.total[v]
        if tree.limited[v]:
            total += tree.work[v] if alone else tree.full_work[v]
            crowded = total + tree.rest[v] > tree.root[3]
            if crowded or _overloads(tree, trail, v, value):
                trail.pruned[_CPU] += 1
                trail.heights[_CPU] += height
                if not crowded:
                    trail.blocked[v, alone] = 1
                continue
        ceiling, spent = trail.ceiling[v], trail.spent[v]
        if alone:
            ceiling -= trail.arrived[v] + trail.emitted[v] * tree.worth[v]
        else:
            spent += tree.price[v]
        ceiling_bound = trail.ceiling_bound[v] - tree.ceiling_penalty[v, alone]
        if ceiling < tree.root[2] or ceiling_bound < tree.root[2]:
            trail.pruned[_COMPL] += 1
            trail.heights[_COMPL] += height
            continue
        price_bound = trail.price_bound[v] + tree.price_penalty[v, alone]
        if spent >= best[0] - TIE or price_bound >= best[0] - TIE:
            trail.pruned[_COST] += 1
            trail.heights[_COST] += height
            continue

        trail.chosen[v] = value
        trail.ceiling[v + 1], trail.spent[v + 1] = ceiling, spent
        trail.ceiling_bound[v + 1], trail.price_bound[v + 1] = ceiling_bound, price_bound
        trail.total[v + 1] = total
        if v == levels - 1:
            trail.cursor[_DEPTH] = v
            return FOUND
        if tree.limited[v]:
            _put(tree, trail, v, value)
        trail.out[v] = 0.0 if alone else trail.emitted[v]
        v += 1
        _enter(tree, trail, v)


def split(tree: Tree, trail: Trail) -> Trail | None:
    """Take the untried values of the shallowest open level out of a trail, as a trail of their own."""
    depth, base = int(trail.cursor[_DEPTH]), int(trail.cursor[_BASE])
    level = next((v for v in range(base, depth) if trail.next[v] <= tree.slots[v]), None)
    if level is None:
        return None
    taken = Trail._make(array.copy() for array in trail)
    for v in range(depth - 1, level - 1, -1):
        _back(tree, taken, v)
    taken.cursor[:] = (level, level, 0, 1)
    taken.pruned[:] = 0
    taken.heights[:] = 0
    trail.next[level] = tree.slots[level] + 1
    trail.cursor[_BASE] = level + 1
    # What another finds out about these levels stays unknown here: count them as cut by a node's load.
    trail.blocked[: level + 1] = 1
    return taken
