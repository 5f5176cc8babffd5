"""Builds the application descriptor (LAAR, section 3) from a measurement."""

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
    """Return a descriptor with all measurements, and nodes and contract at defaults for the user to fill in.

    With several sources, the configurations are the combinations of their levels that occurred, each with its share of time.
    Sources that are busy at the same time are not treated as independent.
    """
    graph = app.graph()
    rates, names, level_numbers = {}, {}, {}
    for source, counts in measurement.source_counts.items():
        source_levels, level_numbers[source] = levels(counts / measurement.step_s, count=level_count)
        probabilities = np.array([level.probability for level in source_levels])
        rates[source] = DescriptorSource(
            rates=tuple(
                Rate(name=level.name, rate=level.rate, probability=float(p))
                for level, p in zip(source_levels, probabilities / probabilities.sum(), strict=True)
            )
        )
        names[source] = [level.name for level in source_levels]
    combinations = joint(level_numbers, names) if len(rates) > 1 else {}
    producer = _producers(graph)
    return Descriptor(
        application=app.name,
        sources=rates,
        configurations=tuple(JointRate(rates=dict(levels_of), probability=p) for levels_of, p in combinations.items()) or None,
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
    """Return a PE's inputs by the source or PE that feeds it, with selectivity and cost per tuple that leaves the feeder.

    If a PE has several output streams and this PE reads only some of them, selectivity and cost per emitted tuple are lower.
    """
    inputs: dict[str, Input] = {}
    for stream, edge in pe.edges.items():
        source_or_pe = producer[stream]
        leaving = graph.streams_out_of(graph.pes[source_or_pe]) if source_or_pe in graph.pes else (source_or_pe,)
        emitted = sum(measurement.leaving[name] for name in leaving)
        share = measurement.leaving[stream] / emitted if emitted else 0.0
        before = inputs.get(source_or_pe, Input(selectivity=0.0, cost=0.0))
        inputs[source_or_pe] = Input(
            selectivity=before.selectivity + share * edge.selectivity, cost=before.cost + share * edge.cost_s
        )
    return inputs


def _producers(graph: Graph) -> dict[str, str]:
    """Return the PE or source that produces each stream."""
    sources = {source.name: source.name for source in graph.sources}
    return sources | {operator: pe for pe, part in graph.pes.items() for operator in part}
