"""Explanations of strategies and of their absence."""

from itertools import pairwise

import numpy as np
import pytest

from holdfast.documents.descriptor import DescriptorNode
from holdfast.errors import HoldfastError
from holdfast.planning.laar import InfeasibleError, Instance, Outcome, Solution, infeasible_error, next_steps, plan_strategy
from holdfast.planning.laar.examples import figure_1
from holdfast_papers.laar.generator import Ranges, generate

SMALL = Ranges(nodes=(2, 3), pes_per_node=(3, 5))


class Helpless:
    """A solver that finds out nothing."""

    name = "milp"

    def solve(self, instance, *, seconds=60.0):
        return Solution(self.name, Outcome.TMO, seconds)


def test_infeasible_sla_error_names_best_ic_and_cause():
    with pytest.raises(InfeasibleError) as caught:
        plan_strategy(figure_1(), sla=0.9)
    message = str(caught.value)
    assert "meets an internal completeness of 0.9: the best that can be met is 0.6667; what blocks more: " in message
    assert "in configuration 'high' 'node1' (all replicas need 1.6 of 1 cores" in message
    assert "cannot carry all replicas of pe1, pe2" in message
    assert "lower the SLA, or add nodes or cores" in message


def test_undecided_error_names_best_known_ic():
    with pytest.raises(HoldfastError) as caught:
        plan_strategy(figure_1(), sla=0.9, solver=Helpless(), seconds=10.0)
    message = str(caught.value)
    assert "that meets 0.9 was found by milp in 10 s, nor a proof that there is none" in message
    assert "the highest internal completeness of those found is 0.6667, and none exceeds 0.6667" in message
    assert message.endswith("give more seconds, or lower the SLA")


def test_timeout_is_not_reported_as_overload(monkeypatch):
    monkeypatch.setattr("holdfast.planning.laar.explanation.most_complete", lambda instance, *, seconds: (None, 1.0))
    message = str(infeasible_error(Instance.of(figure_1(sla=0.9)), seconds=0.1))
    assert "the best found in time reaches 0.6667, which may not be the best possible; what blocks" in message
    crowded = figure_1(sla=0.9).model_copy(
        update={"nodes": {"node1": DescriptorNode(cores=0.5), "node2": DescriptorNode(cores=0.5)}}
    )
    assert "was not determined in the 0.1 s left" in str(infeasible_error(Instance.of(crowded), seconds=0.1))


def test_nodes_too_small_for_one_replica_are_named():
    tiny = figure_1().model_copy(update={"nodes": {"node1": DescriptorNode(cores=0.5), "node2": DescriptorNode(cores=0.5)}})
    with pytest.raises(InfeasibleError) as caught:
        plan_strategy(tiny)
    message = str(caught.value)
    assert "fits its nodes with any SLA" in message
    assert "in configuration 'high' one replica of 'pe1' needs 0.8 cores, more than any of its nodes has" in message
    assert "in configuration 'high' one replica of each PE needs 1.6 cores, all nodes together have 1" in message


def test_unpackable_nodes_are_reported():
    """Three PEs of 0.6 need 1.8 of 2 cores, but no two share a node."""
    descriptor = figure_1()
    pe = descriptor.pes["pe2"].inputs["pe1"].model_copy(update={"cost": 0.075})
    pes = {
        "pe1": descriptor.pes["pe1"].model_copy(update={"inputs": {"source": pe}}),
        "pe2": descriptor.pes["pe2"].model_copy(update={"inputs": {"pe1": pe}}),
        "pe3": descriptor.pes["pe2"].model_copy(update={"inputs": {"pe1": pe}}),
    }
    crowded = descriptor.model_copy(update={"pes": pes, "placement": dict.fromkeys(pes, ("node1", "node2"))})
    assert "no choice of replicas keeps every single node below its capacity" in str(infeasible_error(Instance.of(crowded)))


def test_strategy_explains_replicas_and_next_step():
    lines = plan_strategy(figure_1(), sla=0.6, solver="milp").why()
    assert lines[0].startswith("IC 0.6667 for an SLA of 0.6, at 4.1472e+06 CPU s per billing period (optimal, by milp")
    assert "pe1 in 'low': all replicas active; with one, IC would fall from 0.6667 to 0.0000, below the SLA of 0.6" in lines
    assert any(line.startswith("pe1 in 'high': replica") and "alone; all would add 0.1667 IC" in line for line in lines)
    assert any("pe2 in 'high'" in line and "more would add nothing, since its inputs are not full" in line for line in lines)
    assert lines[-1].startswith("next: no PE fits with all its replicas")


def test_next_step_has_most_ic_per_cost_and_fits():
    descriptor = generate(np.random.default_rng(5), ranges=SMALL)
    planned = plan_strategy(descriptor, sla=0.5)
    steps = next_steps(planned.instance, planned.active)
    fitting = [step for step in steps if step.fits]
    assert steps and steps[: len(fitting)] == fitting
    assert all(a.ic / a.cost >= b.ic / b.cost for a, b in pairwise(fitting))
