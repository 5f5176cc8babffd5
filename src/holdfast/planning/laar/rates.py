"""Expected rates and work of every stream and PE in one configuration, without failures."""

from holdfast.documents.descriptor import Configuration, Descriptor


def expected_rates(descriptor: Descriptor, configuration: Configuration) -> dict[str, float]:
    """Return Δ(x, c), the output rate of every source and PE in tuples per second (LAAR section 4.2)."""
    rates = dict(configuration.rates)
    for pe in descriptor.topological_order:
        inputs = descriptor.pes[pe].inputs
        rates[pe] = sum(inputs[name].selectivity * rates[name] for name in descriptor.predecessors(pe))
    return rates


def expected_work(descriptor: Descriptor, configuration: Configuration) -> dict[str, float]:
    """Return the CPU seconds per second that one active replica of each PE uses (the inner sum of LAAR Eq. 11)."""
    rates = expected_rates(descriptor, configuration)
    return {
        pe: sum(descriptor.pes[pe].inputs[name].cost * rates[name] for name in descriptor.predecessors(pe))
        for pe in descriptor.topological_order
    }
