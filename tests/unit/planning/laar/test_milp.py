"""The exact solver."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from holdfast.errors import HoldfastError
from holdfast.planning.laar import Instance, Milp, Outcome, figure_1
from holdfast_papers.laar.generator import Ranges, generate


@pytest.mark.parametrize("application", [3, 8, 12])
def test_one_process_and_two_find_the_same_optimum(application):
    ranges = Ranges(nodes=(3, 3), pes_per_node=(4, 4))
    instance = Instance.of(generate(np.random.default_rng(application), ranges=ranges), sla=0.5)
    one, two = Milp(workers=1).solve(instance), Milp(workers=2).solve(instance)
    assert one.outcome is two.outcome
    assert one.outcome.decided
    assert one.cost == (two.cost if two.cost is None else pytest.approx(two.cost, rel=1e-6))


def test_milp_accepts_one_or_two_processes():
    with pytest.raises(HoldfastError, match="runs in 1 or 2 processes, got 3"):
        Milp(workers=3)


def test_search_time_excludes_start_up(monkeypatch):
    hour_s, late = 3600.0, []
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + hour_s * len(late), monotonic=time.monotonic)
    monkeypatch.setattr("holdfast.planning.laar.milp.time", clock)
    monkeypatch.setattr("holdfast.planning.laar.milp.warm_up", lambda *_: late or late.append(True))
    solution = Milp().solve(Instance.of(figure_1()))
    assert late and solution.outcome is Outcome.BST
    assert solution.seconds < hour_s
