"""Random topologies as in PPA section VI-C. The n-th of a corpus depends only on the seed and n."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Literal, get_args

import numpy as np

from holdfast.documents import MAX_DEPTH, MAX_TASKS, Partitioning, TaskOperator, Topology
from holdfast.errors import CompoundError

Kind = Literal["general", "structured", "full"]
LEAST_RATE, MOST_RATE = 1e-9, 1e9  # of a source; forks may double it at every operator, and it must not overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """The ranges that topologies are drawn from. Both ends are inclusive.

    An operator reads at most `most_inputs` others. `forks` is the probability that two operators read it instead of one.
    `joins` is the share of joins among the operators with several inputs. It is drawn last, so topologies that differ only in
    `joins` have the same operators, edges and rates.
    """

    operators: tuple[int, int] = (5, 10)
    parallelism: tuple[int, int] = (1, 10)
    kind: Kind = "general"
    zipf: float = 0.0
    joins: float = 0.5
    most_inputs: int = 2
    forks: float = 0.0
    rate: float = 1000.0

    def __post_init__(self) -> None:
        errors = list(self._errors())
        if errors:
            raise CompoundError("what to draw from", errors)

    def _errors(self) -> Iterator[str]:
        for name in ("operators", "parallelism"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                yield f"range '{name}' wants 1 <= low <= high, got {low} to {high}"
        if self.operators[1] > MAX_DEPTH or self.operators[1] * self.parallelism[1] > MAX_TASKS:
            yield (
                f"wanted at most {MAX_DEPTH} operators and {MAX_TASKS} tasks, got up to {self.operators[1]} operators of "
                f"{self.parallelism[1]} tasks"
            )
        for name in ("joins", "forks"):
            if not 0 <= getattr(self, name) <= 1:
                yield f"share '{name}' must lie between 0 and 1, got {getattr(self, name):g}"
        if self.kind not in get_args(Kind):
            yield f"'kind' wants one of {', '.join(get_args(Kind))}, got '{self.kind}'"
        if not (isfinite(self.zipf) and self.zipf >= 0) or self.most_inputs < 1:
            yield f"wanted zipf >= 0 and most_inputs >= 1, got {self.zipf:g} and {self.most_inputs}"
        if self.rate != 0 and not LEAST_RATE <= self.rate <= MOST_RATE:
            yield f"'rate' wants 0 or a number from {LEAST_RATE:g} to {MOST_RATE:g}, got {self.rate:g}"


def generate(rng: np.random.Generator, *, ranges: Ranges | None = None, name: str = "generated") -> Topology:
    """Return a random topology with one output operator.

    >>> t = generate(np.random.default_rng(7), ranges=Ranges(kind="full"))
    >>> {p for o in t.operators.values() for p in o.inputs.values()}
    {'full'}
    """
    ranges = ranges or Ranges()
    count = int(rng.integers(*ranges.operators, endpoint=True))
    names = [f"o{i + 1:02d}" for i in range(count)]
    inputs: dict[str, dict[str, Partitioning]] = {n: {} for n in names}
    tasks = {names[-1]: int(rng.integers(*ranges.parallelism, endpoint=True))}
    for at in range(count - 2, -1, -1):
        open_readers = [n for n in names[at + 1 :] if len(inputs[n]) < ranges.most_inputs]
        reader = open_readers[int(rng.integers(len(open_readers)))]
        inputs[reader][names[at]], tasks[names[at]] = _edge(rng, tasks[reader], ranges)
        others = [n for n in open_readers if n != reader]
        if others and rng.random() < ranges.forks:
            second = others[int(rng.integers(len(others)))]
            fits = _fitting(tasks[names[at]], tasks[second], ranges.kind)
            if fits:
                inputs[second][names[at]] = fits[int(rng.integers(len(fits)))]
    shares = {n: _shares(rng, tasks[n], ranges.zipf) for n in names}
    several = [n for n in names if len(inputs[n]) > 1]
    order = rng.permutation(len(several))
    joins = {several[int(i)] for i in order[: round(ranges.joins * len(several))]}
    return Topology(
        topology=name,
        operators={
            n: TaskOperator(
                parallelism=tasks[n],
                inputs=inputs[n],
                correlated=n in joins,
                rate=None if inputs[n] else ranges.rate,
                shares=shares[n],
            )
            for n in names
        },
    )


def corpus(seed: int, count: int = 100, *, ranges: Ranges | None = None) -> Iterator[Topology]:
    """Yield `count` topologies. The n-th depends only on the seed and n, so that part of a corpus can be repeated."""
    for n in range(count):
        yield generate(np.random.default_rng([seed, n]), ranges=ranges, name=f"topology{n:04d}")


def _edge(rng: np.random.Generator, reader: int, ranges: Ranges) -> tuple[Partitioning, int]:
    """Draw the partitioning of an edge to a reader of this many tasks, and a matching number of tasks of the operator."""
    low, high = ranges.parallelism
    choices: list[tuple[Partitioning, tuple[int, int]]] = []
    if ranges.kind != "full":
        choices = [("one-to-one", (reader, reader))]
        if 2 * reader <= high:
            choices.append(("merge", (max(low, 2 * reader), high)))
        if 2 * low <= reader:
            choices.append(("split", (low, reader // 2)))
    if ranges.kind != "structured":
        choices.append(("full", (low, high)))
    partitioning, span = choices[int(rng.integers(len(choices)))]
    return partitioning, int(rng.integers(*span, endpoint=True))


def _fitting(tasks: int, reader: int, kind: Kind) -> list[Partitioning]:
    fits: list[Partitioning] = []
    if kind != "full":
        fits += ["one-to-one"] if tasks == reader else []
        fits += ["merge"] if tasks >= 2 * reader else []
        fits += ["split"] if reader >= 2 * tasks else []
    return fits + (["full"] if kind != "structured" else [])


def _shares(rng: np.random.Generator, tasks: int, zipf: float) -> tuple[float, ...]:
    """Return Zipf weights in random order, so that the busiest task is independent of its number."""
    weights = np.arange(1, tasks + 1, dtype=float) ** -zipf
    return tuple(float(w) for w in rng.permutation(weights))
