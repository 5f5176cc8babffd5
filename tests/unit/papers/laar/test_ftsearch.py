"""FT-Search and its prunings."""

import time
from itertools import pairwise
from math import inf

import numpy as np
import pytest

from holdfast.errors import HoldfastError
from holdfast.planning.laar import IC_TOLERANCE, Instance, Outcome
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.laar.ftsearch import FTSearch
from holdfast_papers.laar.generator import Ranges, generate

SMALL = Ranges(nodes=(2, 3), pes_per_node=(3, 5))


def small(seed):
    return Instance.of(generate(np.random.default_rng(seed), ranges=SMALL), sla=0.5)


def test_ftsearch_requires_a_worker():
    with pytest.raises(HoldfastError, match="at least 1 worker, got 0"):
        FTSearch(workers=0)


def test_every_pruning_is_counted_with_its_height():
    instance = small(3)
    solution = FTSearch(workers=1, bounds="paper").solve(instance)
    levels = instance.shape[0] * instance.shape[1]
    assert set(solution.prunings) == {"CPU", "COMPL", "COST", "DOM"}
    assert sum(cut.count for cut in solution.prunings.values()) < solution.tree_nodes
    assert all(0 <= cut.height < levels for cut in solution.prunings.values())
    assert solution.prunings["CPU"].count > 0 and solution.prunings["COMPL"].count > 0
    assert solution.first is not None and solution.last is not None
    assert solution.first.cost >= solution.last.cost == pytest.approx(solution.cost)
    assert solution.first.seconds <= solution.last.seconds <= solution.seconds


def test_dual_bounds_reduce_the_search_tree():
    instance = small(3)
    plain, sharp = (FTSearch(workers=1, bounds=bounds).solve(instance) for bounds in ("paper", "dual"))
    assert plain.cost == pytest.approx(sharp.cost)
    assert sharp.tree_nodes < plain.tree_nodes


def test_search_time_excludes_start_up(monkeypatch):
    hour_s, late = 3600.0, []
    monkeypatch.setattr("holdfast_papers.laar.ftsearch._load", lambda: late or late.append(True))
    search = FTSearch(workers=1, clock=lambda: time.perf_counter() + hour_s * len(late))
    solution = search.solve(Instance.of(figure_1()))
    assert late and solution.outcome is Outcome.BST
    assert solution.seconds < hour_s


def search_by_hand(instance):
    """Search as section 4.5 describes it, without any of the kernel's data structures. Return prunings, nodes and the cost."""
    work = instance.work.sum(axis=1)
    order = [(c, i) for c in sorted(range(len(work)), key=lambda c: (-work[c], c)) for i in range(len(instance.pes))]
    edges = list(instance.selectivity)
    sources = [list(range(a, b)) for a, b in pairwise(instance.first_edge)]
    due, base = float((instance.probability @ instance.rate_in).sum()), float((instance.probability @ instance.work).sum())
    removed, cut, state = set(), {rule: [] for rule in ("CPU", "COMPL", "COST", "DOM")}, {"nodes": 0, "best": inf}

    def completeness(full):
        """Return the highest IC if exactly these PEs are full."""
        processed = 0.0
        for c in range(len(work)):
            out = {}
            for i in range(len(instance.pes)):
                arrived = instance.external_in[c, i] + sum(out[instance.tail[e]] for e in sources[i])
                emitted = instance.external_out[c, i] + sum(edges[e] * out[instance.tail[e]] for e in sources[i])
                processed += instance.probability[c] * arrived * full(c, i)
                out[i] = emitted * full(c, i)
        return processed / due

    def silent(c, i, values):
        return (c, i) in removed or values.get((c, i), 0) > 0

    def remove_without_input(c, values):
        """Remove full from the domain of each PE that only reads PEs which are not full. Return what was removed."""
        gone = []
        for i in range(len(instance.pes)):
            lone = not instance.external_in[c, i] and all(silent(c, instance.tail[e], values) for e in sources[i])
            if lone and (c, i) not in removed:
                removed.add((c, i))
                gone.append((c, i))
                cut["DOM"].append(len(order) - 1 - order.index((c, i)))
        return gone

    def visit(level, values, spent, load):
        if level == len(order):
            state["best"] = min(state["best"], spent)
            return
        c, i = order[level]
        nodes = [int(node) for node in instance.node_of[i]]
        by_load = sorted(range(len(nodes)), key=lambda slot: (load.get((c, nodes[slot]), 0) / instance.limit[nodes[slot]], slot))
        for value in [0, *(1 + slot for slot in by_load)]:
            if value == 0 and (c, i) in removed:
                continue
            state["nodes"] += 1
            after = dict(load)
            for node in nodes if value == 0 else [nodes[value - 1]]:
                after[c, node] = after.get((c, node), 0) + instance.work[c, i]
            chosen = {**values, (c, i): value}
            price = spent + (instance.probability[c] * instance.work[c, i] * (len(nodes) - 1) / base if value == 0 else 0)
            if any(after[c, node] > instance.limit[node] for node in nodes if (c, node) in after):
                cut["CPU"].append(len(order) - 1 - level)
            elif completeness(lambda c, i, chosen=chosen: chosen.get((c, i), 0) == 0) < instance.sla - IC_TOLERANCE:
                cut["COMPL"].append(len(order) - 1 - level)
            elif price >= state["best"] - 1e-9:
                cut["COST"].append(len(order) - 1 - level)
            else:
                last = level == len(order) - 1
                gone = remove_without_input(c, chosen) if value > 0 and not silent(c, i, values) and not last else []
                visit(level + 1, chosen, price, after)
                removed.difference_update(gone)

    visit(0, {}, 0.0, {})
    return cut, state["nodes"], state["best"]


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 6])
@pytest.mark.parametrize("sla", [0.3, 0.6])
def test_prunings_equal_those_of_a_search_by_hand(seed, sla):
    descriptor = generate(np.random.default_rng(seed), ranges=Ranges(nodes=(1, 3), pes_per_node=(2, 2)))
    instance = Instance.of(descriptor, sla=sla)
    solution = FTSearch(workers=1, bounds="paper").solve(instance)
    cut, nodes, best = search_by_hand(instance)
    assert solution.outcome is (Outcome.NUL if best == inf else Outcome.BST)
    assert {rule: (each.count, pytest.approx(each.height)) for rule, each in solution.prunings.items()} == {
        rule: (len(heights), np.mean(heights) if heights else 0.0) for rule, heights in cut.items()
    }
    assert solution.tree_nodes == nodes
