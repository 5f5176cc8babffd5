"""Failure models φ: with what probability a PE still has an active replica that lives (LAAR section 4.3).

A model is a list of scenarios. Within a scenario PEs fail independently of each other, so that Eq. 7 holds as it stands; what
fails together (the PEs of a crashed node) is a scenario of its own, and completeness is the mean over scenarios.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar.instance import Active, Floats, Instance


class FailureModel(Protocol):
    """What can fail. `scenarios` yields (probability, φ[configuration, PE]); the probabilities sum to one.

    φ must not fall when a replica is activated: internal completeness is then monotone in the strategy.
    """

    @property
    def name(self) -> str:
        """How documents and the command line call the model; `failure_model` reads it."""

    def scenarios(self, instance: Instance, active: Active) -> Iterator[tuple[float, Floats]]: ...


@dataclass(frozen=True, slots=True)
class Pessimistic:
    """All replicas but one fail, and the one that lives is an idle one if there is any (Eq. 14): φ is 1 if all are active."""

    @property
    def name(self) -> str:
        return "pessimistic"

    def scenarios(self, instance: Instance, active: Active) -> Iterator[tuple[float, Floats]]:
        yield 1.0, np.asarray(active.all(axis=2), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Independent:
    """Every replica is down with probability p, whatever the others do: φ = 1 - p ** (active replicas)."""

    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise HoldfastError(f"a probability of failure is a number from 0 to 1, got {self.p:g}")

    @property
    def name(self) -> str:
        return f"independent:{self.p:g}"

    def scenarios(self, instance: Instance, active: Active) -> Iterator[tuple[float, Floats]]:
        count = active.sum(axis=2)
        yield 1.0, np.where(count > 0, 1.0 - self.p ** count.astype(np.float64), 0.0)


@dataclass(frozen=True, slots=True)
class NodeCrash:
    """One node is down, with all its replicas: the one named, else any with the same probability."""

    node: str | None = None

    @property
    def name(self) -> str:
        return "node-crash" if self.node is None else f"node-crash:{self.node}"

    def scenarios(self, instance: Instance, active: Active) -> Iterator[tuple[float, Floats]]:
        if self.node is not None and self.node not in instance.nodes:
            raise HoldfastError(f"node '{self.node}' does not exist; nodes are: {', '.join(instance.nodes)}")
        down = instance.nodes if self.node is None else (self.node,)
        for node in down:
            alive = instance.node_of != instance.nodes.index(node)
            yield 1.0 / len(down), (active & alive).any(axis=2).astype(np.float64)


def failure_model(text: str) -> FailureModel:
    """The failure model of a name: pessimistic, independent:P, node-crash or node-crash:NODE.

    >>> failure_model("independent:0.05")
    Independent(p=0.05)
    >>> failure_model("node-crash:node1").name
    'node-crash:node1'
    """
    kind, given, rest = text.partition(":")
    if kind == "pessimistic" and not given:
        return Pessimistic()
    if kind == "node-crash" and bool(given) == bool(rest):
        return NodeCrash(rest or None)
    if kind == "independent" and rest:
        try:
            return Independent(float(rest))
        except ValueError:
            raise HoldfastError(f"failure model '{text}' wants a probability after the colon, such as independent:0.01") from None
    raise HoldfastError(
        f"there is no failure model '{text}'; models are: pessimistic, independent:P (each replica is down with probability P),"
        " node-crash (one node, any), node-crash:NODE"
    )
