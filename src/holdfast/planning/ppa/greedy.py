"""The greedy planner (PPA Algorithm 2): the tasks whose failure alone costs most."""

from dataclasses import dataclass

import numpy as np

from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.planner import Plan, check_budget, made, ranked


@dataclass(frozen=True, slots=True)
class Greedy:
    """Replicates the tasks that cost most quality when each fails alone. It never asks whether they form a tree.

    >>> from holdfast.documents.topology import TaskOperator, Topology
    >>> from holdfast.planning.ppa.fidelity import output_fidelity
    >>> lanes = Topology(topology="lanes", operators={
    ...     "a": TaskOperator(parallelism=2, rates=(2.0, 1.0)),
    ...     "b": TaskOperator(parallelism=2, inputs={"a": "one-to-one"})})
    >>> Greedy().plan(output_fidelity(lanes), budget=2).tasks
    ('a/0', 'b/0')
    """

    name: str = "greedy"

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        everything = np.arange(len(measure.weights))
        left = measure.without_each(np.ones(len(everything)), everything)
        return made(self, measure, budget, chosen=ranked(measure, -left)[:budget])
