"""Information loss (IL) and output fidelity (PPA section III-A, Eq. 1 to 4), for any set of failed tasks.

The fidelity of a task is 1 - IL of its output. It is 0 for a failed task and 1 for a live task of a source. Otherwise it is the
mean (independent inputs, Eq. 3) or the product (correlated inputs, Eq. 2) of the fidelities of its input streams. The fidelity
of an input stream is the mean over the group of tasks that feed it (Eq. 1). A `Measure` is a weighted mean of task fidelities.
Output fidelity weights the tasks of output operators by their rates (Eq. 4); `completeness.py` and `criticality.py` use other
weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from holdfast.documents.topology import Floats, Ints, TaskStream, Topology
from holdfast.errors import HoldfastError

CHUNK = 2_000_000  # how many numbers to hold in memory while many failure sets are evaluated


@dataclass(frozen=True, eq=False)
class Measure:
    """The quality of a plan: the weighted mean of task fidelities when all tasks outside the plan have failed.

    With `joins`, correlated inputs multiply (Eq. 2); otherwise they are averaged like independent ones. The weights sum to 1,
    so the value is 1 without failures. It never decreases when a task is added to the plan.
    """

    name: str
    topology: Topology
    weights: Floats
    joins: bool = True

    def __post_init__(self) -> None:
        total = float(self.weights.sum())
        if len(self.weights) != len(self.topology.tasks) or not np.isclose(total, 1.0):
            raise HoldfastError(f"measure '{self.name}' wants one weight per task, with sum 1; got sum {total:g}")

    def of(self, alive: Iterable[int]) -> float:
        """Return the value if exactly these tasks are alive."""
        mask = np.zeros(len(self.weights))
        mask[list(alive)] = 1.0
        return float(self.values(mask[:, None])[0])

    def values(self, alive: NDArray[np.generic]) -> Floats:
        """Return the value of each column of a matrix with one row per task: 1 if it is alive, 0 if it has failed."""
        step = max(1, CHUNK // max(1, len(alive)))
        parts = [
            self.weights @ self.fidelities(np.asarray(alive[:, at : at + step], dtype=float))
            for at in range(0, alive.shape[1], step)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def extended(self, alive: Floats, additions: Sequence[Ints]) -> Floats:
        """Return the value of the set `alive` (0 or 1 per task) with each of the given groups of tasks added separately."""
        return self._changed(alive, additions, to=1.0)

    def without_each(self, alive: Floats, tasks: Ints) -> Floats:
        """Return the value of the set `alive` after the failure of each of the given tasks separately."""
        return self._changed(alive, tasks[:, None], to=0.0)

    def _changed(self, alive: Floats, changes: Sequence[Ints] | Ints, *, to: float) -> Floats:
        step = max(1, CHUNK // max(1, len(alive)))
        parts = [np.zeros(0)]
        for at in range(0, len(changes), step):
            part = changes[at : at + step]
            matrix = np.repeat(alive[:, None], len(part), axis=1)
            for column, tasks in enumerate(part):
                matrix[tasks, column] = to
            parts.append(self.weights @ self.fidelities(matrix))
        return np.concatenate(parts)

    def fidelities(self, alive: Floats) -> Floats:
        """Return 1 - IL of every task's output, for each column of `alive`."""
        out = alive.copy()
        for edges in self.edges:
            if edges:
                out[edges[0].down] *= _inputs(edges, out, joins=edges[0].joined)
        return out

    def slopes(self, alive: Floats) -> tuple[Floats, Floats]:
        """Return, for one set of live tasks, the fidelity of each task's input and the derivative of the value by its fidelity.

        One forward and one backward pass compute both.
        """
        out, input_fidelity = alive[:, None].copy(), np.ones(len(alive))
        for edges in self.edges:
            if edges:
                input_fidelity[edges[0].down] = _inputs(edges, out, joins=edges[0].joined)[:, 0]
                out[edges[0].down, 0] *= input_fidelity[edges[0].down]
        derivative = self.weights.copy()
        for edges in reversed(self.edges):
            if not edges:
                continue
            passed = derivative[edges[0].down] * alive[edges[0].down]
            arriving = [edge.mean(out)[:, 0] for edge in edges]
            for at, edge in enumerate(edges):
                if edge.joined:
                    others = np.prod([a for i, a in enumerate(arriving) if i != at], axis=0)
                    edge.propagate_back(passed * others, derivative)
                else:
                    edge.propagate_back(passed * edge.mix, derivative)
        return input_fidelity, derivative

    @cached_property
    def edges(self) -> tuple[tuple[TaskEdge, ...], ...]:
        """The input streams of each operator, prepared for evaluation."""
        return tuple(
            tuple(_edges(self.topology, streams, joins=self.joins)) if streams else () for streams in self.topology.streams
        )


