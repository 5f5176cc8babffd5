"""The application descriptor (LAAR, section 3) from what was measured."""

from collections.abc import Mapping

import numpy as np

from holdfast.app import App, Graph
from holdfast.documents.descriptor import (
    Descriptor,
    DescriptorNode,
    DescriptorSink,
    DescriptorSource,
    Input,
    JointRate,
    MeasuredRate,
    Pe,
    Rate,
)
from holdfast.profile.measurement import MeasuredPe, Measurement
from holdfast.profile.rates import joint, levels


def describe(app: App, measurement: Measurement, *, level_count: int = 3, nodes: int = 2) -> Descriptor:
    """A descriptor with everything measured, and nodes and contract at defaults for the user to fill in.

    With several sources the configurations are the combinations of their levels that were seen, with the share of time in which
    they were: sources that are busy together are not taken to be independent.
    """
    graph = app.graph()
    rates, names, belongs = {}, {}, {}
    for source, counts in measurement.source_counts.items():
        found, belongs[source] = levels(counts / measurement.step_s, count=level_count)
        probabilities = np.array([level.probability for level in found])
        rates[source] = DescriptorSource(
            rates=tuple(
                Rate(name=level.name, rate=level.rate, probability=float(p))
                for level, p in zip(found, probabilities / probabilities.sum(), strict=True)
            )
        )
        names[source] = [level.name for level in found]
    seen = joint(belongs, names) if len(rates) > 1 else {}
    producer = _producers(graph)
    return Descriptor(
        application=app.name,
        sources=rates,
        configurations=tuple(JointRate(rates=dict(levels_of), probability=p) for levels_of, p in seen.items()) or None,
        pes={
            name: Pe(
                operators=graph.pes[name],
                inputs=_inputs(graph, measurement, pe, producer),
                stateful=any(graph.operator(o).stateful for o in graph.pes[name]),
                correlated=any(graph.operator(o).correlated for o in graph.pes[name]),
                rate=MeasuredRate(average=pe.rate.average, peak=pe.rate.peak),
            )
            for name, pe in measurement.pes.items()
        },
        sinks={sink.name: DescriptorSink(inputs=(producer[sink.input],)) for sink in graph.sinks},
        nodes={f"node{number}": DescriptorNode(cores=1.0) for number in range(1, nodes + 1)},
    )


def _inputs(graph: Graph, measurement: Measurement, pe: MeasuredPe, producer: Mapping[str, str]) -> dict[str, Input]:
    """A PE's inputs, each from a source or another PE, per tuple that leaves it.

    Where a PE makes several streams, what it emits is all of them: an edge that reads some of them does correspondingly less per
    tuple.
    """
    found: dict[str, Input] = {}
    for stream, edge in pe.edges.items():
        maker = producer[stream]
        leaving = graph.streams_out_of(graph.pes[maker]) if maker in graph.pes else (maker,)
        emitted = sum(measurement.leaving[name] for name in leaving)
        share = measurement.leaving[stream] / emitted if emitted else 0.0
        before = found.get(maker, Input(selectivity=0.0, cost=0.0))
        found[maker] = Input(selectivity=before.selectivity + share * edge.selectivity, cost=before.cost + share * edge.cost_s)
    return found


def _producers(graph: Graph) -> dict[str, str]:
    """For each stream the PE or source that makes it."""
    made = {source.name: source.name for source in graph.sources}
    return made | {operator: pe for pe, part in graph.pes.items() for operator in part}
