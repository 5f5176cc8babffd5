"""The application descriptor (LAAR section 3): source rates, selectivities and costs of PEs, nodes, and the contract.

`holdfast profile` writes it, `holdfast plan` reads it. Rates are in tuples per second, costs in CPU seconds per tuple on one
edge, capacities in CPU seconds per second.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isclose, isfinite, prod
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, above, at_least, between, unexpected
from holdfast.documents.topological_order import find_cycles, sort_topologically

MAX_CONFIGURATIONS = 4096
MAX_REPLICAS = 16
PROBABILITY_TOLERANCE = 1e-6
MONEY = (1e-60, 1e60)  # amounts above 0: their products with the usage of a billing period must not overflow

# The bounds are only for the schema. The descriptor checks them itself, to report them together with other errors.
NonNegative = Annotated[float, Field(json_schema_extra={"minimum": 0})]
Positive = Annotated[float, Field(json_schema_extra={"exclusiveMinimum": 0})]
Share = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 1})]


class Rate(Part):
    """One of the rates of a source, and the share of time in which the source has it."""

    name: str
    rate: NonNegative
    probability: Share


class DescriptorSource(Part):
    """A source, described by the distribution of its rate."""

    rates: tuple[Rate, ...]


class Input(Part):
    """An edge into a PE: output tuples (selectivity) and CPU seconds (cost) per input tuple."""

    selectivity: NonNegative
    cost: NonNegative


class MeasuredRate(Part):
    """The measured input rate of a PE."""

    average: NonNegative
    peak: NonNegative


class Pe(Part):
    """A processing element: its operators, and the selectivity and cost of each input."""

    operators: tuple[str, ...] = ()
    inputs: dict[str, Input]
    stateful: bool = False
    correlated: bool = False
    rate: MeasuredRate | None = None


class DescriptorSink(Part):
    """A sink and the streams it writes."""

    inputs: tuple[str, ...]


class DescriptorNode(Part):
    """A node: its capacity K in CPU seconds per second, and the rack that it fails with. LAAR calls it a host."""

    cores: Positive = 1.0
    rack: str | None = None


class Sla(Part):
    """The service-level agreement: what the customer was promised."""

    internal_completeness: Share = 0.7
    max_latency_s: Positive | None = None


class Pricing(Part):
    """Prices: the fare of a billing period, the cost of a CPU second, and the penalty for breaking the SLA.

    `penalty` is due in a billing period with a failure (`failure_probability`): in full if internal completeness is below the
    SLA ("breach"), or in proportion to what is missing ("shortfall").
    """

    fare: NonNegative = 0.0
    cpu_second: NonNegative = 0.0
    penalty: NonNegative = 0.0
    penalty_basis: Literal["breach", "shortfall"] = "breach"
    failure_probability: Share = 1.0


class PricingContract(Part):
    """SLA, billing period T and pricing plan."""

    sla: Sla = Sla()
    billing_period_s: Positive = 2_592_000.0
    pricing: Pricing = Pricing()


class JointRate(Part):
    """One point of an explicit joint distribution: the name of each source's rate, and its probability."""

    rates: dict[str, str]
    probability: Share


@dataclass(frozen=True, slots=True)
class Configuration:
    """An input configuration c: one rate per source, and P_C(c)."""

    name: str
    rates: Mapping[str, float]
    probability: float


