"""The search tree of FT-Search and the compiled walk through it.

A level of the tree is one (configuration, PE): configurations by the work they make, most first, and in each the PEs in
topological order (LAAR section 4.5). A value is *full* (all replicas active) or a slot: alone on one of the PE's hosts. Rates
are kept as shares of BIC, costs as shares of the cost without replication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from holdfast.plan.laar.dual import Penalties
from holdfast.plan.laar.instance import IC_TOLERANCE, Active, Floats, Instance, Ints
from holdfast.plan.laar.programme import fits_whole

PAUSED, FOUND, DONE = 0, 1, 2
PRUNINGS = ("CPU", "COMPL", "COST", "DOM")
_CPU, _COMPL, _COST, _DOM = range(4)
_DEPTH, _BASE, _NODES = range(3)
TIE = 1e-9  # a cheaper strategy must be cheaper by this share of the cost without replication


class Tree(NamedTuple):
    """What does not change during a search. Arrays are indexed by level, unless said otherwise."""

    configuration: Ints
    pe: Ints
    first_edge: Ints  # by PE
    tail: Ints  # by edge: the PE it comes from
    selectivity: Floats  # by edge
    external_in: Floats
    external_out: Floats
    worth: Floats  # what one tuple put out here brings downstream, as long as all is full there
    work: Floats
    rest: Floats  # work of one replica each of the later PEs of the same configuration; minus infinity: unchecked
    price: Floats
    slots: Ints
    slot_host: Ints  # [level, slot]
    slot_count: Floats  # [level, slot]: replicas of the PE on that host
    limited: NDArray[np.bool_]
    full_first: NDArray[np.bool_]
    price_penalty: Floats  # [level, value]: value 0 is full, 1 + s is slot s
    loss_penalty: Floats
    limit: Floats  # by host
    root: Floats  # price bound, IC bound, goal, sum of limits


class Trail(NamedTuple):
    """Where a search stands: arrays by level, the loads of all hosts, and counters."""

    next: Ints
    chosen: Ints
    order: Ints  # [level, slot]: slots, emptiest host first
    arrived: Floats  # share of BIC that reaches this PE
    emitted: Floats  # what it would put out if full
    out: Floats  # what it puts out as decided
    ceiling: Floats  # [level]: the highest IC that the decisions above still allow
    spent: Floats
    price_bound: Floats
    loss_bound: Floats
    total: Floats  # load of all hosts in this level's configuration
    load: Floats  # [configuration in search order, host]
    saved: Floats  # [level, slot]: loads to go back to
    pruned: Ints
    heights: Ints
    cursor: Ints  # depth, base, nodes


def plant(instance: Instance, *, price: Penalties | None, loss: Penalties | None, sharpen: bool) -> Tree:
    """The tree of an instance. With `sharpen`, dual penalties and the total capacity tighten the paper's own bounds."""
    configurations, pes, replicas = instance.shape
    asked = instance.probability * 0 + instance.work.sum(axis=1)
    ranked = sorted(range(configurations), key=lambda c: (-asked[c], c))
    order = np.repeat(ranked, pes)
    pe = np.tile(np.arange(pes), configurations)
    share = instance.probability[order] / (float((instance.probability @ instance.rate_in).sum()) or 1.0)
    base = float((instance.probability @ instance.work).sum()) or 1.0
    work = instance.work[order, pe]
    limited = np.array([not fits_whole(instance, c) for c in ranked])[np.arange(len(order)) // pes]
    levels = len(order)
    slots, slot_host = np.ones(levels, dtype=np.int64), np.zeros((levels, replicas), dtype=np.int64)
    slot_count = np.zeros((levels, replicas))
    penalties = [np.zeros((levels, replicas + 1)) for _ in range(2)]
    for v in range(levels):
        hosts, counts = np.unique(instance.host_of[pe[v]], return_counts=True)
        slots[v] = len(hosts) if limited[v] else 1
        slot_host[v, : slots[v]] = hosts[: slots[v]]
        slot_count[v, : slots[v]] = counts[: slots[v]]
        for table, source in zip(penalties, (price, loss), strict=True):
            if source is not None:
                table[v, 0] = source.full[order[v], pe[v]]
                table[v, 1 : 1 + slots[v]] = source.alone[order[v], pe[v], hosts[: slots[v]]]
    later = np.concatenate([np.cumsum(instance.work[c][::-1])[::-1] - instance.work[c] for c in ranked])
    guide = price.relaxed_full if price is not None else None
    return Tree(
        configuration=np.arange(levels) // pes,
        pe=pe,
        first_edge=instance.first_edge,
        tail=instance.tail,
        selectivity=instance.selectivity,
        external_in=share * instance.external_in[order, pe],
        external_out=share * instance.external_out[order, pe],
        worth=np.tile(_worth(instance), configurations),
        work=work,
        rest=later if sharpen else np.full(levels, -np.inf),
        price=instance.probability[order] * work * (replicas - 1) / base,
        slots=slots,
        slot_host=slot_host,
        slot_count=slot_count,
        limited=limited,
        full_first=np.ones(levels, dtype=np.bool_) if guide is None else guide[order, pe] >= 0.5,
        price_penalty=penalties[0],
        loss_penalty=penalties[1],
        limit=instance.limit,
        root=np.array(
            [
                price.root if price is not None else -np.inf,
                -loss.root if loss is not None else np.inf,
                instance.sla - IC_TOLERANCE,
                instance.limit.sum(),
            ]
        ),
    )


def sprout(tree: Tree, *, hosts: int) -> Trail:
    """A search at the root."""
    levels, replicas = tree.slot_host.shape
    trail = Trail(
        next=np.zeros(levels, dtype=np.int64),
        chosen=np.zeros(levels, dtype=np.int64),
        order=np.zeros((levels, replicas), dtype=np.int64),
        arrived=np.zeros(levels),
        emitted=np.zeros(levels),
        out=np.zeros(levels),
        ceiling=np.ones(levels + 1),
        spent=np.zeros(levels + 1),
        price_bound=np.full(levels + 1, tree.root[0]),
        loss_bound=np.full(levels + 1, tree.root[1]),
        total=np.zeros(levels + 1),
        load=np.zeros((int(tree.configuration[-1]) + 1, hosts)),
        saved=np.zeros((levels, replicas)),
        pruned=np.zeros(4, dtype=np.int64),
        heights=np.zeros(4, dtype=np.int64),
        cursor=np.zeros(3, dtype=np.int64),
    )
    enter(tree, trail, 0)
    return trail


def split(tree: Tree, trail: Trail) -> Trail | None:
    """Take the untried values of the shallowest open level out of a trail, as a trail of their own."""
    depth, base = int(trail.cursor[_DEPTH]), int(trail.cursor[_BASE])
    open_levels = [v for v in range(base, depth) if trail.next[v] <= tree.slots[v]]
    if not open_levels:
        return None
    level = open_levels[0]
    taken = Trail(*(array.copy() for array in trail))
    for v in range(depth - 1, level - 1, -1):
        back(tree, taken, v)
    taken.cursor[:] = (level, level, 0)
    taken.pruned[:] = 0
    taken.heights[:] = 0
    trail.next[level] = tree.slots[level] + 1
    trail.cursor[_BASE] = level + 1
    return taken


def activation(instance: Instance, tree: Tree, trail: Trail) -> Active:
    """The strategy that a trail's choices stand for."""
    active = np.zeros(instance.shape, dtype=np.bool_)
    asked = instance.work.sum(axis=1)
    ranked = sorted(range(len(asked)), key=lambda c: (-asked[c], c))
    for v, value in enumerate(trail.chosen):
        c, i = ranked[tree.configuration[v]], tree.pe[v]
        if value == 0:
            active[c, i] = True
        else:
            active[c, i, int(np.argmax(instance.host_of[i] == tree.slot_host[v, value - 1]))] = True
    return active


def _worth(instance: Instance) -> Floats:
    """Tuples processed downstream per tuple put out, by PE, when all is full there."""
    worth = np.zeros(len(instance.pes))
    for i in range(len(instance.pes) - 1, -1, -1):
        for e in range(instance.first_edge[i], instance.first_edge[i + 1]):
            worth[instance.tail[e]] += 1.0 + instance.selectivity[e] * worth[i]
    return worth


def _enter(tree: Tree, trail: Trail, v: int) -> None:
    """Begin level v: what arrives there, and its slots, emptiest host first."""
    c, i = tree.configuration[v], tree.pe[v]
    first = v - i
    arrived, emitted = tree.external_in[v], tree.external_out[v]
    for e in range(tree.first_edge[i], tree.first_edge[i + 1]):
        out = trail.out[first + tree.tail[e]]
        arrived += out
        emitted += tree.selectivity[e] * out
    trail.arrived[v], trail.emitted[v] = arrived, emitted
    trail.next[v] = 0
    for s in range(tree.slots[v]):
        host = tree.slot_host[v, s]
        trail.saved[v, s] = trail.load[c, host]
        at = s
        while at > 0:
            other = trail.order[v, at - 1]
            if trail.saved[v, other] / tree.limit[tree.slot_host[v, other]] <= trail.saved[v, s] / tree.limit[host]:
                break
            trail.order[v, at] = other
            at -= 1
        trail.order[v, at] = s


def _back(tree: Tree, trail: Trail, v: int) -> None:
    """Undo the decision of level v."""
    if tree.limited[v]:
        for s in range(tree.slots[v]):
            trail.load[tree.configuration[v], tree.slot_host[v, s]] = trail.saved[v, s]


enter: Callable[[Tree, Trail, int], None] = njit(nogil=True, cache=True)(_enter)
back: Callable[[Tree, Trail, int], None] = njit(nogil=True, cache=True)(_back)


def _overloads(tree: Tree, trail: Trail, v: int, value: int, total: float) -> bool:
    """Whether the value breaks Eq. 11 on one of its hosts, or leaves the rest no room on all of them together."""
    if value == 0:
        for s in range(tree.slots[v]):
            added = tree.work[v] * tree.slot_count[v, s]
            if trail.saved[v, s] + added > tree.limit[tree.slot_host[v, s]]:
                return True
    elif trail.saved[v, value - 1] + tree.work[v] > tree.limit[tree.slot_host[v, value - 1]]:
        return True
    return total + tree.rest[v] > tree.root[3]


overloads: Callable[[Tree, Trail, int, int, float], bool] = njit(nogil=True, cache=True)(_overloads)


def _advance(tree: Tree, trail: Trail, best: Floats, budget: int) -> int:
    """Search on for at most `budget` nodes or until a strategy cheaper than best[0] is found. Returns PAUSED, FOUND, DONE.

    A node is one value tried at one level. `best` may be lowered by another thread meanwhile.
    """
    levels = len(tree.pe)
    v, base, end = trail.cursor[0], trail.cursor[1], trail.cursor[2] + budget
    while True:
        if v < base:
            trail.cursor[0] = v
            return 2
        if trail.next[v] > tree.slots[v]:
            v -= 1
            if v >= base:
                back(tree, trail, v)
            continue
        if trail.cursor[2] >= end:
            trail.cursor[0] = v
            return 0
        trail.cursor[2] += 1
        turn = trail.next[v]
        trail.next[v] += 1
        if tree.full_first[v]:
            value = 0 if turn == 0 else 1 + trail.order[v, turn - 1]
        else:
            value = 0 if turn == tree.slots[v] else 1 + trail.order[v, turn]

        height = levels - 1 - v
        if value == 0 and trail.arrived[v] == 0.0:
            trail.pruned[3] += 1
            trail.heights[3] += height
            continue
        total = trail.total[v] if trail.total[v] > 0.0 and tree.pe[v] > 0 else 0.0
        replicas = 0.0
        if value == 0:
            for s in range(tree.slots[v]):
                replicas += tree.slot_count[v, s]
        else:
            replicas = 1.0
        total += tree.work[v] * replicas
        if tree.limited[v] and overloads(tree, trail, v, value, total):
            trail.pruned[0] += 1
            trail.heights[0] += height
            continue
        ceiling, spent = trail.ceiling[v], trail.spent[v]
        if value == 0:
            spent += tree.price[v]
        else:
            ceiling -= trail.arrived[v] + trail.emitted[v] * tree.worth[v]
        loss_bound = trail.loss_bound[v] - tree.loss_penalty[v, value]
        if ceiling < tree.root[2] or loss_bound < tree.root[2]:
            trail.pruned[1] += 1
            trail.heights[1] += height
            continue
        price_bound = trail.price_bound[v] + tree.price_penalty[v, value]
        if spent >= best[0] - 1e-9 or price_bound >= best[0] - 1e-9:
            trail.pruned[2] += 1
            trail.heights[2] += height
            continue

        trail.chosen[v] = value
        trail.ceiling[v + 1], trail.spent[v + 1] = ceiling, spent
        trail.loss_bound[v + 1], trail.price_bound[v + 1] = loss_bound, price_bound
        trail.total[v + 1] = total
        if v == levels - 1:
            trail.cursor[0] = v
            return 1
        if tree.limited[v]:
            for s in range(tree.slots[v]):
                if value == 0 or value == s + 1:
                    added = tree.work[v] * (tree.slot_count[v, s] if value == 0 else 1.0)
                    trail.load[tree.configuration[v], tree.slot_host[v, s]] = trail.saved[v, s] + added
        trail.out[v] = trail.emitted[v] if value == 0 else 0.0
        v += 1
        enter(tree, trail, v)


advance: Callable[[Tree, Trail, Floats, int], int] = njit(nogil=True, cache=True)(_advance)
