"""Algorithm 5 as printed."""

import numpy as np
import pytest

from holdfast.documents.topology import TaskOperator, Topology
from holdfast.planning.ppa import output_fidelity
from holdfast_papers.ppa.generator import Ranges, generate
from holdfast_papers.ppa.literal_algorithm5 import LiteralAlgorithm5

FIGURE_4 = Topology(
    topology="figure 4",
    operators={
        "o1": TaskOperator(parallelism=4, rates=(4.0, 3.0, 2.0, 1.0)),
        "o2": TaskOperator(parallelism=2, inputs={"o1": "merge"}),
        "o3": TaskOperator(parallelism=2, inputs={"o2": "full"}),
        "o4": TaskOperator(inputs={"o3": "full"}),
    },
)


def test_budget_below_the_number_of_operators_gives_no_plan():
    measure = output_fidelity(FIGURE_4)
    assert LiteralAlgorithm5().plan(measure, 3).tasks == ()
    assert LiteralAlgorithm5().plan(measure, 4).tasks == ("o1/0", "o2/0", "o3/0", "o4/0")


def test_expansion_takes_the_densest_sub_topology():
    measure = output_fidelity(FIGURE_4)
    first = ("o1/0", "o2/0", "o3/0", "o4/0")
    assert LiteralAlgorithm5().plan(measure, 5).tasks == tuple(sorted((*first, "o3/1")))  # from 0.5 to 1, with o1 and o2 alive
    assert LiteralAlgorithm5().plan(measure, 6).tasks == tuple(sorted((*first, "o3/1", "o1/1")))
    assert LiteralAlgorithm5().plan(measure, 9).quality == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(6))
def test_plan_fits_the_budget(seed):
    topology = generate(np.random.default_rng(seed), ranges=Ranges(zipf=0.1))
    measure = output_fidelity(topology)
    for ratio in (0.1, 0.4, 0.8):
        budget = round(ratio * len(topology.tasks))
        plan = LiteralAlgorithm5().plan(measure, budget)
        assert len(plan.tasks) <= budget
        assert (plan.tasks == ()) == (budget < len(topology.operators))
