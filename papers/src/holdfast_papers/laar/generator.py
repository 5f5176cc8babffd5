"""Random applications as in LAAR sections 4.5 and 5.2: one source with a Low and a High rate, where High overloads the nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from holdfast.documents import (
    MAX_REPLICAS,
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
from holdfast.errors import CompoundError, HoldfastError
from holdfast.planning.laar import Instance, expected_work, place

# Bounds of all ranges: beyond them, rates and costs of an application could overflow.
LEAST, MOST = 1e-9, 1e9


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges that applications are drawn from. Both ends are inclusive.

    `overload` is the load of the fullest node at High with every replica active. Below 1, High would not overload. From `replicas`
    on, a deployment without replication would not fit either, and section 5.2 assumes that it does.
    """

    nodes: tuple[int, int] = (1, 12)
    pes_per_node: tuple[int, int] = (2, 12)
    out_degree: tuple[float, float] = (1.5, 3.0)
    selectivity: tuple[float, float] = (0.5, 1.5)
    source_rate: tuple[float, float] = (1.0, 20.0)
    cost: tuple[float, float] = (0.5, 1.5)
    overload: tuple[float, float] = (1.05, 1.9)
    high_probability: float = 1 / 3
    replicas: int = 2

    def __post_init__(self) -> None:
        errors = list(self._errors())
        if errors:
            raise CompoundError("what to draw from", errors)

    def _errors(self) -> Iterator[str]:
        for name in ("nodes", "pes_per_node", "out_degree", "selectivity", "source_rate", "cost", "overload"):
            low, high = getattr(self, name)
            if not 0 < low <= high < inf:
                yield f"range '{name}' wants 0 < low <= high, got {low:g} to {high:g}"
            elif not LEAST <= low <= high <= MOST:
                yield f"range '{name}' wants numbers from {LEAST:g} to {MOST:g}, got {low:g} to {high:g}"
        if self.overload[0] <= 1:
            yield f"range 'overload' must lie above 1, got {self.overload[0]:g}: High would not overload"
        if self.replicas < 1:
            yield f"'replicas' wants a whole number of at least 1, got {self.replicas}"
        if self.replicas > MAX_REPLICAS:
            yield f"'replicas' wants at most {MAX_REPLICAS}, got {self.replicas}"
        if self.source_rate[0] > 0 and self.overload[0] >= self.source_rate[1] / self.source_rate[0]:
            yield (
                f"range 'overload' from {self.overload[0]:g} wants a High rate of more than as many times Low; "
                f"'source_rate' gives at most {self.source_rate[1] / self.source_rate[0]:g} times"
            )
        if not 0 < self.high_probability < 1:
            yield f"'high_probability' must lie between 0 and 1, got {self.high_probability:g}"


def generate(rng: np.random.Generator, *, ranges: Ranges | None = None, name: str = "generated") -> Descriptor:
    """Return a random application with a placement. With all replicas active its Low configuration fits and High does not."""
    ranges = ranges or Ranges()
    nodes = int(rng.integers(*ranges.nodes, endpoint=True))
    pes = nodes * int(rng.integers(*ranges.pes_per_node, endpoint=True))
    low, high, overload = _rates(rng, ranges)
    inputs = _graph(rng, pes, out_degree=rng.uniform(*ranges.out_degree))
    names = ["source", *(f"pe{i:03d}" for i in range(1, pes + 1))]
    read = {tail for tails in inputs.values() for tail in tails}
    descriptor = Descriptor(
        application=name,
        sources={
            "source": DescriptorSource(
                rates=(
                    Rate(name="low", rate=low, probability=1 - ranges.high_probability),
                    Rate(name="high", rate=high, probability=ranges.high_probability),
                )
            )
        },
        pes={
            names[i]: Pe(
                operators=(names[i],),
                inputs={
                    names[tail]: Input(selectivity=rng.uniform(*ranges.selectivity), cost=rng.uniform(*ranges.cost))
                    for tail in sorted(inputs[i])
                },
            )
            for i in range(1, pes + 1)
        },
        sinks={"sink": DescriptorSink(inputs=tuple(names[i] for i in range(1, pes + 1) if i not in read))},
        nodes={f"node{h:02d}": DescriptorNode() for h in range(1, nodes + 1)},
        replicas=ranges.replicas,
        contract=PricingContract(sla=Sla(), billing_period_s=300.0),
    )
    return _place_and_scale(descriptor, overload)


def corpus(seed: int, count: int = 600, *, ranges: Ranges | None = None) -> Iterator[Descriptor]:
    """Yield `count` applications. The n-th depends only on the seed and n, so that part of a corpus can be repeated."""
    for n in range(count):
        yield generate(np.random.default_rng([seed, n]), ranges=ranges, name=f"app{n:04d}")


def _rates(rng: np.random.Generator, ranges: Ranges) -> tuple[float, float, float]:
    """Draw the Low and High rates and the overload at High such that Low fits: overload * low / high < 1."""
    while True:
        low, high = sorted(rng.uniform(*ranges.source_rate, size=2))
        most = min(ranges.overload[1], high / low * 0.999)
        if most > ranges.overload[0]:
            return float(low), float(high), float(rng.uniform(ranges.overload[0], most))


def _graph(rng: np.random.Generator, pes: int, *, out_degree: float) -> dict[int, set[int]]:
    """Draw the inputs of PEs 1..pes from lower numbers (0 is the source): one each, then more up to the mean out-degree."""
    inputs = {i: {int(rng.integers(0, i))} for i in range(1, pes + 1)}
    possible = pes * (pes + 1) // 2
    edges = min(possible, round(out_degree * (pes + 1)))
    missing = edges - pes
    while missing > 0:
        head = int(rng.integers(1, pes + 1))
        tail = int(rng.integers(0, head))
        if tail not in inputs[head]:
            inputs[head].add(tail)
            missing -= 1
    return inputs


def _place_and_scale(descriptor: Descriptor, overload: float) -> Descriptor:
    """Place the descriptor's PEs, and scale costs so that the fullest node has the given load at High with all replicas active."""
    placement = place(descriptor)
    high = descriptor.input_configurations[-1]
    work = expected_work(descriptor, high)
    load = dict.fromkeys(descriptor.nodes, 0.0)
    for pe, nodes in placement.items():
        for node in nodes:
            load[node] += work[pe] / descriptor.nodes[node].cores
    fullest = max(load.values())
    if not 0 < fullest < inf:
        raise _uncountable(descriptor)
    scale = overload / fullest
    scaled = descriptor.model_copy(
        update={
            "placement": placement,
            "pes": {
                name: pe.model_copy(
                    update={
                        "inputs": {i: Input(selectivity=edge.selectivity, cost=edge.cost * scale) for i, edge in pe.inputs.items()}
                    }
                )
                for name, pe in descriptor.pes.items()
            },
        }
    )
    try:
        Instance.of(scaled)
    except HoldfastError:
        raise _uncountable(descriptor) from None
    return scaled


def _uncountable(descriptor: Descriptor) -> CompoundError:
    return CompoundError(
        "what to draw from",
        [
            f"rates of '{descriptor.application}' grow or shrink beyond what can be counted, by the selectivities of its "
            f"{len(descriptor.pes)} PEs; give a range 'selectivity' nearer to 1, fewer PEs or a smaller 'out_degree'"
        ],
    )
