"""Cases, trials and rates of a campaign, and where in the trace each outage begins and ends."""

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
    """Return a name of the outage that is unique within a campaign.

    >>> outage_name(16.0, "peak"), outage_name(0.1234567)
    ('16 peak', '0.1234567')
    """
    return np.format_float_positional(outage_s, trim="-") + (f" {pace}" if pace else "")


def offset_error(offset: int, tuples: int) -> str:
    """Return the error message for an offset beyond the end of a trace with `tuples` source tuples."""
    return f"offset {offset:,} lies past the end of the trace, which has {tuples:,} source tuples; give offsets below that"


@dataclass(frozen=True)
class Case:
    """A target that fails, and whether it has an active replica.

    A target with a replica loses its output until the replica takes over after `failover_s` (DEBS'11, section 6.4). A target
    without one loses its input (or its output, if `loses` is "output") for the whole outage.

    The length of an outage is counted in the target's own tuples, as in the paper. With `at_once` it is counted in source tuples,
    so that different sets of operators fail for the same time and can be compared.
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
        """Return how many tuples are lost in an outage at this rate: at least one."""
        return max(1, round(rate * self.outage(seconds)))


def unreachable_errors(graph: Graph, cases: Iterable[Case], sink: str) -> list[str]:
    """Return an error message for each case whose fault cannot reach the sink."""
    upstream = graph.upstream(sink) | {sink}
    return [
        f"target '{case.name}' does not lead to sink '{sink}', which is scored; give another target, or another sink (--sink)"
        for case in cases
        if upstream.isdisjoint(reader for readers in injected_edges(graph, case.target, case.side).values() for reader in readers)
    ]


@dataclass(frozen=True, order=True)
class Trial:
    """One injection: a case at an offset (in source tuples), with an outage at the average or peak rate, and a repetition."""

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
    """Average and peak rate in tuples per second."""

    average: float
    peak: float

    def at(self, pace: Pace) -> float:
        return self.average if pace == "average" else self.peak


@dataclass(frozen=True)
class OutageLocator:
    """Finds the seqs at which an outage begins and ends, from the seqs of the sources and of the streams with injected faults."""

    source: Ints
    streams: Mapping[str, Ints]
    tempo: Tempo
    _merged: dict[tuple[str, ...], Ints] = field(default_factory=dict, compare=False, repr=False)

    def tempo_of(self, graph: Graph, case: Case, *, sources: Tempo | None = None) -> Tempo:
        """Return the rate of the tuples in which a case's outage is counted.

        It is the rate of the sources (`sources`, or else the measured one) times the case's share of the source tuples.
        """
        share, tempo = len(self._counted(graph, case)) / len(self.source), sources or self.tempo
        return Tempo(tempo.average * share, tempo.peak * share)

    def count(self, graph: Graph, case: Case) -> int:
        """Return the number of tuples in the streams where a case injects."""
        return len(self._injected(graph, case))

    def room(self, graph: Graph, case: Case, *, tuples: int) -> int:
        """Return how many offsets, counted from 0, leave at least `tuples` tuples for a case's outage."""
        counted = self._counted(graph, case)
        return int(np.searchsorted(self.source, counted[-tuples], side="right")) if tuples <= len(counted) else 0

    def last(self, offset: int, tuples: int) -> int:
        """Return the last seq of `tuples` source tuples from an offset on, or the last seq of the trace."""
        return int(self.source[min(offset + tuples, len(self.source)) - 1])

    def locate(self, graph: Graph, case: Case, *, offset: int, tuples: int) -> tuple[int, int]:
        """Return the first and the last seq of an outage; HoldfastError if the trace is too short for it."""
        if offset >= len(self.source):
            raise HoldfastError(offset_error(offset, len(self.source)))
        first = int(self.source[offset])
        counted = self._counted(graph, case)
        begin = int(np.searchsorted(counted, first))
        remaining = len(counted) - begin
        if remaining == 0:
            raise HoldfastError(
                f"{case.name} gets no tuples after offset {offset:,}, so it has none to lose; give smaller offsets, "
                "another target or a longer trace"
            )
        if remaining < tuples:
            raise HoldfastError(
                f"an outage of {tuples:,} tuples of {case.name} at offset {offset:,} is longer than the trace, where {remaining:,} "
                "are left; give shorter outages, smaller offsets or a longer trace"
            )
        return first, int(counted[begin + tuples - 1])

    def _counted(self, graph: Graph, case: Case) -> Ints:
        """Return the seqs in which a case's outage is counted."""
        return self.source if case.at_once else self._injected(graph, case)

    def _injected(self, graph: Graph, case: Case) -> Ints:
        """Return the seqs of all streams where a case injects, ascending."""
        names = tuple(injected_edges(graph, case.target, case.side))
        if names not in self._merged:
            streams = [self.streams[name] for name in names]
            self._merged[names] = streams[0] if len(streams) == 1 else np.sort(np.concatenate(streams))
        return self._merged[names]
