"""MC-trees: they are as in Definition 1, are counted without listing them, and are listed lazily."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from holdfast.documents.topology import TaskOperator, Topology
from holdfast.planning.ppa import internal_completeness, output_fidelity
from holdfast_papers.ppa.generator import Ranges, generate
from holdfast_papers.ppa.mc_trees import TreeCount, count_trees, count_ways, trees, ways


def figure_1(*, correlated: bool) -> Topology:
    return Topology(
        topology="figure 1",
        operators={
            "o1": TaskOperator(parallelism=4, rate=1.0),
            "o2": TaskOperator(parallelism=4, rate=1.0),
            "o3": TaskOperator(parallelism=4, inputs={"o1": "one-to-one", "o2": "one-to-one"}, correlated=correlated),
            "o4": TaskOperator(parallelism=2, inputs={"o3": "full"}),
        },
    )


@pytest.mark.parametrize(("correlated", "count"), [(False, 16), (True, 8)])
def test_figure_1_has_the_papers_number_of_trees(correlated, count):
    m = output_fidelity(figure_1(correlated=correlated))
    assert count_trees(m) == TreeCount(count, exact=True)
    assert len(list(trees(m))) == len(set(trees(m))) == count


def test_figure_1_has_the_papers_trees():
    t = figure_1(correlated=True)
    assert {t.number[task] for task in ("o1/0", "o2/0", "o3/0", "o4/0")} in set(trees(output_fidelity(t)))


small = st.builds(
    lambda seed, joins, forks: generate(
        np.random.default_rng(seed),
        ranges=Ranges(operators=(1, 5), parallelism=(1, 3), joins=joins, forks=forks, zipf=0.3),
    ),
    seed=st.integers(0, 10**6),
    joins=st.sampled_from([0.0, 1.0]),
    forks=st.sampled_from([0.0, 0.5]),
)


@settings(max_examples=60)
@given(small)
def test_count_equals_number_of_distinct_trees(t):
    for m in (output_fidelity(t), internal_completeness(t)):
        assert count_trees(m) == TreeCount(len(set(trees(m))), exact=True)
        assert len(set(trees(m))) == len(list(trees(m))) <= count_ways(m) == len(list(ways(m)))


@settings(max_examples=60)
@given(small)
def test_tree_produces_output_and_needs_every_task(t):
    m = output_fidelity(t)
    for tree in islice(trees(m), 20):
        assert m.of(tree) > 0
        assert all(m.of(tree - {task}) == 0 for task in tree)


@settings(max_examples=60)
@given(small)
def test_trees_are_all_minimal_sets_with_output(t):
    assume(len(t.tasks) <= 9)
    m = output_fidelity(t)
    sets = sorted((frozenset(i for i in range(len(t.tasks)) if mask >> i & 1) for mask in range(2 ** len(t.tasks))), key=len)
    minimal: list[frozenset[int]] = []
    for one in sets:
        if not any(known <= one for known in minimal) and m.of(one) > 0:
            minimal.append(one)
    assert set(trees(m)) == set(minimal)


def diamond(stages: int, width: int) -> Topology:
    """Stages of a fork whose two branches meet again in a join, with full edges only."""
    operators = {"o0": TaskOperator(parallelism=width, rate=1.0)}
    for i in range(1, stages + 1):
        left, right = (TaskOperator(parallelism=width, inputs={f"o{i - 1}": "full"}) for _ in range(2))
        operators |= {f"l{i}": left, f"r{i}": right}
        operators[f"o{i}"] = TaskOperator(parallelism=width, correlated=True, inputs={f"l{i}": "full", f"r{i}": "full"})
    return Topology(topology="diamond", operators=operators)


def test_rejoining_fork_shares_one_task():
    m = output_fidelity(diamond(1, 3))
    assert count_ways(m) == 3**5
    assert count_trees(m) == TreeCount(3**4, exact=True)
    assert all(len(tree) == 4 for tree in trees(m))


def test_detour_around_direct_stream_is_no_tree():
    """The output reads the source itself and through another operator: the tree has only the source and the output."""
    t = Topology(
        topology="shortcut",
        operators={
            "a": TaskOperator(rate=1.0),
            "b": TaskOperator(inputs={"a": "full"}),
            "c": TaskOperator(inputs={"a": "full", "b": "full"}),
        },
    )
    m = output_fidelity(t)
    assert [{t.tasks[i] for i in tree} for tree in trees(m)] == [{"a/0", "c/0"}]
    assert (count_trees(m), count_ways(m)) == (TreeCount(1, exact=True), 2)


def test_too_many_trees_with_rejoining_forks_are_bounded():
    m = output_fidelity(diamond(5, 10))
    count = count_trees(m)
    assert not count.exact
    assert count.number == count_ways(m) >= 10**16
    assert all(len(tree) == 16 for tree in islice(trees(m), 50))


@settings(max_examples=60)
@given(small, st.integers(0, 10**6))
def test_plan_without_a_tree_has_no_quality(t, seed):
    m = output_fidelity(t)
    rng = np.random.default_rng(seed)
    plan = {i for i in range(len(t.tasks)) if rng.random() < 0.6}
    assert (m.of(plan) > 0) == any(tree <= plan for tree in trees(m))


def test_huge_tree_counts_are_exact_and_listed_lazily():
    names = [f"o{i:02d}" for i in range(40)]
    t = Topology(
        topology="forty full stages",
        operators={
            n: TaskOperator(parallelism=10, rate=1.0 if i == 0 else None, inputs={names[i - 1]: "full"} if i else {})
            for i, n in enumerate(names)
        },
    )
    m = output_fidelity(t)
    assert count_trees(m) == TreeCount(10**40, exact=True)
    assert [len(tree) for tree in islice(trees(m), 3)] == [40, 40, 40]
