"""Task topologies (PPA section II): operators of parallel tasks, and how each task's output reaches the next tasks.

Every partitioning (one-to-one, split, merge, full) divides the upstream tasks into groups, and a group of downstream tasks reads
each of them. An upstream task divides its output among its readers by their shares. All readers of a group therefore read
the same mixture of the group's tasks. So the arrays here need one entry per task, not one per substream: a full edge
between 100 and 100 tasks has 10,000 substreams.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, at_least, unexpected
from holdfast.documents.partitioning import Partitioning
from holdfast.documents.topological_order import find_cycles, sort_topologically

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_TASKS = 100_000
MAX_DEPTH = 150  # operators in a row: planners follow the path of a tuple recursively

# The bounds are only for the schema. The topology checks them itself, to report them together with other errors.
NonNegative = Annotated[float, Field(json_schema_extra={"minimum": 0})]
Count = Annotated[int, Field(json_schema_extra={"minimum": 1})]


class TaskOperator(Part):
    """An operator and its tasks. Rates are output rates in tuples per second.

    A source must give `rate` (of all its tasks together) or `rates` (of each task). Another operator may give them; otherwise a
    task emits `selectivity` times what it reads. `shares` is the share of a split or full input that each task gets, and the
    share of a source's rate that each task emits: uniform by default, by Zipf's law with `zipf` (the n-th task weighs
    n ** -zipf), or as listed. `correlated` marks a join: without one input, the others are worth nothing (section III-A).
    """

    parallelism: Count = 1
    inputs: dict[str, Partitioning] = Field(default_factory=dict)
    correlated: bool = False
    rate: NonNegative | None = None
    rates: tuple[NonNegative, ...] | None = None
    selectivity: NonNegative | None = None
    zipf: NonNegative | None = None
    shares: tuple[NonNegative, ...] | None = None


@dataclass(frozen=True, slots=True)
class TaskStream:
    """An edge of the topology as arrays. `groups_up` and `groups_down` ascend, so a group is a range of tasks."""

    up: int
    down: int
    partitioning: Partitioning
    groups_up: Ints
    groups_down: Ints
    weights: Floats  # of each upstream task within its group; they sum to 1 per group (Eq. 1)
    rates: Floats  # of the whole input stream as each downstream task reads it
    spread: Floats  # the share of its group's output that each downstream task reads


class Topology(Document):
    """A task topology as PPA's planners see it. Tasks are numbered operator by operator in topological order.

    >>> t = Topology(topology="t", operators={
    ...     "read": TaskOperator(parallelism=4, rate=100.0, zipf=1.0),
    ...     "count": TaskOperator(parallelism=2, inputs={"read": "merge"})})
    >>> t.tasks
    ('read/0', 'read/1', 'read/2', 'read/3', 'count/0', 'count/1')
    >>> t.rates.round(1).tolist()
    [48.0, 24.0, 16.0, 12.0, 72.0, 28.0]
    """

    topology: str
    operators: dict[str, TaskOperator]

    def errors(self) -> Iterable[FieldError]:
        """Yield the errors of ranges, rates, names, cycles and partitionings."""
        if not self.operators:
            yield FieldError(("operators",), "has no operator; a topology has at least one")
        for name, operator in self.operators.items():
            if "/" in name:
                yield FieldError(
                    ("operators", name), "wanted a name without '/', which separates an operator from the number of its task"
                )
            yield from self._operator_errors(("operators", name), operator)
            for up, partitioning in operator.inputs.items():
                yield from self._input_errors(name, up, partitioning)
        total = sum(operator.parallelism for operator in self.operators.values())
        if total > MAX_TASKS:
            yield unexpected(("operators",), f"at most {MAX_TASKS} tasks", total)
        cycles, more = find_cycles(self._inputs())
        for cycle in cycles:
            yield FieldError(("operators",), f"form a cycle: {' -> '.join(cycle)}; a topology has none")
        if more:
            yield FieldError(("operators",), f"form more cycles besides these {len(cycles)}; a topology has none")
        if not cycles and self._depth() > MAX_DEPTH:
            yield unexpected(("operators",), f"at most {MAX_DEPTH} operators in a row", self._depth())

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The operators in topological order, ties by name."""
        return self._sorted()[0]

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """The range of each operator's task numbers, in the order of `order`."""
        ends = np.cumsum([0, *(self.operators[name].parallelism for name in self.order)])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The names of all tasks."""
        return tuple(f"{name}/{i}" for name in self.order for i in range(self.operators[name].parallelism))

    @cached_property
    def number(self) -> Mapping[str, int]:
        """The number of each task, by its name."""
        return {name: i for i, name in enumerate(self.tasks)}

    @cached_property
    def operator_of(self) -> Ints:
        """The position in `order` of each task's operator."""
        return np.repeat(np.arange(len(self.order)), [self.operators[name].parallelism for name in self.order])

    @cached_property
    def rank(self) -> Ints:
        """The rank of each task by name (operator, then index). It breaks ties."""
        by_name = np.argsort(np.argsort(np.array(self.order)))
        keys = np.lexsort((np.arange(len(self.tasks)), by_name[self.operator_of]))
        ranks = np.empty(len(self.tasks), dtype=np.int64)
        ranks[keys] = np.arange(len(self.tasks))
        return ranks

    @cached_property
    def rates(self) -> Floats:
        """The output rate of each task."""
        return self._compiled[0]

    @cached_property
    def streams(self) -> tuple[tuple[TaskStream, ...], ...]:
        """The input streams of each operator, in the order of `order`; each sorted by the upstream operator's name."""
        return self._compiled[1]

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """The positions in `order` of operators without inputs."""
        return tuple(i for i, name in enumerate(self.order) if not self.operators[name].inputs)

    @cached_property
    def sinks(self) -> tuple[int, ...]:
        """The positions in `order` of operators that no other operator reads: the output operators."""
        read = {up for operator in self.operators.values() for up in operator.inputs}
        return tuple(i for i, name in enumerate(self.order) if name not in read)

    @cached_property
    def readers(self) -> tuple[tuple[TaskStream, ...], ...]:
        """The output streams of each operator, in the order of `order`."""
        out: list[list[TaskStream]] = [[] for _ in self.order]
        for streams in self.streams:
            for stream in streams:
                out[stream.up].append(stream)
        return tuple(map(tuple, out))

    @cached_property
    def input_rates(self) -> Floats:
        """The rate that each task reads from all its inputs; for a task of a source, the rate that it emits."""
        rates = self.rates.copy()
        for span, streams in zip(self.spans, self.streams, strict=True):
            if streams:
                rates[span] = np.sum([stream.rates for stream in streams], axis=0)
        return rates

    def substreams(self, up: str, down: str) -> Iterator[tuple[str, str, float]]:
        """Yield each substream between two neighbouring operators: upstream task, downstream task, rate."""
        at = self.order.index(down)
        stream = next(stream for stream in self.streams[at] if self.order[stream.up] == up)
        rates = self.rates[self.spans[stream.up]]
        for i, group in enumerate(stream.groups_up):
            for j in np.flatnonzero(stream.groups_down == group):
                yield f"{up}/{i}", f"{down}/{j}", float(rates[i] * stream.spread[j])

    def _names(self) -> str:
        return ", ".join(sorted(self.operators))

    def _operator_errors(self, place: tuple[str, str], operator: TaskOperator) -> Iterator[FieldError]:
        if operator.parallelism < 1:
            yield unexpected((*place, "parallelism"), "a whole number of at least 1", operator.parallelism)
        for field in ("rate", "selectivity", "zipf"):
            value = getattr(operator, field)
            if value is not None:
                yield from at_least(0, (*place, field), value)
        for field in ("rates", "shares"):
            values = getattr(operator, field)
            if values is None:
                continue
            for index, value in enumerate(values):
                yield from at_least(0, (*place, field, index), value)
            if len(values) != operator.parallelism:
                yield FieldError((*place, field), f"wanted one number per task ({operator.parallelism}), got {len(values)}")
            elif field == "shares" and all(map(isfinite, values)) and not sum(values) > 0:
                yield FieldError((*place, field), "wanted at least one share above 0")
            elif field == "shares" and all(map(isfinite, values)) and not isfinite(sum(values)):
                yield FieldError((*place, field), "wanted shares with a finite sum; give smaller ones in the same proportion")
        rate_fields = [field for field in ("rate", "rates", "selectivity") if getattr(operator, field) is not None]
        if len(rate_fields) > 1:
            yield FieldError(place, f"gives {' and '.join(rate_fields)}; give one of them")
        if operator.zipf is not None and operator.shares is not None:
            yield FieldError(place, "gives zipf and shares; give one of them")
        if not operator.inputs and operator.rate is None and operator.rates is None:
            yield FieldError(place, "has no inputs, so it is a source; give its rate, or the rates of its tasks")
        if not operator.inputs and operator.correlated:
            yield FieldError((*place, "correlated"), "is true, but the operator has no inputs to join")

    def _input_errors(self, name: str, up: str, partitioning: Partitioning) -> Iterator[FieldError]:
        place = ("operators", name, "inputs", up)
        if up not in self.operators:
            yield FieldError(place, f"reads operator '{up}', which does not exist; operators are: {self._names()}")
            return
        n1, n2 = self.operators[up].parallelism, self.operators[name].parallelism
        requirements = {
            "one-to-one": (n1 == n2, "as many tasks on both sides"),
            "split": (n2 >= 2 * n1, f"at least two tasks of '{name}' for each of '{up}'"),
            "merge": (n1 >= 2 * n2, f"at least two tasks of '{up}' for each of '{name}'"),
            "full": (True, ""),
        }
        is_met, requirement = requirements[partitioning]
        if not is_met:
            text = f"is {partitioning}, which requires {requirement}; got parallelism {n1} of '{up}' and {n2} of '{name}'"
            yield FieldError(place, text)

    def _inputs(self) -> dict[str, Collection[str]]:
        return {name: operator.inputs.keys() for name, operator in self.operators.items()}

    def _sorted(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the operators in topological order, and those that have no place in it because of a cycle."""
        return sort_topologically(self._inputs())

    def _depth(self) -> int:
        """Return the number of operators on the longest path."""
        depth: dict[str, int] = {}
        for name in self._sorted()[0]:
            depth[name] = 1 + max((depth[up] for up in self.operators[name].inputs if up in depth), default=0)
        return max(depth.values(), default=0)

    @cached_property
    def _compiled(self) -> tuple[Floats, tuple[tuple[TaskStream, ...], ...]]:
        rates = np.zeros(len(self.tasks))
        streams: list[tuple[TaskStream, ...]] = []
        for down, name in enumerate(self.order):
            operator = self.operators[name]
            shares = _shares(operator)
            streams.append(tuple(self._stream(up, down, rates=rates, shares=shares) for up in sorted(operator.inputs)))
            rates[self.spans[down]] = _task_rates(operator, shares, streams[-1])
        rates.flags.writeable = False
        return rates, tuple(streams)

    def _stream(self, name: str, down: int, *, rates: Floats, shares: Floats) -> TaskStream:
        up = self.order.index(name)
        partitioning = self.operators[self.order[down]].inputs[name]
        emitted = rates[self.spans[up]]
        groups_up, groups_down = _groups(partitioning, len(emitted), len(shares))
        totals = np.bincount(groups_up, emitted)
        spread = _within(shares, groups_down)
        return TaskStream(
            up=up,
            down=down,
            partitioning=partitioning,
            groups_up=groups_up,
            groups_down=groups_down,
            weights=_within(emitted, groups_up),
            rates=totals[groups_down] * spread,
            spread=spread,
        )


def is_task(task: str, parallelism: Mapping[str, int]) -> bool:
    """Return whether a task of this name (operator, '/', number) exists among operators with these numbers of tasks.

    >>> [is_task(name, {"read": 11}) for name in ("read/0", "read/10", "read/11", "read/00", "read/+1", "read/\u0663")]
    [True, True, False, False, False, False]
    """
    name, _, number = task.rpartition("/")
    count = parallelism.get(name, 0)
    canonical = number.isascii() and number.isdecimal() and (number == "0" or not number.startswith("0"))
    return canonical and len(number) <= len(str(count)) and int(number) < count


def _groups(partitioning: Partitioning, n1: int, n2: int) -> tuple[Ints, Ints]:
    """Return the group of each upstream and of each downstream task. Sizes of groups differ by at most one task."""
    if partitioning == "full":
        return np.zeros(n1, dtype=np.int64), np.zeros(n2, dtype=np.int64)
    count = min(n1, n2)
    return np.arange(n1) * count // n1, np.arange(n2) * count // n2


def _within(values: Floats, groups: Ints) -> Floats:
    """Return each value as a share of its group's sum; equal shares if all values of a group are zero."""
    sums, sizes = np.bincount(groups, values)[groups], np.bincount(groups)[groups]
    return np.where(sums > 0, values / np.where(sums > 0, sums, 1.0), 1.0 / sizes)


def _shares(operator: TaskOperator) -> Floats:
    n = operator.parallelism
    if operator.shares is not None:
        shares = np.array(operator.shares, dtype=float)
    elif operator.zipf is not None:
        shares = np.arange(1, n + 1, dtype=float) ** -operator.zipf
    elif operator.rates is not None:
        shares = np.array(operator.rates, dtype=float)  # a task emits in proportion to its input
    else:
        shares = np.ones(n)
    return _within(shares, np.zeros(n, dtype=np.int64))


def _task_rates(operator: TaskOperator, shares: Floats, streams: tuple[TaskStream, ...]) -> Floats:
    """Return the output rate of each task: as given, or in proportion to what it reads."""
    if operator.rates is not None:
        return np.array(operator.rates, dtype=float)
    if not streams:
        return shares * float(operator.rate or 0.0)
    read: Floats = np.sum([stream.rates for stream in streams], axis=0)
    if operator.rate is not None:
        return _within(read, np.zeros(len(read), dtype=np.int64)) * operator.rate
    return read * (1.0 if operator.selectivity is None else operator.selectivity)