class Descriptor(Document):
    """An application as LAAR's planners see it."""

    renamed_fields: ClassVar[Mapping[str, str]] = {"hosts": "nodes"}

    application: str
    sources: dict[str, DescriptorSource]
    configurations: tuple[JointRate, ...] | None = None
    pes: dict[str, Pe]
    sinks: dict[str, DescriptorSink]
    nodes: dict[str, DescriptorNode] = Field(default_factory=dict)
    replicas: Annotated[int, Field(json_schema_extra={"minimum": 1, "maximum": MAX_REPLICAS})] = 2
    placement: dict[str, tuple[str, ...]] | None = None
    contract: PricingContract = PricingContract()

    def errors(self) -> Iterable[FieldError]:
        """Yield the errors of ranges, probabilities, names, cycles and placement."""
        yield from self._source_errors()
        yield from self._joint_errors()
        yield from self._graph_errors()
        yield from self._node_errors()
        yield from self._contract_errors()

    def predecessors(self, name: str) -> tuple[str, ...]:
        """Return the streams that a PE or sink reads (Eq. 1), sorted by name. A source reads none."""
        if name in self.pes:
            return tuple(sorted(self.pes[name].inputs))
        if name in self.sinks:
            return tuple(sorted(self.sinks[name].inputs))
        return ()

    @cached_property
    def topological_order(self) -> tuple[str, ...]:
        """The PEs in topological order, ties by name."""
        return sort_topologically(self._inputs())[0]

    @cached_property
    def input_configurations(self) -> tuple[Configuration, ...]:
        """Every input configuration c with P_C(c): the explicit ones, or the product of independent rates."""
        if self.configurations is not None:
            named = {(source, rate.name): rate.rate for source, s in self.sources.items() for rate in s.rates}
            return tuple(
                Configuration(
                    self._configuration_name(joint.rates),
                    {source: named[source, joint.rates[source]] for source in self.sources},
                    joint.probability,
                )
                for joint in self.configurations
            )
        return tuple(
            Configuration(
                self._configuration_name({s: rate.name for s, rate in zip(self.sources, rates, strict=True)}),
                {source: rate.rate for source, rate in zip(self.sources, rates, strict=True)},
                prod(rate.probability for rate in rates),
            )
            for rates in product(*(source.rates for source in self.sources.values()))
        )

    def _configuration_name(self, rates: Mapping[str, str]) -> str:
        if len(self.sources) == 1:
            return next(iter(rates.values()))
        return ",".join(f"{source}={rates[source]}" for source in self.sources)

    def _inputs(self) -> dict[str, Collection[str]]:
        return {name: pe.inputs.keys() for name, pe in self.pes.items()}

    def _source_errors(self) -> Iterator[FieldError]:
        if not self.sources:
            yield FieldError(("sources",), "has no source; an application reads at least one")
        for name, source in self.sources.items():
            place = ("sources", name, "rates")
            if not source.rates:
                yield FieldError(place, "has no rate; give at least one")
                continue
            for index, rate in enumerate(source.rates):
                yield from at_least(0, (*place, index, "rate"), rate.rate)
                yield from between(0, 1, (*place, index, "probability"), rate.probability)
            for duplicate in _duplicates(rate.name for rate in source.rates):
                yield FieldError(place, f"names rate '{duplicate}' twice; names must differ")
            yield from _sums_to_one(place, [rate.probability for rate in source.rates])

    def _joint_errors(self) -> Iterator[FieldError]:
        if self.configurations is None:
            count = prod(len(source.rates) for source in self.sources.values())
            if count > MAX_CONFIGURATIONS:
                yield FieldError(
                    ("sources",),
                    f"make {count} input configurations, wanted at most {MAX_CONFIGURATIONS}; give fewer rates, or the"
                    " joint distribution in 'configurations'",
                )
            return
        earlier: set[tuple[tuple[str, str], ...]] = set()
        for index, joint in enumerate(self.configurations):
            place = ("configurations", index)
            yield from between(0, 1, (*place, "probability"), joint.probability)
            for source in sorted(self.sources.keys() - joint.rates.keys()):
                yield FieldError((*place, "rates"), f"gives no rate for source '{source}'")
            for source, rate in joint.rates.items():
                if source not in self.sources:
                    yield FieldError((*place, "rates", source), f"is not a source; {_known('sources', self.sources)}")
                elif rate not in (names := [r.name for r in self.sources[source].rates]):
                    yield FieldError((*place, "rates", source), f"has no rate named '{rate}'; {_known('rates', names)}")
            key = tuple(sorted(joint.rates.items()))
            if key in earlier:
                yield FieldError((*place, "rates"), "occurs twice; give each configuration once")
            earlier.add(key)
        if not self.configurations:
            yield FieldError(("configurations",), "is empty; give at least one, or leave it out")
        else:
            yield from _sums_to_one(("configurations",), [joint.probability for joint in self.configurations])

    def _graph_errors(self) -> Iterator[FieldError]:
        streams = [*self.sources, *self.pes]
        for name in _duplicates([*self.sources, *self.pes, *self.sinks]):
            named: dict[str, Iterable[str]] = {"source": self.sources, "PE": self.pes, "sink": self.sinks}
            kinds = [kind for kind, names in named.items() if name in names]
            yield FieldError((), f"'{name}' names a {' and a '.join(kinds)}; names must differ")
        if not self.pes:
            yield FieldError(("pes",), "has no PE; an application has at least one")
        for name, pe in self.pes.items():
            if not pe.inputs:
                yield FieldError(("pes", name, "inputs"), "has no input; a PE reads at least one stream")
            for i, edge in pe.inputs.items():
                place = ("pes", name, "inputs", i)
                if i not in streams:
                    yield FieldError(place, f"reads stream '{i}', which does not exist; {_known('streams', streams)}")
                yield from at_least(0, (*place, "selectivity"), edge.selectivity)
                yield from at_least(0, (*place, "cost"), edge.cost)
            if pe.rate is not None:
                yield from at_least(0, ("pes", name, "rate", "average"), pe.rate.average)
                yield from at_least(0, ("pes", name, "rate", "peak"), pe.rate.peak)
        cycles, more = find_cycles(self._inputs())
        for cycle in cycles:
            yield FieldError(("pes",), f"form a cycle: {' -> '.join(cycle)}; an application graph has none")
        if more:
            yield FieldError(("pes",), f"form more cycles besides these {len(cycles)}; an application graph has none")
        if not self.sinks:
            yield FieldError(("sinks",), "has no sink; an application writes at least one")
        for name, sink in self.sinks.items():
            if not sink.inputs:
                yield FieldError(("sinks", name, "inputs"), "has no input; a sink reads at least one stream")
            for duplicate in _duplicates(sink.inputs):
                yield FieldError(("sinks", name, "inputs"), f"names stream '{duplicate}' twice; give it once")
            for index, i in enumerate(sink.inputs):
                if i not in streams:
                    text = f"reads stream '{i}', which does not exist; {_known('streams', streams)}"
                    yield FieldError(("sinks", name, "inputs", index), text)

    def _node_errors(self) -> Iterator[FieldError]:
        for name, node in self.nodes.items():
            yield from above(0, ("nodes", name, "cores"), node.cores)
        if self.replicas < 1:
            yield unexpected(("replicas",), "a whole number of at least 1", self.replicas)
        if self.replicas > MAX_REPLICAS:
            yield unexpected(("replicas",), f"at most {MAX_REPLICAS} replicas of each PE", self.replicas)
        if self.placement is None:
            return
        for name in sorted(self.pes.keys() - self.placement.keys()):
            yield FieldError(("placement",), f"places no replica of PE '{name}'; place every PE, or leave placement out")
        for name, nodes in self.placement.items():
            place = ("placement", name)
            if name not in self.pes:
                yield FieldError(place, f"is not a PE; {_known('PEs', self.pes)}")
            if len(nodes) != self.replicas <= MAX_REPLICAS:
                yield unexpected(place, f"{self.replicas} nodes (one per replica)", list(nodes))
            for index, node_name in enumerate(nodes):
                if node_name not in self.nodes:
                    yield FieldError((*place, index), f"is node '{node_name}', which does not exist; {_known('nodes', self.nodes)}")
            for duplicate in _duplicates(nodes):
                if len(self.nodes) >= self.replicas:
                    yield FieldError(place, f"puts two replicas on node '{duplicate}', which would lose both at once")

    def _contract_errors(self) -> Iterator[FieldError]:
        sla, pricing = self.contract.sla, self.contract.pricing
        yield from between(0, 1, ("contract", "sla", "internal_completeness"), sla.internal_completeness)
        if sla.max_latency_s is not None:
            yield from above(0, ("contract", "sla", "max_latency_s"), sla.max_latency_s)
        yield from above(0, ("contract", "billing_period_s"), self.contract.billing_period_s)
        for name in ("fare", "cpu_second", "penalty"):
            yield from _money_errors(("contract", "pricing", name), getattr(pricing, name))
        yield from between(0, 1, ("contract", "pricing", "failure_probability"), pricing.failure_probability)


def _money_errors(place: tuple[str, ...], amount: float) -> Iterator[FieldError]:
    yield from at_least(0, place, amount)
    if isfinite(amount) and amount > 0 and not MONEY[0] <= amount <= MONEY[1]:
        limits = f"an amount from {MONEY[0]:g} to {MONEY[1]:g}"
        yield FieldError(place, f"wanted 0 or {limits}, got {amount:g}, which is too large or too small to compute with")


def _duplicates(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _known(kind: str, names: Iterable[str]) -> str:
    joined = ", ".join(sorted(set(names)))
    return f"{kind} are: {joined}" if joined else f"there are no {kind}"


def _sums_to_one(place: tuple[str | int, ...], probabilities: list[float]) -> Iterator[FieldError]:
    total = sum(probabilities)
    if not isclose(total, 1.0, rel_tol=0, abs_tol=PROBABILITY_TOLERANCE):
        yield FieldError(place, f"wanted probabilities that sum to 1, got {total:g}")
