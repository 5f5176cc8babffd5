"""What a campaign tries: cases, trials, and where in the trace each of them strikes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from holdfast.app import Graph
from holdfast.assess.injection import injected_edges
from holdfast.assess.keyed_seqs import Ints
from holdfast.assess.targets import Target, target_name
from holdfast.documents.fault import Side
from holdfast.errors import HoldfastError

Pace = Literal["average", "peak"]


def outage_name(outage_s: float, pace: Pace | None = None) -> str:
    """An outage in words that no other outage shares.

    >>> outage_name(16.0, "peak"), outage_name(0.1234567)
    ('16 peak', '0.1234567')
    """
    return np.format_float_positional(outage_s, trim="-") + (f" {pace}" if pace else "")


def offset_error(offset: int, tuples: int) -> str:
    """That an offset lies where a trace of so many source tuples has none."""
    return f"offset {offset:,} lies past the end of the trace, which has {tuples:,} source tuples; give offsets below that"


@dataclass(frozen=True)
class Case:
    """Who fails, and how long at most. A group with an active replica loses what it would have put out until the replica takes
    over (DEBS'11, section 6.4); anything else loses its input until it is back, or its output where `loses` says so.

    How long that is, a target's own tuples count, as in the paper; `at_once` lets the sources' tuples count, so that whatever fails
    is away for the same time: sets that fail together can then be compared.
    """

    target: Target
    failover_s: float | None = None
    loses: Side = "input"
    at_once: bool = False

    def __post_init__(self) -> None:
        if self.failover_s is not None and not 0 < self.failover_s < math.inf:
            raise HoldfastError(f"a failover takes more than 0 seconds, got {self.failover_s:g}")

    @property
    def side(self) -> Side:
        return self.loses if self.failover_s is None else "output"

    @property
    def name(self) -> str:
        return target_name(self.target) + ("" if self.failover_s is None else f" (replica, {outage_name(self.failover_s)} s)")

    def outage(self, seconds: float) -> float:
        return seconds if self.failover_s is None else min(seconds, self.failover_s)

    def tuples(self, seconds: float, rate: float) -> int:
        """How many tuples an outage takes at a rate: at least one."""
        return max(1, round(rate * self.outage(seconds)))


def unreachable_errors(graph: Graph, cases: Iterable[Case], sink: str) -> list[str]:
    """What is wrong with the cases that cannot change what reaches a sink."""
    upstream = graph.upstream(sink) | {sink}
    return [
        f"target '{case.name}' does not lead to sink '{sink}', which is scored; give another target, or another sink (--sink)"
        for case in cases
        if upstream.isdisjoint(reader for readers in injected_edges(graph, case.target, case.side).values() for reader in readers)
    ]


@dataclass(frozen=True, order=True)
class Trial:
    """One injection: a case, an offset in source tuples, an outage at a pace, and which repetition."""

    case: str
    offset: int
    outage_s: float
    pace: Pace
    repetition: int

    @property
    def name(self) -> str:
        return f"{self.case} | {self.offset} | {outage_name(self.outage_s)} s {self.pace} | {self.repetition}"


@dataclass(frozen=True)
class Tempo:
    """Tuples per second."""

    average: float
    peak: float

    def at(self, pace: Pace) -> float:
        return self.average if pace == "average" else self.peak


@dataclass(frozen=True)
class OutageLocator:
    """Where offsets and outages lie in a golden trace: the seqs of its sources and of the streams that are struck."""

    source: Ints
    streams: Mapping[str, Ints]
    tempo: Tempo
    _merged: dict[tuple[str, ...], Ints] = field(default_factory=dict, compare=False, repr=False)

    def tempo_of(self, graph: Graph, case: Case, *, sources: Tempo | None = None) -> Tempo:
        """The rate at which what counts an outage flows: that of the sources (measured unless it is given), scaled by how many of
        their tuples come to flow there."""
        share, tempo = len(self._counted(graph, case)) / len(self.source), sources or self.tempo
        return Tempo(tempo.average * share, tempo.peak * share)

    def count(self, graph: Graph, case: Case) -> int:
        """How many tuples a case's streams have."""
        return len(self._injected(graph, case))

    def room(self, graph: Graph, case: Case, *, tuples: int) -> int:
        """The number of offsets, from 0 on, after which there are so many tuples left for a case's outage."""
        counted = self._counted(graph, case)
        return int(np.searchsorted(self.source, counted[-tuples], side="right")) if tuples <= len(counted) else 0

    def last(self, offset: int, tuples: int) -> int:
        """The last seq of so many source tuples from an offset on, or of the trace."""
        return int(self.source[min(offset + tuples, len(self.source)) - 1])

    def locate(self, graph: Graph, case: Case, *, offset: int, tuples: int) -> tuple[int, int]:
        """The first and the last seq that a fault concerns."""
        if offset >= len(self.source):
            raise HoldfastError(offset_error(offset, len(self.source)))
        first = int(self.source[offset])
        counted = self._counted(graph, case)
        begin = int(np.searchsorted(counted, first))
        left = len(counted) - begin
        if left == 0:
            raise HoldfastError(
                f"{case.name} gets no tuples after offset {offset:,}, so it has none to lose; give smaller offsets, "
                "another target or a longer trace"
            )
        if left < tuples:
            raise HoldfastError(
                f"an outage of {tuples:,} tuples of {case.name} at offset {offset:,} is longer than the trace, where {left:,} are "
                "left; give shorter outages, smaller offsets or a longer trace"
            )
        return first, int(counted[begin + tuples - 1])

    def _counted(self, graph: Graph, case: Case) -> Ints:
        """The seqs that an outage of a case is counted by."""
        return self.source if case.at_once else self._injected(graph, case)

    def _injected(self, graph: Graph, case: Case) -> Ints:
        """The seqs of all streams that a case strikes, ascending; merged once."""
        names = tuple(injected_edges(graph, case.target, case.side))
        if names not in self._merged:
            streams = [self.streams[name] for name in names]
            self._merged[names] = streams[0] if len(streams) == 1 else np.sort(np.concatenate(streams))
        return self._merged[names]
