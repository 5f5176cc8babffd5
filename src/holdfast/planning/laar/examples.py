"""The worked example of the LAAR paper."""

from holdfast.documents.descriptor import (
    Descriptor,
    DescriptorNode,
    DescriptorSink,
    DescriptorSource,
    Input,
    Pe,
    PricingContract,
    Rate,
    Sla,
)


def figure_1(*, sla: float = 0.6) -> Descriptor:
    """Return the pipeline of LAAR's Figures 1 and 2: two PEs of 0.1 s per tuple on two nodes; 4 tuples/s at Low, 8 at High."""
    return Descriptor(
        application="figure-1",
        sources={
            "source": DescriptorSource(
                rates=(Rate(name="low", rate=4, probability=0.8), Rate(name="high", rate=8, probability=0.2))
            )
        },
        pes={
            "pe1": Pe(operators=("pe1",), inputs={"source": Input(selectivity=1, cost=0.1)}),
            "pe2": Pe(operators=("pe2",), inputs={"pe1": Input(selectivity=1, cost=0.1)}),
        },
        sinks={"sink": DescriptorSink(inputs=("pe2",))},
        nodes={"node1": DescriptorNode(cores=1), "node2": DescriptorNode(cores=1)},
        placement={"pe1": ("node1", "node2"), "pe2": ("node1", "node2")},
        contract=PricingContract(sla=Sla(internal_completeness=sla)),
    )
