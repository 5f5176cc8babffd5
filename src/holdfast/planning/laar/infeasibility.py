"""The error for an application that does not fit its nodes even without replication."""

from collections.abc import Iterator

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar.instance import Instance


class InfeasibleError(HoldfastError):
    """No strategy meets the SLA on these nodes."""


def overload_error(instance: Instance) -> InfeasibleError:
    """Return the error that names where one replica of each PE exceeds the nodes' capacity."""
    return InfeasibleError(
        f"no strategy for '{instance.application}' fits its nodes with any SLA: {'; '.join(_does_not_fit(instance))}; "
        "add nodes or cores, or place replicas elsewhere"
    )


def _does_not_fit(instance: Instance) -> Iterator[str]:
    """Yield the reasons why one replica of each PE does not fit."""
    explained = False
    for c, configuration in enumerate(instance.configurations):
        where = f"in configuration '{configuration.name}'"
        for i, pe in enumerate(instance.pes):
            if (instance.work[c, i] > instance.limit[instance.node_of[i]]).all():
                explained = True
                yield f"{where} one replica of '{pe}' needs {instance.work[c, i]:.3g} cores, more than any of its nodes has"
        needed, capacity = instance.work[c].sum(), instance.capacity.sum()
        if needed > instance.limit.sum():
            explained = True
            yield f"{where} one replica of each PE needs {needed:.3g} cores, all nodes together have {capacity:.3g}"
    if not explained:
        hungriest = int(np.argmax(instance.work.sum(axis=1)))
        yield (
            f"in configuration '{instance.configurations[hungriest].name}' one replica of each PE needs "
            f"{instance.work[hungriest].sum():.3g} of {instance.capacity.sum():.3g} cores, but no choice of replicas "
            "keeps every single node below its capacity"
        )
