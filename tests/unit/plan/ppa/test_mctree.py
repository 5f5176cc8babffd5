"""MC-trees: counted without listing, listed on demand, and what Definition 1 says they are."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.topology import TaskOperator, Topology
from holdfast.plan.ppa import count_trees, internal_completeness, output_fidelity, trees
from holdfast.plan.ppa.generator import Ranges, generate


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
    assert count_trees(m) == count == len(set(trees(m)))


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
def test_the_count_is_the_length_of_the_list(t):
    for m in (output_fidelity(t), internal_completeness(t)):
        assert count_trees(m) == sum(1 for _ in trees(m))


@settings(max_examples=60)
@given(small)
def test_a_tree_produces_output_and_fails_with_any_of_its_tasks(t):
    m = output_fidelity(t)
    forks = any(len(readers) > 1 for readers in t.readers)
    for tree in islice(trees(m), 20):
        assert m.of(tree) > 0
        if not forks:  # where branches meet again, a tree may hold a task that only one branch's choice needs
            assert all(m.of(tree - {task}) == 0 for task in tree)


@settings(max_examples=60)
@given(small, st.integers(0, 10**6))
def test_a_plan_without_a_whole_tree_is_worth_nothing(t, seed):
    m = output_fidelity(t)
    rng = np.random.default_rng(seed)
    plan = {i for i in range(len(t.tasks)) if rng.random() < 0.6}
    assert (m.of(plan) > 0) == any(tree <= plan for tree in trees(m))


def test_trees_beyond_number_are_counted_exactly_and_listed_one_by_one():
    names = [f"o{i:02d}" for i in range(40)]
    t = Topology(
        topology="forty full stages",
        operators={
            n: TaskOperator(parallelism=10, rate=1.0 if i == 0 else None, inputs={names[i - 1]: "full"} if i else {})
            for i, n in enumerate(names)
        },
    )
    m = output_fidelity(t)
    assert count_trees(m) == 10**40
    assert [len(tree) for tree in islice(trees(m), 3)] == [40, 40, 40]
