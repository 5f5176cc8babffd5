"""Failure models φ: the probability that a PE has a live active replica (LAAR section 4.3).

A model is a list of scenarios. Within a scenario PEs fail independently, so that Eq. 7 holds. PEs that fail together, such as
those of a crashed node, form a scenario of their own. Completeness is the mean over scenarios.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar.instance import Active, Floats, Instance


class FailureModel(Protocol):
    """A failure model. `scenarios` yields (probability, φ[configuration, PE]); the probabilities sum to 1.

    φ must not decrease when a replica is activated, so that internal completeness is monotone in the strategy.
    """

    @property
    def name(self) -> str:
        """The model's name in documents and on the command line; `failure_model` parses it."""

    def scenarios(self, instance: Instance, active: Active) -> Iterator[tuple[float, Floats]]: ...


@dataclass(frozen=True, slots=True)
class Pessimistic:
    """All replicas but one fail, and an idle one survives if there is any (Eq. 14): φ is 1 only if all replicas are active."""

    @property
    def name(self) -> str:
        return "pessimistic"

    def scenarios(self, instance: Instance, active: Active) -> Iterator[tuple[float, Floats]]:
        yield 1.0, np.asarray(active.all(axis=2), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Independent:
    """Every replica is down with probability p, independently of the others: φ = 1 - p ** (active replicas)."""

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
    """One node is down with all its replicas (the paper's host crash): the named node, or each with equal probability."""

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
    """Return the failure model of a name: pessimistic, independent:P, node-crash or node-crash:NODE.

    >>> failure_model("independent:0.05")
    Independent(p=0.05)
    >>> failure_model("node-crash:node1").name
    'node-crash:node1'
    """
    kind, colon, rest = text.partition(":")
    if kind == "pessimistic" and not colon:
        return Pessimistic()
    if kind == "node-crash" and bool(colon) == bool(rest):
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
