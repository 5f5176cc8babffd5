"""FT-Search and its prunings."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.errors import HoldfastError
from holdfast.planning.laar import Instance, Outcome
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
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + hour_s * len(late), monotonic=time.monotonic)
    monkeypatch.setattr("holdfast_papers.laar.ftsearch.time", clock)
    monkeypatch.setattr("holdfast_papers.laar.ftsearch._load", lambda: late or late.append(True))
    solution = FTSearch(workers=1).solve(Instance.of(figure_1()))
    assert late and solution.outcome is Outcome.BST
    assert solution.seconds < hour_s
