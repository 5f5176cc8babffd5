"""Internal completeness, cost and node load of a strategy: LAAR Eq. 5 to 8 and 11 to 13.

A strategy is a Boolean array `active[configuration, PE, replica]` in the instance's order.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.planning.laar.failure_models import FailureModel, Pessimistic
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Floats, Instance


def best_case(instance: Instance) -> float:
    """Return BIC: the tuples that all PEs process in a billing period without failures (Eq. 5)."""
    return float(instance.billing_period_s * (instance.probability @ instance.rate_in).sum())


def failure_case(instance: Instance, active: Active, *, failure: FailureModel | None = None) -> float:
    """Return FIC: the tuples that all PEs are expected to process in a billing period under the failure model (Eq. 6)."""
    model = failure or Pessimistic()
    processed = sum(share * processed_rates(instance, phi) for share, phi in model.scenarios(instance, active))
    return float(instance.billing_period_s * (instance.probability @ processed).sum())


def internal_completeness(instance: Instance, active: Active, *, failure: FailureModel | None = None) -> float:
    """Return IC = FIC / BIC (Eq. 8), under the pessimistic model by default. It is 1 for an application without tuples.

    In the pipeline of the paper's Figure 1, with both replicas of both PEs active at Low and one each at High, the tuples that
    arrive at Low survive: 0.8 * 4 of the 0.8 * 4 + 0.2 * 8 tuples per second.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> instance = Instance.of(figure_1())
    >>> active = np.array([[[True, True], [True, True]], [[False, True], [True, False]]])
    >>> round(internal_completeness(instance, active), 4)
    0.6667
    >>> internal_completeness(instance, np.ones_like(active))
    1.0
    """
    best = best_case(instance)
    return failure_case(instance, active, failure=failure) / best if best > 0 else 1.0


def required_completeness(instance: Instance) -> float:
    """Return the share of BIC that the SLA requires; 0 if no tuple is ever expected, because IC is 1 then."""
    return instance.sla if best_case(instance) > 0 else 0.0


def processed_rates(instance: Instance, phi: Floats) -> Floats:
    """Return the tuples per second that each PE processes if it is up with probability φ (inner terms of Eq. 6 and 7)."""
    processed, out = np.zeros_like(phi), np.zeros_like(phi)
    for i in range(len(instance.pes)):
        edges = slice(instance.first_edge[i], instance.first_edge[i + 1])
        incoming = out[:, instance.tail[edges]]
        processed[:, i] = phi[:, i] * (instance.external_in[:, i] + incoming.sum(axis=1))
        out[:, i] = phi[:, i] * (instance.external_out[:, i] + incoming @ instance.selectivity[edges])
    return processed


def cost(instance: Instance, active: Active) -> float:
    """Return the CPU seconds that all active replicas use in a billing period (Eq. 13)."""
    used = (instance.work * active.sum(axis=2)).sum(axis=1)
    return float(instance.billing_period_s * (instance.probability @ used))


def node_load(instance: Instance, active: Active) -> Floats:
    """Return the load of each node in CPU seconds per second, [configuration, node] (left side of Eq. 11)."""
    load = np.zeros((len(instance.configurations), len(instance.nodes)))
    for node in range(len(instance.nodes)):
        load[:, node] = (active * (instance.node_of == node) * instance.work[:, :, None]).sum(axis=(1, 2))
    return load


def violations(instance: Instance, active: Active, *, sla: bool = True, failure: FailureModel | None = None) -> Iterator[str]:
    """Yield a sentence for each violation of Eq. 10, 11 and 12. A strategy without violations may be deployed."""
    for c, h in np.argwhere(node_load(instance, active) > instance.limit):
        load = node_load(instance, active)[c, h]
        yield (
            f"node '{instance.nodes[h]}' is overloaded in configuration '{instance.configurations[c].name}': "
            f"load {load:.4g}, capacity {instance.capacity[h]:.4g}"
        )
    for c, i in np.argwhere(~active.any(axis=2)):
        yield f"PE '{instance.pes[i]}' has no active replica in configuration '{instance.configurations[c].name}'"
    if sla:
        reached = internal_completeness(instance, active, failure=failure)
        if reached < instance.sla - IC_TOLERANCE:
            yield f"internal completeness is {format_ic_below(reached, instance.sla)}, the SLA wants {instance.sla:.10g}"


def format_ic_below(reached: float, sla: float) -> str:
    """Format an IC that is below the SLA with at least four digits, and enough to show that it is below.

    >>> format_ic_below(2 / 3, 0.9), format_ic_below(0.99996, 0.99999)
    ('0.6667', '0.99996')
    """
    digits = next((d for d in range(4, 12) if round(reached, d) < sla), 4)
    return f"{reached:.{digits}f}"
