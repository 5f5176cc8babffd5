"""The deployment of an application: its descriptor and strategy, converted to the arrays of the cluster simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.documents import Descriptor
from holdfast.errors import DocumentError, HoldfastError
from holdfast.planning.laar import Active, Instance, Strategy, expected_rates
from holdfast_papers.simulate.faults import FaultTargets
from holdfast_papers.simulate.settings import SCHEMES, FailureHandling, SimulationSettings
from holdfast_papers.simulate.state import ClusterArrays, ControllerArrays, Flags, Floats, Ints


@dataclass(frozen=True, eq=False)
class Deployment:
    """The placement of replicas and which of them are active: `active[configuration, PE, replica]`, `rates[configuration, source]`.

    PEs are in the descriptor's topological order.
    """

    descriptor: Descriptor
    node_of: Ints
    configurations: tuple[str, ...]
    active: Flags
    rates: Floats

    @classmethod
    def of(cls, descriptor: Descriptor, strategy: Strategy) -> Deployment:
        """Deploy the descriptor's application with a strategy document. Raises DocumentError if the two do not match."""
        errors = list(_strategy_errors(descriptor, strategy))
        if errors:
            raise DocumentError(f"strategy of '{strategy.application}'", errors)
        pes, nodes = descriptor.topological_order, {node: number for number, node in enumerate(descriptor.nodes)}
        ordered = sorted(strategy.configurations, key=lambda activation: activation.name)
        active = np.zeros((len(ordered), len(pes), strategy.replicas), dtype=np.bool_)
        for c, activation in enumerate(ordered):
            for i, pe in enumerate(pes):
                active[c, i, list(activation.active[pe])] = True
        return cls(
            descriptor=descriptor,
            node_of=np.array([[nodes[node] for node in strategy.placement[pe]] for pe in pes], dtype=np.int64),
            configurations=tuple(activation.name for activation in ordered),
            active=active,
            rates=np.array([[activation.rates[source] for source in descriptor.sources] for activation in ordered]),
        )

    @classmethod
    def planned(cls, descriptor: Descriptor, instance: Instance, active: Active) -> Deployment:
        """Deploy the application with a strategy that is an array in the instance's order."""
        return cls(
            descriptor=descriptor,
            node_of=instance.node_of,
            configurations=tuple(c.name for c in instance.configurations),
            active=np.asarray(active, dtype=np.bool_),
            rates=np.array([[c.rates[source] for source in descriptor.sources] for c in instance.configurations]),
        )

    @property
    def pes(self) -> tuple[str, ...]:
        return self.descriptor.topological_order

    @property
    def replicas(self) -> int:
        return int(self.active.shape[2])

    @cached_property
    def fault_targets(self) -> FaultTargets:
        """What a fault schedule can name in this deployment."""
        nodes = self.descriptor.nodes
        racks, cores = zip(*((node.rack, float(node.cores)) for node in nodes.values()), strict=True)
        others = frozenset((*self.descriptor.sources, *self.descriptor.sinks))
        return FaultTargets(self.pes, self.replicas, tuple(nodes), racks, cores, self.node_of, others)

    def cluster_arrays(self, settings: SimulationSettings) -> ClusterArrays:
        """Return the cluster and the application as arrays."""
        edges = _edges(self.descriptor)
        flat = self.node_of.ravel()
        on_node = np.argsort(flat, kind="stable")
        first = np.searchsorted(flat[on_node], np.arange(len(self.descriptor.nodes) + 1))
        return ClusterArrays(
            sources=len(self.descriptor.sources),
            pes=len(self.pes),
            replicas=self.replicas,
            first_edge=edges.first,
            tail=edges.tail,
            selectivity=edges.selectivity,
            cost=edges.cost,
            room=np.full_like(edges.peak, np.inf) if np.isinf(settings.queue_s) else np.maximum(1.0, settings.queue_s * edges.peak),
            first_on_node=first.astype(np.int64),
            on_node=on_node.astype(np.int64),
            capacity=np.array([node.cores * settings.step_s for node in self.descriptor.nodes.values()], dtype=np.float64),
            scheme=_schemes(self.pes, settings.failure_handling),
            by_epoch=settings.epoch_s > 0,
            epoch=max(1, settings.steps(settings.epoch_s)),
            job_cost=_job_costs(self.pes, settings),
        )

    def controller_arrays(self, settings: SimulationSettings) -> ControllerArrays:
        """Return the strategy and the controller's settings as arrays."""
        control = settings.control
        every = max(1, settings.steps(max(control.every_s, settings.epoch_s)))
        return ControllerArrays(
            active=self.active,
            expected=self.rates * settings.step_s * every,
            every=every,
            tolerance=control.tolerance,
            steady=control.steady,
            switch=settings.steps(control.switch_s),
            resync=settings.steps(control.resync_s),
            replace_dead=control.replace_dead,
            replace=settings.steps(control.replace_s),
        )

    def configuration_for(self, rates: Floats) -> int:
        """Return the initial configuration: the nearest one that dominates the rates, or else the one that falls short least."""
        short = (np.maximum(0.0, rates - self.rates * (1 + 1e-9)) ** 2).sum(axis=1)
        far = ((rates - self.rates) ** 2).sum(axis=1)
        return int(np.lexsort((far, short))[0])

    def ideal(self, totals: Floats) -> Floats:
        """Return the tuples that each PE processes if each source emits its total and no tuple is lost."""
        edges, pes = _edges(self.descriptor), len(self.pes)
        out = np.concatenate([totals, np.zeros(pes)])
        read = np.zeros(pes)
        for i in range(pes):
            span = slice(edges.first[i], edges.first[i + 1])
            incoming = out[edges.tail[span]]
            read[i] = incoming.sum()
            out[len(totals) + i] = incoming @ edges.selectivity[span]
        return read


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    first: Ints
    tail: Ints
    selectivity: Floats
    cost: Floats
    peak: Floats