def output_fidelity(topology: Topology) -> Measure:
    """Return output fidelity (Eq. 4): the tasks of output operators are weighted by their rates.

    In the example of Figure 2 the second of two streams loses 2 of 5:

    >>> from holdfast.documents.topology import TaskOperator
    >>> def figure2(correlated):
    ...     return Topology(topology="figure 2", operators={
    ...         "o1": TaskOperator(parallelism=2, rates=(1.0, 2.0)),
    ...         "o2": TaskOperator(parallelism=2, rates=(3.0, 2.0)),
    ...         "o3": TaskOperator(inputs={"o1": "full", "o2": "full"}, correlated=correlated)})
    >>> [round(1 - output_fidelity(figure2(c)).of({0, 1, 2, 4}), 3) for c in (True, False)]
    [0.4, 0.25]
    """
    check_rates(topology)
    weights = np.zeros(len(topology.tasks))
    for at in topology.sinks:
        weights[topology.spans[at]] = topology.rates[topology.spans[at]]
    return Measure("of", topology, normalised(weights, topology.sinks, topology))


def check_rates(topology: Topology) -> None:
    """Raise HoldfastError unless all rates are finite: products of selectivities may overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(topology.rates).all() and np.isfinite(topology.input_rates).all()
    if not finite:
        raise HoldfastError(
            f"rates of topology '{topology.topology}' grow beyond what can be counted; check its rates and selectivities"
        )


def normalised(weights: Floats, operators: Iterable[int], topology: Topology) -> Floats:
    """Scale weights to sum 1. If all are 0, the tasks of the given operators get equal weights."""
    if not weights.sum() > 0:
        for at in operators:
            weights[topology.spans[at]] = 1.0
    weights = weights / weights.max()  # avoids an overflow of the sum
    weights = weights / weights.sum()
    weights.flags.writeable = False
    return weights


@dataclass(frozen=True, slots=True)
class TaskEdge:
    """One input stream of an operator, bound to a measure."""

    operator: int  # position of the upstream operator
    up: slice
    down: slice
    weights: Floats
    starts_up: Ints
    groups_up: Ints
    groups_down: Ints
    starts_down: Ints
    mix: Floats  # the stream's share of the input of each downstream task (Eq. 3)
    joined: bool
    one_to_one: bool

    def mean(self, out: Floats) -> Floats:
        """Return the stream's fidelity for each downstream task (Eq. 1)."""
        if self.one_to_one:
            return out[self.up]
        weighted = out[self.up] * self.weights[:, None]
        return np.asarray(np.add.reduceat(weighted, self.starts_up, axis=0)[self.groups_down])

    def propagate_back(self, slope: Floats, derivative: Floats) -> None:
        """Add the derivative through this stream to the derivative of each upstream task."""
        by_group = np.add.reduceat(slope, self.starts_down)
        derivative[self.up] += by_group[self.groups_up] * self.weights


def _edges(topology: Topology, streams: tuple[TaskStream, ...], *, joins: bool) -> Iterable[TaskEdge]:
    total = np.sum([stream.rates for stream in streams], axis=0)
    joined = joins and topology.operators[topology.order[streams[0].down]].correlated
    for stream in streams:
        equal = np.full(len(total), 1.0 / len(streams))
        yield TaskEdge(
            operator=stream.up,
            up=topology.spans[stream.up],
            down=topology.spans[stream.down],
            weights=stream.weights,
            starts_up=_starts(stream.groups_up),
            groups_up=stream.groups_up,
            groups_down=stream.groups_down,
            starts_down=_starts(stream.groups_down),
            mix=np.where(total > 0, stream.rates / np.where(total > 0, total, 1.0), equal),
            joined=joined,
            one_to_one=stream.partitioning == "one-to-one",
        )


def _starts(groups: Ints) -> Ints:
    return np.flatnonzero(np.diff(groups, prepend=-1)).astype(np.int64)


def _inputs(edges: tuple[TaskEdge, ...], out: Floats, *, joins: bool) -> Floats:
    """Return the fidelity of the input of each task of an operator, whether or not the task itself has failed."""
    if len(edges) == 1:
        return edges[0].mean(out)
    if joins:
        product = edges[0].mean(out).copy()
        for edge in edges[1:]:
            product *= edge.mean(out)
        return product
    total = edges[0].mean(out) * edges[0].mix[:, None]
    for edge in edges[1:]:
        total += edge.mean(out) * edge.mix[:, None]
    return total
