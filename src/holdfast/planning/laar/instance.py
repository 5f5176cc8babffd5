"""A planning problem as arrays: the descriptor with expected rates, the placement of replicas, and the SLA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.documents.descriptor import Configuration, Descriptor
from holdfast.errors import HoldfastError
from holdfast.planning.laar.placement import place
from holdfast.planning.laar.rates import expected_rates

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Active = NDArray[np.bool_]

# Eq. 11 requires a load strictly below K; one part in 10^9 ensures that and tolerates rounding errors of a sum.
HEADROOM = 1e-9
IC_TOLERANCE = 1e-9
# Sums over a billing period and their prices must stay far below the largest float.
COUNTABLE = 1e200


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One application to plan for. PEs are in topological order; arrays are indexed [configuration, PE].

    `external_in` and `external_out` are the tuples per second that a PE processes and emits because of sources alone. `rate_in`,
    `rate_out` and `work` include all inputs. The edges from other PEs into PE i are `tail[first_edge[i]:first_edge[i + 1]]`;
    `selectivity` has the same order. `node_of[PE, replica]` is a node's number.
    """

    application: str
    pes: tuple[str, ...]
    operators: tuple[tuple[str, ...], ...]  # of each PE
    configurations: tuple[Configuration, ...]
    nodes: tuple[str, ...]
    probability: Floats
    external_in: Floats
    external_out: Floats
    first_edge: Ints
    tail: Ints
    selectivity: Floats
    rate_in: Floats
    rate_out: Floats
    work: Floats
    node_of: Ints
    capacity: Floats
    sla: float
    billing_period_s: float

    @classmethod
    def of(
        cls,
        descriptor: Descriptor,
        *,
        sla: float | None = None,
        placement: Mapping[str, Sequence[str]] | None = None,
    ) -> Instance:
        """Return the descriptor's problem. SLA and placement default to the descriptor's, or to a computed placement."""
        pes, configurations = descriptor.topological_order, descriptor.input_configurations
        nodes = tuple(descriptor.nodes)
        if not nodes:
            raise HoldfastError(
                f"descriptor of '{descriptor.application}' names no nodes, so there is nothing to place replicas on; "
                "add at least one under 'nodes', with its cores"
            )
        placed = placement or descriptor.placement or place(descriptor)
        node_of = np.array([[nodes.index(node) for node in placed[pe]] for pe in pes], dtype=np.int64)
        goal = descriptor.contract.sla.internal_completeness if sla is None else sla
        if not 0 <= goal <= 1:
            raise HoldfastError(f"an SLA on internal completeness is a number from 0 to 1, got {goal:g}")
        shape = (len(configurations), len(pes))
        external_in, external_out, rate_in, rate_out, work = (np.zeros(shape) for _ in range(5))
        index = {pe: i for i, pe in enumerate(pes)}
        first_edge, tail, selectivity = [0], list[int](), list[float]()
        rates = [expected_rates(descriptor, configuration) for configuration in configurations]
        with np.errstate(over="ignore", invalid="ignore"):  # the check below raises an error
            for i, pe in enumerate(pes):
                for name in descriptor.predecessors(pe):
                    edge = descriptor.pes[pe].inputs[name]
                    incoming = np.array([rate[name] for rate in rates])
                    rate_in[:, i] += incoming
                    work[:, i] += edge.cost * incoming
                    if name in index:
                        tail.append(index[name])
                        selectivity.append(edge.selectivity)
                    else:
                        external_in[:, i] += incoming
                        external_out[:, i] += edge.selectivity * incoming
                first_edge.append(len(tail))
                rate_out[:, i] = [rate[pe] for rate in rates]
        capacity = np.array([descriptor.nodes[node].cores for node in nodes], dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            replicas, period = node_of.shape[1], max(1.0, descriptor.contract.billing_period_s)
            most = replicas * period * (rate_in.sum() + rate_out.sum() + work.sum()) + capacity.sum()
        if not most <= COUNTABLE:
            raise HoldfastError(
                f"rates of '{descriptor.application}' grow beyond what can be counted; check the rates of its sources, the "
                "selectivities and costs of its PEs, the cores of its nodes and the billing period"
            )
        return cls(
            application=descriptor.application,
            pes=pes,
            operators=tuple(descriptor.pes[pe].operators for pe in pes),
            configurations=configurations,
            nodes=nodes,
            probability=np.array([c.probability for c in configurations]),
            external_in=external_in,
            external_out=external_out,
            first_edge=np.array(first_edge, dtype=np.int64),
            tail=np.array(tail, dtype=np.int64),
            selectivity=np.array(selectivity, dtype=np.float64),
            rate_in=rate_in,
            rate_out=rate_out,
            work=work,
            node_of=node_of,
            capacity=capacity,
            sla=goal,
            billing_period_s=descriptor.contract.billing_period_s,
        )

    def at(self, sla: float) -> Instance:
        """Return the same problem with another SLA."""
        return replace(self, sla=sla)

    def repeated(self, c: int, times: int) -> Instance:
        """Return the problem with `times` copies of configuration c in place of all, to evaluate that many choices at once."""

        def again(rows: Floats) -> Floats:
            return np.repeat(rows[c : c + 1], times, axis=0)

        return replace(
            self,
            configurations=(self.configurations[c],) * times,
            probability=again(self.probability),
            external_in=again(self.external_in),
            external_out=again(self.external_out),
            rate_in=again(self.rate_in),
            rate_out=again(self.rate_out),
            work=again(self.work),
        )

    @property
    def shape(self) -> tuple[int, int, int]:
        """(configurations, PEs, replicas of a PE): the shape of a strategy's `active` array."""
        return len(self.configurations), len(self.pes), int(self.node_of.shape[1])

    @property
    def limit(self) -> Floats:
        """The largest load that each node may have (Eq. 11)."""
        return self.capacity * (1 - HEADROOM)
