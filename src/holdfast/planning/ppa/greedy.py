"""PPA Algorithm 2, greedy: replicates the tasks whose single failure costs most."""

from dataclasses import dataclass

import numpy as np

from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.planner import Plan, build_plan, check_budget, rank_tasks


@dataclass(frozen=True, slots=True)
class Greedy:
    """Replicates the tasks that cost most quality when each fails alone. It ignores whether they form an MC-tree.

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
        quality = measure.without_each(np.ones(len(everything)), everything)
        return build_plan(self, measure, budget, chosen=rank_tasks(measure, -quality)[:budget])
