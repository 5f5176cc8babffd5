"""Plans that follow the rates with few moves."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import DocumentError
from holdfast.planning.ppa import Frontier, output_fidelity
from holdfast.planning.ppa.adaptation import adapt
from holdfast_papers.ppa.generator import Ranges, generate


def lanes(*rates: float) -> Topology:
    return Topology(
        topology="lanes",
        operators={
            "a": TaskOperator(parallelism=len(rates), rates=rates),
            "b": TaskOperator(parallelism=len(rates), inputs={"a": "one-to-one"}),
        },
    )


def test_best_plan_stays():
    m = output_fidelity(lanes(5.0, 3.0, 2.0))
    change = adapt(m, ("a/0", "b/0"), budget=2, planner=Frontier())
    assert (change.stop, change.start) == ((), ())
    assert change.plan.tasks == ("a/0", "b/0")


def test_replicas_move_to_the_busiest_lane():
    m = output_fidelity(lanes(1.0, 8.0, 1.0))
    change = adapt(m, ("a/0", "b/0"), budget=2, planner=Frontier())
    assert change.stop == ("a/0", "b/0")
    assert change.start == ("a/1", "b/1")
    assert (change.kept_quality, change.plan.quality) == (pytest.approx(0.1), pytest.approx(0.8))


def test_small_gain_causes_no_move():
    m = output_fidelity(lanes(0.49, 0.51))
    stay = adapt(m, ("a/0", "b/0"), budget=2, planner=Frontier(), move_worth=0.02)
    assert stay.plan.tasks == ("a/0", "b/0")
    assert stay.best_quality == pytest.approx(0.51)
    move = adapt(m, ("a/0", "b/0"), budget=2, planner=Frontier(), move_worth=0.005)
    assert move.plan.tasks == ("a/1", "b/1")


def test_larger_budget_only_adds_replicas():
    m = output_fidelity(lanes(5.0, 3.0, 2.0))
    change = adapt(m, ("a/1", "b/1"), budget=4, planner=Frontier())
    assert (change.stop, change.start) == ((), ("a/0", "b/0"))


def test_smaller_budget_stops_least_useful_replicas():
    m = output_fidelity(lanes(5.0, 3.0, 2.0))
    change = adapt(m, ("a/0", "a/1", "b/0", "b/1"), budget=2, planner=Frontier())
    assert (change.stop, change.start) == (("a/1", "b/1"), ())


def test_smaller_budget_stops_no_more_than_needed():
    m = output_fidelity(lanes(5.0, 3.0, 2.0))
    change = adapt(m, ("a/0", "a/1", "b/0", "b/1"), budget=3, planner=Frontier())
    assert len(change.stop) == 1 and not change.start
    assert change.plan.quality == pytest.approx(0.5)


def test_unknown_current_task_is_an_error():
    with pytest.raises(DocumentError) as caught:
        adapt(output_fidelity(lanes(1.0)), ("a/0", "a/7", "z/0"), budget=1, planner=Frontier())
    assert [error.split(":")[0] for error in caught.value.errors] == ["a/7", "z/0"]
    assert "topology 'lanes' has no such task; its operators are: a, b" in str(caught.value)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), share=st.floats(0.2, 0.8), worth=st.sampled_from([0.0, 0.01, 0.1, 1.0]))
def test_adaptation_fits_budget_and_move_worth(seed, share, worth):
    rng = np.random.default_rng(seed)
    t = generate(rng, ranges=Ranges(operators=(2, 5), parallelism=(1, 4), zipf=0.5))
    budget = round(share * len(t.tasks))
    planner = Frontier(evaluations=1_000)
    current = planner.plan(output_fidelity(t), budget).tasks
    sources = [name for name in t.operators if not t.operators[name].inputs]
    rates = {n: {"rates": rng.uniform(1, 100, t.operators[n].parallelism).tolist(), "rate": None} for n in sources}
    moved = Topology(topology=t.topology, operators={n: o.model_copy(update=rates.get(n, {})) for n, o in t.operators.items()})
    change = adapt(output_fidelity(moved), current, budget=budget, planner=planner, move_worth=worth)
    assert len(change.plan.tasks) <= budget
    assert set(change.plan.tasks) == (set(current) - set(change.stop)) | set(change.start)
    assert change.plan.quality >= change.kept_quality + worth * len(change.start) - 1e-9
    if worth == 0:
        assert change.plan.quality >= change.best_quality - 1e-9
    if worth == 1:
        assert not change.start


@pytest.mark.parametrize("width", [3, 5, 7])
def test_any_number_of_worthwhile_replicas_is_started(width):
    """Two groups: `width` sources into one join that is worth its moves, and a lane that is not."""
    operators = {f"s{i}": TaskOperator(rate=10.0) for i in range(width - 1)}
    operators["join"] = TaskOperator(inputs=dict.fromkeys(operators, "full"), correlated=True, rate=90.0)
    operators["lane"] = TaskOperator(parallelism=4, rate=10.0)
    m = output_fidelity(Topology(topology="t", operators=operators))
    change = adapt(m, (), budget=len(m.weights), planner=Frontier(), move_worth=0.1)
    assert len(change.start) == width and "join/0" in change.start
    assert change.plan.quality == pytest.approx(0.9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.02, 0.1, 0.3]))
def test_adaptation_is_near_optimal_on_small_topologies(seed, worth):
    rng = np.random.default_rng(seed)
    t = generate(rng, ranges=Ranges(operators=(2, 4), parallelism=(1, 3), zipf=0.5, joins=0.5))
    m = output_fidelity(t)
    tasks = len(t.tasks)
    assume(tasks <= 9)
    now = rng.random(tasks) < 0.4
    budget = int(rng.integers(0, tasks + 1))
    change = adapt(m, [t.tasks[i] for i in np.flatnonzero(now)], budget=budget, planner=Frontier(), move_worth=worth)
    every = np.array([[mask >> i & 1 for mask in range(2**tasks)] for i in range(tasks)], dtype=float)
    net = m.values(every) - worth * every[~now].sum(axis=0)
    assert change.plan.quality - worth * len(change.start) >= net[every.sum(axis=0) <= budget].max() - 0.05
