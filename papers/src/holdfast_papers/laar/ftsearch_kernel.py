"""The compiled search of FT-Search: `step` advances a cursor and applies the prunings CPU, COMPL, COST and DOM.

`split` divides the rest of a search into two, for another worker.
"""

from __future__ import annotations

from holdfast.compiled import compiled, compiled_step
from holdfast_papers.arrays import Floats
from holdfast_papers.laar.ftsearch_tree import Cursor, Tree

PAUSED, FOUND, DONE = 0, 1, 2
PRUNINGS = ("CPU", "COMPL", "COST", "DOM")
TIE = 1e-9  # a strategy counts as cheaper only by this share of the cost without replication
_CPU, _COMPL, _COST, _DOM = range(4)
_DEPTH, _BASE, _NODES, _ENTERED = range(4)


@compiled_step
def _enter_level(tree: Tree, cursor: Cursor, v: int) -> None:
    """Enter level v: compute the tuples that arrive there, and order its slots by load, emptiest node first."""
    c, i = tree.configuration[v], tree.pe[v]
    first = v - i
    arrived, emitted = tree.external_in[v], tree.external_out[v]
    for e in range(tree.first_edge[i], tree.first_edge[i + 1]):
        out = cursor.out[first + tree.tail[e]]
        arrived += out
        emitted += tree.selectivity[e] * out
    cursor.arrived[v], cursor.emitted[v] = arrived, emitted
    cursor.next[v] = 0
    cursor.blocked[v, 0] = cursor.blocked[v, 1] = 0
    for s in range(tree.slots[v]):
        node = tree.slot_node[v, s]
        cursor.saved[v, s] = cursor.load[c, node]
        at = s
        while at > 0:
            other = cursor.order[v, at - 1]
            if cursor.saved[v, other] / tree.limit[tree.slot_node[v, other]] <= cursor.saved[v, s] / tree.limit[node]:
                break
            cursor.order[v, at] = other
            at -= 1
        cursor.order[v, at] = s


@compiled_step
def _propagate(tree: Tree, cursor: Cursor, v: int, change: int) -> None:
    """Propagate that the PE at level v is not full (change -1), or undo that (change 1).

    A PE whose predecessors are not full gains nothing from being full: the value full leaves its domain, which counts as a pruning,
    and so on for the PEs that read its output. A PE that reads a source always has input.
    """
    first, size = v - tree.pe[v], 1
    cursor.stack[0] = v
    while size:
        size -= 1
        i = tree.pe[cursor.stack[size]]
        for e in range(tree.first_reader[i], tree.first_reader[i + 1]):
            reader = first + tree.reader[e]
            cursor.feeds[reader] += change
            if cursor.feeds[reader] == (0 if change < 0 else 1):
                cursor.stack[size] = reader
                size += 1
                if change < 0:
                    cursor.pruned[_DOM] += 1
                    cursor.heights[_DOM] += len(tree.pe) - 1 - reader


@compiled
def _undo(tree: Tree, cursor: Cursor, v: int) -> None:
    """Undo the decision at level v."""
    if cursor.chosen[v] > 0 and cursor.feeds[v] > 0:
        _propagate(tree, cursor, v, 1)
    if tree.limited[v]:
        for s in range(tree.slots[v]):
            cursor.load[tree.configuration[v], tree.slot_node[v, s]] = cursor.saved[v, s]


@compiled_step
def _overloads(tree: Tree, cursor: Cursor, v: int, value: int) -> bool:
    """Return whether the value violates Eq. 11 on one of its nodes."""
    if value > 0:
        return bool(cursor.saved[v, value - 1] + tree.work[v] > tree.limit[tree.slot_node[v, value - 1]])
    for s in range(tree.slots[v]):
        if cursor.saved[v, s] + tree.work[v] * tree.slot_count[v, s] > tree.limit[tree.slot_node[v, s]]:
            return True
    return False


@compiled_step
def _place_replicas(tree: Tree, cursor: Cursor, v: int, value: int) -> None:
    """Add the load of the replicas that the value activates at level v to their nodes."""
    c = tree.configuration[v]
    if value > 0:
        cursor.load[c, tree.slot_node[v, value - 1]] = cursor.saved[v, value - 1] + tree.work[v]
        return
    for s in range(tree.slots[v]):
        cursor.load[c, tree.slot_node[v, s]] = cursor.saved[v, s] + tree.work[v] * tree.slot_count[v, s]


@compiled_step
def _return_to_level(tree: Tree, cursor: Cursor, v: int) -> None:
    """Return to level v from below, and skip slots that cannot differ from the one just tried.

    A lone replica has the same cost and completeness on every node. If no node's load pruned anything below the slot just
    tried, the search saw all completions there, and the level's other slots would only repeat them.
    """
    blocked = cursor.blocked[v + 1, 0] | cursor.blocked[v + 1, 1]
    if cursor.chosen[v] == 0:
        cursor.blocked[v, 0] |= blocked
    elif blocked or not tree.skip_slots:
        cursor.blocked[v, 1] |= blocked
    else:
        cursor.blocked[v, 1] = 0
        if tree.full_first[v]:
            cursor.next[v] = tree.slots[v] + 1
        elif cursor.next[v] < tree.slots[v]:
            cursor.next[v] = tree.slots[v]


