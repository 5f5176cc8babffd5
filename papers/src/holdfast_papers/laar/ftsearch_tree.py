"""The search tree of FT-Search (`Tree`) and the position of a search in it (`Cursor`).

A level of the tree is one (configuration, PE): configurations in order of decreasing work, and within each the PEs in
topological order (LAAR section 4.5). A level's value is 0 (*full*: all replicas active) or a slot: one replica alone on one of
the PE's nodes. Rates are shares of BIC, and costs are shares of the cost without replication.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.planning.laar import IC_TOLERANCE, Active, Instance, fits_whole, required_completeness
from holdfast_papers.arrays import Floats, Ints
from holdfast_papers.laar.dual_bounds import Penalties


class Tree(NamedTuple):
    """The constants of a search. Arrays are indexed by level, unless noted otherwise."""

    configuration: Ints
    pe: Ints
    first_edge: Ints  # by PE
    tail: Ints  # by edge: the PE it comes from
    first_reader: Ints  # by PE
    reader: Ints  # in the order of `first_reader`: the PEs that read its output
    selectivity: Floats  # by edge
    external_in: Floats
    external_out: Floats
    worth: Floats  # tuples processed downstream per tuple emitted here, if all PEs there are full
    work: Floats
    rest: Floats  # work of one replica of each later PE of the configuration; minus infinity: not checked
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
    root: Floats  # bound on the price, bound on IC, required IC, sum of limits
    skip_slots: bool  # whether to skip slots that differ only in the nodes' loads


class Cursor(NamedTuple):
    """The position of a search: arrays by level, the loads of all nodes, and counters."""

    next: Ints
    chosen: Ints
    order: Ints  # [level, slot]: slots, emptiest node first
    arrived: Floats  # share of BIC that reaches this PE
    emitted: Floats  # what the PE emits if it is full
    out: Floats  # what the PE emits by its decision
    ceiling: Floats  # [level]: the highest IC that the decisions above still allow
    spent: Floats
    price_bound: Floats
    ceiling_bound: Floats
    total: Floats  # load of all nodes in this level's configuration
    blocked: Ints  # [level, 0 full, 1 slots]: whether a node's load pruned anything below
    feeds: Ints  # how many inputs can still arrive after a failure; at 0, DOM has removed the value full
    stack: Ints  # by PE: what DOM has yet to visit
    load: Floats  # [configuration in search order, node]
    saved: Floats  # [level, slot]: loads to restore
    pruned: Ints
    heights: Ints
    position: Ints  # depth, base level, tree nodes visited, whether the root was entered


def build_tree(instance: Instance, *, price: Penalties | None, loss: Penalties | None, sharpen: bool) -> Tree:
    """Build the tree of an instance. With `sharpen`, dual penalties and the total capacity tighten the paper's bounds."""
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
        if not sharpen:  # the paper's domain has a value for each replica
            nodes, counts = instance.node_of[pe[v]], counts[np.searchsorted(nodes, instance.node_of[pe[v]])]
        slots[v] = len(nodes) if limited[v] or not sharpen else 1
        slot_node[v, : slots[v]] = nodes[: slots[v]]
        slot_count[v, : slots[v]] = counts[: slots[v]]
        for table, source in zip(penalties, (price, loss), strict=True):
            if source is not None:
                table[v] = source.full[order[v], pe[v]], source.alone[order[v], pe[v]].min()
    later = np.concatenate([np.cumsum(instance.work[c][::-1])[::-1] - instance.work[c] for c in ranked])
    guide = price.relaxed_full if price is not None else None
    first_reader, reader = _readers(instance)
    return Tree(
        configuration=np.arange(levels) // pes,
        pe=pe,
        first_edge=instance.first_edge,
        tail=instance.tail,
        first_reader=first_reader,
        reader=reader,
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
                required_completeness(instance) - IC_TOLERANCE,
                instance.limit.sum(),
            ]
        ),
        skip_slots=sharpen,
    )


def root_cursor(tree: Tree) -> Cursor:
    """Return a cursor at the root of the tree, which `step` has not entered yet."""
    levels, replicas = tree.slot_node.shape
    return Cursor(
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
        feeds=_feeds(tree),
        stack=np.zeros(len(tree.first_edge), dtype=np.int64),
        load=np.zeros((int(tree.configuration[-1]) + 1, len(tree.limit))),
        saved=np.zeros((levels, replicas)),
        pruned=np.zeros(4, dtype=np.int64),
        heights=np.zeros(4, dtype=np.int64),
        position=np.zeros(4, dtype=np.int64),
    )


def strategy_of(instance: Instance, tree: Tree, cursor: Cursor) -> Active:
    """Return the strategy that a cursor's decisions describe."""
    active = np.zeros(instance.shape, dtype=np.bool_)
    ranked = _ranked(instance)
    for v, value in enumerate(cursor.chosen):
        c, i = ranked[tree.configuration[v]], tree.pe[v]
        if value == 0:
            active[c, i] = True
        else:
            active[c, i, int(np.argmax(instance.node_of[i] == tree.slot_node[v, value - 1]))] = True
    return active


def _readers(instance: Instance) -> tuple[Ints, Ints]:
    """Return the PEs that read each PE's output, one after the other, and where each PE's readers begin."""
    head = np.repeat(np.arange(len(instance.pes)), np.diff(instance.first_edge))
    first = np.searchsorted(np.sort(instance.tail), np.arange(len(instance.pes) + 1))
    return first, head[np.argsort(instance.tail, kind="stable")]


def _feeds(tree: Tree) -> Ints:
    """Return how many inputs of each level can deliver anything if every PE is full."""
    feeds = (tree.external_in > 0).astype(np.int64)
    for v, i in enumerate(tree.pe):
        for e in range(tree.first_edge[i], tree.first_edge[i + 1]):
            feeds[v] += feeds[v - i + tree.tail[e]] > 0
    return feeds


def _ranked(instance: Instance) -> list[int]:
    """Return the configurations in order of decreasing work."""
    work = instance.work.sum(axis=1)
    return sorted(range(len(work)), key=lambda c: (-work[c], c))


def _worth(instance: Instance) -> Floats:
    """Return, for each PE, the tuples processed downstream per emitted tuple if all PEs there are full."""
    worth = np.zeros(len(instance.pes))
    for i in range(len(instance.pes) - 1, -1, -1):
        for e in range(instance.first_edge[i], instance.first_edge[i + 1]):
            worth[instance.tail[e]] += 1.0 + instance.selectivity[e] * worth[i]
    return worth
