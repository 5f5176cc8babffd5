"""A conformance suite for all planners, and the properties of each."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import (
    PLANNERS,
    Frontier,
    Greedy,
    Measure,
    Planner,
    StructureAware,
    internal_completeness,
    measured_criticality,
    output_fidelity,
    planner_names,
    planner_of,
)
from holdfast.planning.ppa.decomposition import decompose, segments
from holdfast.planning.ppa.planner import task_numbers
from holdfast_papers.ppa.dynamic import Dynamic
from holdfast_papers.ppa.full import Full
from holdfast_papers.ppa.generator import Ranges, corpus, generate
from holdfast_papers.ppa.structured import Structured

ALL = {**PLANNERS, **{planner.name: planner for planner in (Structured(), Full(), Dynamic())}}
"""The built-in planners, and the other planners of the paper."""


def drawn(operators: tuple[int, int], parallelism: tuple[int, int]) -> st.SearchStrategy[Topology]:
    return st.builds(
        lambda seed, kind, zipf, joins, forks: generate(
            np.random.default_rng(seed),
            ranges=Ranges(operators=operators, parallelism=parallelism, kind=kind, zipf=zipf, joins=joins, forks=forks),
        ),
        seed=st.integers(0, 10**6),
        kind=st.sampled_from(["general", "structured", "full"]),
        zipf=st.sampled_from([0.0, 0.1, 1.0]),
        joins=st.sampled_from([0.0, 0.5, 1.0]),
        forks=st.sampled_from([0.0, 0.5]),
    )


small = drawn((1, 4), (1, 3))


def measured(t: Topology, which: str) -> Measure:
    if which == "criticality":
        return measured_criticality(t, {name: float(i % 3) + 0.5 for i, name in enumerate(sorted(t.operators))})
    return output_fidelity(t) if which == "of" else internal_completeness(t)


def best_of_all_plans(m: Measure, budget: int) -> float:
    """Return the best quality of all plans of the budget. No smaller plan is better, because measures are monotone."""
    plans = list(combinations(range(len(m.weights)), budget))
    matrix = np.zeros((len(m.weights), len(plans)))
    for column, plan in enumerate(plans):
        matrix[list(plan), column] = 1.0
    return float(m.values(matrix).max())


def planner_named(name: str) -> Planner:
    return ALL.get(name) or planner_of(name)


@pytest.mark.parametrize("name", list(dict.fromkeys([*ALL, *planner_names()])))
class TestEveryPlanner:
    @settings(max_examples=40)
    @given(t=small, which=st.sampled_from(["of", "ic", "criticality"]), share=st.floats(0, 1))
    def test_plan_keeps_budget_and_reports_true_quality(self, name, t, which, share):
        m = measured(t, which)
        budget = round(share * len(t.tasks))
        plan = planner_named(name).plan(m, budget)
        assert len(plan.tasks) == len(set(plan.tasks)) <= budget == plan.budget
        assert plan.quality == pytest.approx(m.of(task_numbers(m, plan)), abs=1e-12)
        assert plan.quality <= plan.bound <= 1
        assert (plan.planner, plan.objective, plan.topology) == (name, which, t.topology)

    @settings(max_examples=20)
    @given(t=small, share=st.floats(0, 1))
    def test_plan_depends_only_on_arguments(self, name, t, share):
        budget = round(share * len(t.tasks))
        again = Topology.model_validate_json(t.model_dump_json())
        assert planner_named(name).plan(output_fidelity(t), budget) == planner_named(name).plan(output_fidelity(again), budget)

    @settings(max_examples=15)
    @given(t=small)
    def test_budgets_of_zero_and_all_tasks(self, name, t):
        m = output_fidelity(t)
        assert planner_named(name).plan(m, 0).tasks == ()
        assert planner_named(name).plan(m, len(t.tasks)).quality == pytest.approx(1)

    def test_ties_are_broken_by_name(self, name):
        t = Topology(
            topology="alike",
            operators={
                "a": TaskOperator(parallelism=12, rate=1.0),
                "b": TaskOperator(parallelism=12, inputs={"a": "one-to-one"}),
            },
        )
        plan = planner_named(name).plan(output_fidelity(t), 2)
        assert plan.tasks in (("a/0", "b/0"), ("a/0", "a/1"))  # greedy knows no trees, and a package's planner may not either
        assert plan.tasks == ("a/0", "b/0") or name == "greedy" or name not in ALL

    @pytest.mark.parametrize("budget", [-1, 4])
    def test_impossible_budget_is_an_error(self, name, budget):
        t = Topology(topology="three", operators={"a": TaskOperator(parallelism=3, rate=1.0)})
        with pytest.raises(
            HoldfastError,
            match=f"budget {budget} does not fit topology 'three': it has 3 tasks.*give a budget from 0 to 3",
        ):
            planner_named(name).plan(output_fidelity(t), budget)


@settings(max_examples=80)
@given(t=small, which=st.sampled_from(["of", "ic", "criticality"]), share=st.floats(0, 1))
def test_dynamic_agrees_with_exhaustive_search(t, which, share):
    m = measured(t, which)
    budget = round(share * len(t.tasks))
    plan = Dynamic().plan(m, budget)
    assert plan.quality == pytest.approx(best_of_all_plans(m, budget), abs=1e-9)
    assert plan.proven
    if plan.tasks:  # Theorem 1: fewer replicas cannot reach the quality
        assert best_of_all_plans(m, len(plan.tasks) - 1) < plan.quality - 1e-12


def test_dynamic_refuses_large_topologies():
    t = generate(np.random.default_rng(1), ranges=Ranges(operators=(8, 8), parallelism=(9, 10), kind="full"))
    with pytest.raises(HoldfastError, match=r"too large for dynamic programming: it has \d+ MC-trees, more than 2000"):
        Dynamic().plan(output_fidelity(t), 20)
    with pytest.raises(HoldfastError, match="more than 10 candidate plans; use planner frontier or structure-aware"):
        Dynamic(most_plans=10).plan(output_fidelity(next(corpus(3, ranges=Ranges(kind="structured")))), 20)


@settings(max_examples=80)
@given(t=small, which=st.sampled_from(["of", "ic", "criticality"]), share=st.floats(0, 1))
def test_frontier_bounds_the_optimum(t, which, share):
    m = measured(t, which)
    budget = round(share * len(t.tasks))
    best = best_of_all_plans(m, budget)
    plan = Frontier().plan(m, budget)
    assert plan.quality <= best + 1e-9 <= plan.bound + 2e-9
    assert not plan.proven or plan.quality == pytest.approx(best, abs=1e-8)


@settings(max_examples=60)
@given(t=small, which=st.sampled_from(["of", "ic"]), share=st.floats(0, 1))
def test_frontier_bounds_the_optimum_without_fixing_terms(t, which, share):
    m = measured(t, which)
    budget = round(share * len(t.tasks))
    plan = Frontier(evaluations=0).plan(m, budget)
    assert plan.quality <= best_of_all_plans(m, budget) + 1e-9 <= plan.bound + 2e-9


@settings(max_examples=25)
@given(t=drawn((3, 7), (1, 6)), which=st.sampled_from(["of", "criticality"]), share=st.floats(0.1, 0.9))
def test_frontier_is_never_below_structure_aware(t, which, share):
    m = measured(t, which)
    budget = round(share * len(t.tasks))
    ours = Frontier(evaluations=2_000).plan(m, budget)
    assert ours.quality >= StructureAware().plan(m, budget).quality - 1e-12
    assert ours.quality >= Greedy().plan(m, budget).quality - 1e-12


def test_frontier_proves_most_paper_topologies_optimal():
    plans = [
        Frontier().plan(output_fidelity(t), round(share * len(t.tasks)))
        for kind in ("structured", "full")
        for t in corpus(5, 10, ranges=Ranges(kind=kind, zipf=0.1))
        for share in (0.2, 0.5)
    ]
    assert sum(plan.proven for plan in plans) >= 0.9 * len(plans)


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_structure_aware_is_never_below_greedy(share):
    gains, alone = [], []
    for t in corpus(7, 25, ranges=Ranges(kind="structured", zipf=0.1)):
        m, budget = output_fidelity(t), round(share * len(t.tasks))
        greedy = Greedy().plan(m, budget).quality
        gains.append(StructureAware().plan(m, budget).quality - greedy)
        alone.append(StructureAware(alone=True).plan(m, budget).quality - greedy)
    assert min(gains) > -1e-12
    assert np.mean(alone) > 0.02  # the paper's algorithm by itself, on average


@settings(max_examples=40)
@given(t=small, which=st.sampled_from(["of", "ic", "criticality"]), share=st.floats(0, 1))
def test_structure_aware_is_within_two_percent_of_dynamic(t, which, share):
    m = measured(t, which)
    budget = round(share * len(t.tasks))
    best = Dynamic().plan(m, budget).quality
    assert best - 0.02 <= StructureAware().plan(m, budget).quality <= best + 1e-9


def test_operator_fed_from_another_unit_is_a_segment():
    t = Topology(
        topology="either",
        operators={
            "a": TaskOperator(parallelism=2, rate=1.0),
            "b": TaskOperator(parallelism=3, rate=1.0),
            "c": TaskOperator(parallelism=2, inputs={"a": "one-to-one", "b": "full"}),
        },
    )
    m = output_fidelity(t)
    tasks = {tuple(t.tasks[i] for i in s) for sub in decompose(t) if not sub.full for s in segments(m, sub.operators)}
    assert tasks == {("a/0", "c/0"), ("a/1", "c/1"), ("c/0",), ("c/1",)}


def test_full_planner_is_optimal_for_equal_operators():
    t = Topology(
        topology="stages",
        operators={
            "a": TaskOperator(parallelism=3, rates=(5.0, 3.0, 2.0)),
            "b": TaskOperator(parallelism=3, inputs={"a": "full"}, shares=(5, 3, 2)),
        },
    )
    m = output_fidelity(t)
    for budget in range(2, 7):
        assert Full().plan(m, budget).quality == pytest.approx(best_of_all_plans(m, budget))


def test_structured_chooses_busiest_lane():
    t = Topology(
        topology="lanes",
        operators={
            "a": TaskOperator(parallelism=3, rates=(1.0, 5.0, 2.0)),
            "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"}),
            "c": TaskOperator(parallelism=3, inputs={"b": "one-to-one"}),
        },
    )
    assert Structured().plan(output_fidelity(t), 5).tasks == ("a/1", "b/1", "c/1")


def test_units_end_before_split_or_join_of_a_merge():
    merged = Topology(
        topology="figure 3a",
        operators={
            "o1": TaskOperator(parallelism=4, rate=1.0),
            "o2": TaskOperator(parallelism=2, inputs={"o1": "merge"}),
            "o3": TaskOperator(parallelism=4, inputs={"o2": "split"}),
        },
    )
    parts = segments(output_fidelity(merged), range(3))
    assert sorted(parts) == [(0,), (1,), (2,), (3,), (4, 6), (4, 7), (5, 8), (5, 9)]
    joined = Topology(
        topology="figure 3b",
        operators={
            "o1": TaskOperator(parallelism=4, rate=1.0),
            "o2": TaskOperator(parallelism=2, rate=1.0),
            "o3": TaskOperator(parallelism=2, inputs={"o1": "merge", "o2": "one-to-one"}, correlated=True),
        },
    )
    assert sorted(segments(output_fidelity(joined), range(3))) == [(0,), (1,), (2,), (3,), (4, 6), (5, 7)]


@settings(max_examples=60)
@given(t=drawn((1, 8), (1, 6)))
def test_decomposition_has_full_edges_between_parts(t):
    subs = decompose(t)
    where = {at: i for i, sub in enumerate(subs) for at in sub.operators}
    assert sorted(at for sub in subs for at in sub.operators) == list(range(len(t.order)))
    for streams in t.streams:
        for stream in streams:
            if where[stream.up] != where[stream.down] or subs[where[stream.up]].full:
                assert stream.partitioning == "full"