@compiled
def step(tree: Tree, cursor: Cursor, best: Floats, budget: int) -> int:
    """Continue the search for at most `budget` tree nodes, or until it finds a strategy cheaper than best[0].

    Returns PAUSED, FOUND or DONE. A tree node is one value tried at one level. Another thread may lower `best` meanwhile.
    """
    levels = len(tree.pe)
    if cursor.position[_ENTERED] == 0:
        cursor.position[_ENTERED] = 1
        _enter_level(tree, cursor, 0)
    v, base, end = cursor.position[_DEPTH], cursor.position[_BASE], cursor.position[_NODES] + budget
    while True:
        if cursor.next[v] > tree.slots[v]:
            v -= 1
            if v < base:
                cursor.position[_DEPTH] = v
                return DONE
            _undo(tree, cursor, v)
            _return_to_level(tree, cursor, v)
            continue
        if cursor.position[_NODES] >= end:
            cursor.position[_DEPTH] = v
            return PAUSED
        turn = cursor.next[v]
        cursor.next[v] += 1
        if tree.full_first[v]:
            value = 0 if turn == 0 else 1 + cursor.order[v, turn - 1]
        else:
            value = 0 if turn == tree.slots[v] else 1 + cursor.order[v, turn]
        if value == 0 and cursor.feeds[v] == 0:  # DOM removed this value
            continue
        cursor.position[_NODES] += 1
        alone = 1 if value > 0 else 0

        height = levels - 1 - v
        total = 0.0 if tree.pe[v] == 0 else cursor.total[v]
        # CPU: the value overloads a node (Eq. 11), or the rest of the configuration exceeds the total capacity.
        if tree.limited[v]:
            total += tree.work[v] if alone else tree.full_work[v]
            crowded = total + tree.rest[v] > tree.root[3]
            if crowded or _overloads(tree, cursor, v, value):
                cursor.pruned[_CPU] += 1
                cursor.heights[_CPU] += height
                if not crowded:
                    cursor.blocked[v, alone] = 1
                continue
        ceiling, spent = cursor.ceiling[v], cursor.spent[v]
        if alone:
            ceiling -= cursor.arrived[v] + cursor.emitted[v] * tree.worth[v]
        else:
            spent += tree.price[v]
        ceiling_bound = cursor.ceiling_bound[v] - tree.ceiling_penalty[v, alone]
        # COMPL: no completion reaches the required IC.
        if ceiling < tree.root[2] or ceiling_bound < tree.root[2]:
            cursor.pruned[_COMPL] += 1
            cursor.heights[_COMPL] += height
            continue
        price_bound = cursor.price_bound[v] + tree.price_penalty[v, alone]
        # COST: no completion is cheaper than the best strategy so far.
        if spent >= best[0] - TIE or price_bound >= best[0] - TIE:
            cursor.pruned[_COST] += 1
            cursor.heights[_COST] += height
            continue

        cursor.chosen[v] = value
        cursor.ceiling[v + 1], cursor.spent[v + 1] = ceiling, spent
        cursor.ceiling_bound[v + 1], cursor.price_bound[v + 1] = ceiling_bound, price_bound
        cursor.total[v + 1] = total
        if v == levels - 1:
            cursor.position[_DEPTH] = v
            return FOUND
        if tree.limited[v]:
            _place_replicas(tree, cursor, v, value)
        if alone and cursor.feeds[v] > 0:  # else DOM has propagated it already
            _propagate(tree, cursor, v, -1)
        cursor.out[v] = 0.0 if alone else cursor.emitted[v]
        v += 1
        _enter_level(tree, cursor, v)


def split(tree: Tree, cursor: Cursor) -> Cursor | None:
    """Move the untried values of the shallowest open level to a new cursor, or return None if there are none."""
    depth, base = int(cursor.position[_DEPTH]), int(cursor.position[_BASE])
    level = next((v for v in range(base, depth) if cursor.next[v] <= tree.slots[v]), None)
    if level is None:
        return None
    other = Cursor._make(array.copy() for array in cursor)
    for v in range(depth - 1, level - 1, -1):
        _undo(tree, other, v)
    other.position[:] = (level, level, 0, 1)
    other.pruned[:] = 0
    other.heights[:] = 0
    cursor.next[level] = tree.slots[level] + 1
    cursor.position[_BASE] = level + 1
    # This cursor does not learn the other one's results for these levels, so it must not skip slots there.
    cursor.blocked[: level + 1] = 1
    return other