def _edges(descriptor: Descriptor) -> _Edges:
    """Return the edges into all PEs, with the highest rate of each in any configuration."""
    streams = {name: n for n, name in enumerate([*descriptor.sources, *descriptor.topological_order])}
    peaks = dict.fromkeys(streams, 0.0)
    for configuration in descriptor.input_configurations:
        for name, rate in expected_rates(descriptor, configuration).items():
            peaks[name] = max(peaks[name], rate)
    first, names, edges = [0], list[str](), []
    for pe in descriptor.topological_order:
        for name in descriptor.predecessors(pe):
            names.append(name)
            edges.append(descriptor.pes[pe].inputs[name])
        first.append(len(names))
    return _Edges(
        first=np.array(first, dtype=np.int64),
        tail=np.array([streams[name] for name in names], dtype=np.int64),
        selectivity=np.array([edge.selectivity for edge in edges], dtype=np.float64),
        cost=np.array([edge.cost for edge in edges], dtype=np.float64),
        peak=np.array([peaks[name] for name in names], dtype=np.float64),
    )


def _schemes(pes: Sequence[str], handling: FailureHandling) -> Ints:
    unknown = sorted(set(handling.schemes) - set(pes))
    if unknown:
        raise HoldfastError(f"the failure handling has a scheme for PE '{unknown[0]}', which the descriptor does not have")
    return np.array([SCHEMES.index(handling.scheme_of(pe)) for pe in pes], dtype=np.int64)


def _job_costs(pes: Sequence[str], settings: SimulationSettings) -> Floats:
    unknown = sorted(set(settings.jobs) - set(pes))
    if unknown:
        raise HoldfastError(f"the settings have a job cost for PE '{unknown[0]}', which the descriptor does not have")
    return np.array([settings.jobs.get(pe, settings.job_s) for pe in pes], dtype=np.float64)


def _strategy_errors(descriptor: Descriptor, strategy: Strategy) -> list[str]:
    """Return the reasons why a strategy is not for the descriptor's application."""
    errors: list[str] = []

    def differ(what: str, ours: Mapping[str, object], theirs: Mapping[str, object]) -> None:
        for name in sorted(ours.keys() - theirs.keys()):
            errors.append(f"does not name {what} '{name}' of the descriptor")
        for name in sorted(theirs.keys() - ours.keys()):
            errors.append(f"names {what} '{name}', which the descriptor does not have")

    if strategy.application != descriptor.application:
        errors.append(f"is not for application '{descriptor.application}' of the descriptor; plan it from its own documents")
    differ("PE", descriptor.pes, strategy.placement)
    differ("source", descriptor.sources, strategy.configurations[0].rates)
    used = {node for nodes in strategy.placement.values() for node in nodes}
    errors += [
        f"places replicas on node '{node}', which the descriptor does not have" for node in sorted(used - descriptor.nodes.keys())
    ]
    return errors
