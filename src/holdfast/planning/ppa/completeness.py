"""Internal completeness as a planner's measure (PPA section VI-B, Figure 12; LAAR Eq. 5 to 8)."""

import numpy as np

from holdfast.documents.topology import Topology
from holdfast.planning.ppa.fidelity import Measure, check_rates, normalised


def internal_completeness(topology: Topology) -> Measure:
    """Return the IC measure: the share of all tasks' tuples that are still processed.

    A task is weighted by its input rate (a source's task by its output rate), and inputs count as independent. Figure 12
    compares this with output fidelity.

    >>> from holdfast.documents.topology import TaskOperator
    >>> chain = Topology(topology="chain", operators={
    ...     "a": TaskOperator(parallelism=2, rates=(3.0, 1.0)),
    ...     "b": TaskOperator(inputs={"a": "full"})})
    >>> internal_completeness(chain).of({0, 2})  # 3 of 4 emitted and 3 of 4 read
    0.75
    """
    everything = range(len(topology.order))
    check_rates(topology)
    weights = normalised(np.array(topology.input_rates), everything, topology)
    return Measure("ic", topology, weights, joins=False)
