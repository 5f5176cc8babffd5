"""LAAR's problem under the pessimistic model as a mixed-integer linear programme.

φ is 0 or 1, so a PE is *full* in a configuration (all replicas active) or *alone* on one node; more replicas that do not make
it full cost CPU time and add nothing. Each configuration and PE has a binary z (full) and a binary y for each node that could
carry it alone. z + Σ y = 1 is Eq. 12. Completeness flows along edges: with rates as shares of their failure-free value, an edge
has g ≤ o(tail) and g ≤ z(head), and a PE has o = Σ share * g, all in [0, 1]. For binary z the largest g is Eq. 7. The
constraint on IC pushes g up, so Eq. 7 needs no product. One g per edge, rather than one bound per PE, makes the relaxation
tight.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, hstack

from holdfast.planning.laar.instance import Active, Floats, Instance, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """Minimise `price @ x` (or maximise `completeness @ x`) over 0 <= x <= 1 with low <= matrix @ x <= high.

    Prices are shares of the cost without replication, so the cost of a strategy is `base * (1 + price @ x)`. `full[c, i]` is
    the column of z. `alone[c, i, node]` is the column of y for a node; it is -1 if PE i has no replica there, or if
    configuration c fits with all replicas active, so that nodes set no limit. `node_rows` are the rows of Eq. 11.
    """

    price: Floats
    completeness: Floats
    integral: Ints
    matrix: csr_array
    low: Floats
    high: Floats
    full: Ints
    alone: Ints
    node_rows: Ints

    @classmethod
    def of(cls, instance: Instance) -> Programme:
        """Build the programme of an instance, without the constraint on IC (`completeness @ x >= sla`)."""
        builder = _Builder(instance)
        for c in range(len(instance.configurations)):
            builder.add_configuration(c)
        return builder.programme()

    def with_shortfall(self, weight: float) -> Programme:
        """Return the programme with one more column, which supplies missing completeness at a price."""
        rows = self.matrix.shape[0]
        return replace(
            self,
            price=np.append(self.price, weight),
            completeness=np.append(self.completeness, 1.0),
            integral=np.append(self.integral, 0),
            matrix=hstack([self.matrix, csr_array((rows, 1))], format="csr"),
        )

    def activation(self, instance: Instance, x: Floats) -> Active:
        """Return the strategy that a solution x describes."""
        active = np.zeros(instance.shape, dtype=np.bool_)
        for c in range(active.shape[0]):
            for i in range(active.shape[1]):
                if x[self.full[c, i]] > 0.5:
                    active[c, i] = True
                    continue
                columns = self.alone[c, i, instance.node_of[i]]
                chosen = int(np.argmax(x[columns])) if columns[0] >= 0 else 0
                active[c, i, chosen] = True
        return active


def fits_whole(instance: Instance, c: int) -> bool:
    """Return whether configuration c fits with all replicas active, so that nodes set no limit."""
    load = np.zeros(len(instance.nodes))
    np.add.at(load, instance.node_of.ravel(), np.repeat(instance.work[c], instance.node_of.shape[1]))
    return bool((load <= instance.limit).all())


class _Builder:
    """Collects the columns and rows of a programme."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.price: list[float] = []
        self.completeness: list[float] = []
        self.integral: list[int] = []
        self.rows: list[int] = []
        self.columns: list[int] = []
        self.values: list[float] = []
        self.low: list[float] = []
        self.high: list[float] = []
        self.node_rows: list[int] = []
        configurations, pes, _ = instance.shape
        self.full = np.full((configurations, pes), -1, dtype=np.int64)
        self.alone = np.full((configurations, pes, len(instance.nodes)), -1, dtype=np.int64)
        self.best = float((instance.probability @ instance.rate_in).sum()) or 1.0
        self.base = float((instance.probability @ instance.work).sum()) or 1.0

    def column(self, *, price: float = 0.0, completeness: float = 0.0, integral: bool = False) -> int:
        self.price.append(price)
        self.completeness.append(completeness)
        self.integral.append(int(integral))
        return len(self.price) - 1

    def row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        for column, value in terms:
            self.rows.append(len(self.low))
            self.columns.append(column)
            self.values.append(value)
        self.low.append(low)
        self.high.append(high)

    def add_configuration(self, c: int) -> None:
        instance, p = self.instance, float(self.instance.probability[c])
        spare = instance.shape[2] - 1
        out: list[int] = []
        for i in range(len(instance.pes)):
            z = self.column(
                price=p * instance.work[c, i] * spare / self.base,
                completeness=p * instance.external_in[c, i] / self.best,
                integral=True,
            )
            self.full[c, i] = z
            out.append(self._flow(c, i, z, out))
        if not fits_whole(instance, c):
            self._add_nodes(c)

    def _flow(self, c: int, i: int, z: int, out: list[int]) -> int:
        """Add the edges into PE i and its output. Returns the output's column."""
        instance, p = self.instance, float(self.instance.probability[c])
        produced = float(instance.rate_out[c, i]) or 1.0
        o = self.column()
        balance = [(o, 1.0), (z, -instance.external_out[c, i] / produced)]
        edges = range(int(instance.first_edge[i]), int(instance.first_edge[i + 1]))
        for e in edges:
            tail = int(instance.tail[e])
            rate = float(instance.rate_out[c, tail])
            g = self.column(completeness=p * rate / self.best)
            self.row([(g, 1.0), (out[tail], -1.0)], -np.inf, 0.0)
            self.row([(g, 1.0), (z, -1.0)], -np.inf, 0.0)
            balance.append((g, -instance.selectivity[e] * rate / produced))
        self.row(balance, -np.inf, 0.0)
        if instance.external_in[c, i] == 0:
            # A PE gains nothing by being full if none of its inputs is full (the paper's DOM rule).
            self.row([(z, 1.0), *((int(self.full[c, instance.tail[e]]), -1.0) for e in edges)], -np.inf, 0.0)
        return o

    def _add_nodes(self, c: int) -> None:
        """Add Eq. 11 and 12 for a configuration."""
        instance = self.instance
        load: list[list[tuple[int, float]]] = [[] for _ in instance.nodes]
        for i in range(len(instance.pes)):
            z = int(self.full[c, i])
            choice = [(z, 1.0)]
            for h, count in zip(*np.unique(instance.node_of[i], return_counts=True), strict=True):
                share = float(instance.work[c, i] / instance.capacity[h])
                y = self.column(integral=True)
                self.alone[c, i, h] = y
                choice.append((y, 1.0))
                load[h] += [(y, share), (z, share * int(count))]
            self.row(choice, 1.0, 1.0)
        for h, terms in enumerate(load):
            self.node_rows.append(len(self.low))
            self.row(terms, -np.inf, float(instance.limit[h] / instance.capacity[h]))

    def programme(self) -> Programme:
        shape = (len(self.low), len(self.price))
        return Programme(
            price=np.array(self.price),
            completeness=np.array(self.completeness),
            integral=np.array(self.integral, dtype=np.int64),
            matrix=csr_array((self.values, (self.rows, self.columns)), shape=shape),
            low=np.array(self.low),
            high=np.array(self.high),
            full=self.full,
            alone=self.alone,
            node_rows=np.array(self.node_rows, dtype=np.int64),
        )
