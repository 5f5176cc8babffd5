"""Measured criticality as a planner's measure: operators are weighted by the measured cost of their loss."""

from collections.abc import Mapping

import numpy as np

from holdfast.documents.topology import Topology
from holdfast.errors import DocumentError
from holdfast.planning.ppa.fidelity import Measure, check_rates


def measured_criticality(topology: Topology, impact: Mapping[str, float], *, thing: str = "criticality") -> Measure:
    """Return the mean fidelity of the operators, weighted by their measured quality impact instead of their rates.

    Within an operator, tasks are weighted by rate, and joins multiply as in output fidelity. `impact` names every operator; 0 means
    that its loss does no harm by itself. Errors call the document `thing`.

    >>> from holdfast.documents.topology import TaskOperator
    >>> pair = Topology(topology="pair", operators={
    ...     "a": TaskOperator(parallelism=2, rate=1.0), "b": TaskOperator(parallelism=2, inputs={"a": "one-to-one"})})
    >>> round(measured_criticality(pair, {"a": 3.0, "b": 1.0}).of({0, 1, 2}), 9)
    0.875
    """
    errors = [f"{name}: gives no quality impact" for name in sorted(topology.operators.keys() - impact.keys())]
    errors += [
        f"{name}: is not an operator of topology '{topology.topology}'; operators are: {', '.join(sorted(topology.operators))}"
        for name in sorted(impact.keys() - topology.operators.keys())
    ]
    errors += [
        f"{name}: wanted a quality impact of at least 0, got {value:g}"
        for name, value in sorted(impact.items())
        if not (np.isfinite(value) and value >= 0)
    ]
    most = max(impact.values(), default=0.0)
    if not errors and not most > 0:
        errors.append("all impacts are 0; at least one operator's loss must cost something")
    if errors:
        raise DocumentError(thing, errors)
    check_rates(topology)
    weights = np.zeros(len(topology.tasks))
    for name, span in zip(topology.order, topology.spans, strict=True):
        rates = topology.rates[span]
        shares = rates / rates.sum() if rates.sum() > 0 else np.full(len(rates), 1.0 / len(rates))
        weights[span] = impact[name] / most * shares  # only ratios matter; scaling by the largest avoids overflow of the sum
    weights /= weights.sum()
    weights.flags.writeable = False
    return Measure("criticality", topology, weights)
