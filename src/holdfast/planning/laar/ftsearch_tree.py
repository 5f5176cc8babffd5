"""The search tree of FT-Search, and where a search in it stands.

A level of the tree is one (configuration, PE): configurations by the work they make, most first, and in each the PEs in
topological order (LAAR section 4.5). A value is *full* (all replicas active) or a slot: alone on one of the PE's nodes. Rates
are kept as shares of BIC, costs as shares of the cost without replication.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.planning.laar.completeness import goal
from holdfast.planning.laar.dual_bounds import Penalties
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Floats, Instance, Ints
from holdfast.planning.laar.linear_programme import fits_whole


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
    full_work: Floats  # work of all replicas together
    price: Floats
    slots: Ints
    slot_node: Ints  # [level, slot]
    slot_count: Floats  # [level, slot]: replicas of the PE on that node
    limited: NDArray[np.bool_]
    full_first: NDArray[np.bool_]
    price_penalty: Floats  # [level, 0 if full else 1]
    ceiling_penalty: Floats  # [level, 0 if full else 1]
    limit: Floats  # by node
    root: Floats  # bound on the price, bound on IC, goal for IC, sum of limits
    skip_slots: bool  # whether slots are passed over that only nodes' loads could tell apart


class Trail(NamedTuple):
    """Where a search stands: arrays by level, the loads of all nodes, and counters."""

    next: Ints
    chosen: Ints
    order: Ints  # [level, slot]: slots, emptiest node first
    arrived: Floats  # share of BIC that reaches this PE
    emitted: Floats  # what it would put out if full
    out: Floats  # what it puts out as decided
    ceiling: Floats  # [level]: the highest IC that the decisions above still allow
    spent: Floats
    price_bound: Floats
    ceiling_bound: Floats
    total: Floats  # load of all nodes in this level's configuration
    blocked: Ints  # [level, 0 full, 1 slots]: whether a node's load cut anything below
    load: Floats  # [configuration in search order, node]
    saved: Floats  # [level, slot]: loads to go back to
    pruned: Ints
    heights: Ints
    cursor: Ints  # depth, base, nodes, whether the root was entered


def build_tree(instance: Instance, *, price: Penalties | None, loss: Penalties | None, sharpen: bool) -> Tree:
    """The tree of an instance. With `sharpen`, dual penalties and the total capacity tighten the paper's own bounds."""
    configurations, pes, replicas = instance.shape
    ranked = _ranked(instance)
    order = np.repeat(ranked, pes)
    pe = np.tile(np.arange(pes), configurations)
    share = instance.probability[order] / (float((instance.probability @ instance.rate_in).sum()) or 1.0)
    base = float((instance.probability @ instance.work).sum()) or 1.0
    work = instance.work[order, pe]
    limited = np.array([not fits_whole(instance, c) for c in ranked])[np.arange(len(order)) // pes]
    levels = len(order)
    slots, slot_node = np.ones(levels, dtype=np.int64), np.zeros((levels, replicas), dtype=np.int64)
    slot_count = np.zeros((levels, replicas))
    penalties = [np.zeros((levels, 2)) for _ in range(2)]
    for v in range(levels):
        nodes, counts = np.unique(instance.node_of[pe[v]], return_counts=True)
        slots[v] = len(nodes) if limited[v] else 1
        slot_node[v, : slots[v]] = nodes[: slots[v]]
        slot_count[v, : slots[v]] = counts[: slots[v]]
        for table, source in zip(penalties, (price, loss), strict=True):
            if source is not None:
                table[v] = source.full[order[v], pe[v]], source.alone[order[v], pe[v]].min()
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
        full_work=work * replicas,
        price=instance.probability[order] * work * (replicas - 1) / base,
        slots=slots,
        slot_node=slot_node,
        slot_count=slot_count,
        limited=limited,
        full_first=np.ones(levels, dtype=np.bool_) if guide is None else guide[order, pe] >= 0.5,
        price_penalty=penalties[0],
        ceiling_penalty=penalties[1],
        limit=instance.limit,
        root=np.array(
            [
                price.root if price is not None else -np.inf,
                -loss.root if loss is not None else np.inf,
                goal(instance) - IC_TOLERANCE,
                instance.limit.sum(),
            ]
        ),
        skip_slots=sharpen,
    )


def root_cursor(tree: Tree) -> Trail:
    """A search at the root, which the walk has yet to enter."""
    levels, replicas = tree.slot_node.shape
    return Trail(
        next=np.zeros(levels, dtype=np.int64),
        chosen=np.zeros(levels, dtype=np.int64),
        order=np.zeros((levels, replicas), dtype=np.int64),
        arrived=np.zeros(levels),
        emitted=np.zeros(levels),
        out=np.zeros(levels),
        ceiling=np.ones(levels + 1),
        spent=np.zeros(levels + 1),
        price_bound=np.full(levels + 1, tree.root[0]),
        ceiling_bound=np.full(levels + 1, tree.root[1]),
        total=np.zeros(levels + 1),
        blocked=np.zeros((levels + 1, 2), dtype=np.int64),
        load=np.zeros((int(tree.configuration[-1]) + 1, len(tree.limit))),
        saved=np.zeros((levels, replicas)),
        pruned=np.zeros(4, dtype=np.int64),
        heights=np.zeros(4, dtype=np.int64),
        cursor=np.zeros(4, dtype=np.int64),
    )


def activation(instance: Instance, tree: Tree, trail: Trail) -> Active:
    """The strategy that a trail's choices stand for."""
    active = np.zeros(instance.shape, dtype=np.bool_)
    ranked = _ranked(instance)
    for v, value in enumerate(trail.chosen):
        c, i = ranked[tree.configuration[v]], tree.pe[v]
        if value == 0:
            active[c, i] = True
        else:
            active[c, i, int(np.argmax(instance.node_of[i] == tree.slot_node[v, value - 1]))] = True
    return active


def _ranked(instance: Instance) -> list[int]:
    """Configurations by the work they make, most first."""
    asked = instance.work.sum(axis=1)
    return sorted(range(len(asked)), key=lambda c: (-asked[c], c))


def _worth(instance: Instance) -> Floats:
    """Tuples processed downstream per tuple put out, by PE, when all is full there."""
    worth = np.zeros(len(instance.pes))
    for i in range(len(instance.pes) - 1, -1, -1):
        for e in range(instance.first_edge[i], instance.first_edge[i + 1]):
            worth[instance.tail[e]] += 1.0 + instance.selectivity[e] * worth[i]
    return worth
