"""How far a fault reaches: for each key, the range of seqs whose output can differ, and the input rows needed to recompute it.

By the first law, an operator that keeps the last n rows of a key gives correct output again after n correct rows of that key. So
the reach of a fault follows from the golden streams alone, operator by operator, without a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from holdfast.app import Graph, LastRows, Operator, Sink
from holdfast.assess.arrival_jitter import order_sensitive
from holdfast.assess.injection import Edges, injected_edges
from holdfast.assess.keyed_seqs import NEVER, Ints, KeyedSeqs
from holdfast.assess.operator_shape import Shape, window_epochs
from holdfast.documents.fault import Loss, StreamFault


@dataclass(frozen=True)
class EpochSeqs:
    """Maps seqs to epochs: `ends[e]` is the last seq of the e-th epoch of the trace."""

    ends: Ints

    def start(self, seqs: Ints, back: int = 0) -> Ints:
        """Return the first seq of the epoch that is `back` epochs before the epoch of each seq."""
        at = np.searchsorted(self.ends, seqs) - back
        return np.where(at <= 0, 0, self.ends[np.clip(at - 1, 0, len(self.ends) - 1)] + 1)

    def end(self, seqs: Ints, on: int = 0) -> Ints:
        """Return the last seq of the epoch that is `on` epochs after the epoch of each seq."""
        at = np.searchsorted(self.ends, seqs) + on
        return np.where((seqs >= NEVER) | (at >= len(self.ends)), NEVER, self.ends[np.minimum(at, len(self.ends) - 1)])


@dataclass(frozen=True)
class Reach:
    """For each of `keys`, output can differ from seq `first` to `last`. To recompute it, `needs` has for each input stream of the
    fault path the first and last seq of the rows that are needed."""

    keys: Ints
    first: Ints
    last: Ints
    needs: Mapping[str, tuple[Ints, Ints]]


@dataclass(frozen=True)
class FaultPath:
    """The path of a fault through the graph: the edges where it is injected, the operators whose output it can change, and the
    input streams that these read from other operators."""

    edges: Edges
    operators: frozenset[str]
    inputs: tuple[str, ...]


def find_fault_path(graph: Graph, shapes: Mapping[str, Shape], fault: StreamFault, sink: str) -> FaultPath:
    """Return the path of a fault to a sink.

    Losing tuples before an operator that uses single tuples equals losing them after it. So a loss is moved behind such
    operators, up to the first operator with a larger scope.
    """
    upstream = graph.upstream(sink) | {sink}
    edges = {
        (stream, reader)
        for stream, readers in injected_edges(graph, fault.target, fault.side).items()
        for reader in readers
        if reader in upstream
    }
    moved = True
    while moved and isinstance(fault, Loss):
        moved = False
        for name in graph.order:
            node = graph.nodes[name]
            into = {(stream, name) for stream in graph.predecessors(name)}
            if isinstance(node, Operator) and shapes[name].scope == "tuple" and into <= edges:
                edges = (edges - into) | {(name, reader) for reader in graph.successors(name) if reader in upstream}
                moved = True
    changed = {reader for _, reader in edges}
    for name in list(changed):
        changed |= graph.downstream(name)
    operators = frozenset(name for name in changed & upstream if isinstance(graph.nodes[name], Operator))
    streams = sorted({stream for stream, reader in edges})
    by_stream = {s: tuple(sorted(reader for stream, reader in edges if stream == s)) for s in streams}
    inputs = dict.fromkeys([*graph.streams_into(operators), *(s for s in streams if s not in operators)])
    return FaultPath(by_stream, operators, tuple(inputs))


@dataclass(frozen=True)
class GoldenIndex:
    """An index of the golden streams of one trace by key and seq, with the operators' shapes.

    `rows` has all source rows by key, and `seqs` the rows of other streams. `kept_rows` has, for each kept stream and the columns
    of its keep rule, the rows by the values of these columns, and the key of each value.
    """

    graph: Graph
    shapes: Mapping[str, Shape]
    rows: KeyedSeqs
    kept_rows: Mapping[tuple[str, tuple[str, ...]], tuple[KeyedSeqs, Ints]]
    seqs: Mapping[str, KeyedSeqs]
    epochs: EpochSeqs
    keys: int
    jitter: int


def reach_of(golden_index: GoldenIndex, fault_path: FaultPath, first: int, last: int, *, sink: str) -> Reach:
    """Return the reach of a fault that is injected at seqs `first` to `last`."""
    low, high = _Forward(golden_index, fault_path, first, last).at(sink)
    keys = np.flatnonzero(low <= high)
    begin, end = low[keys], high[keys]
    return Reach(keys, begin, end, _needed(golden_index, fault_path, sink, keys, begin, end))


class _Forward:
    """Computes, per key, the first and last seq at which each stream can differ; first > last if it cannot differ."""

    def __init__(self, golden_index: GoldenIndex, fault_path: FaultPath, first: int, last: int) -> None:
        self._index, self._path = golden_index, fault_path
        self._first, self._last = first, last
        self._spans: dict[str, tuple[Ints, Ints]] = {}

    def at(self, sink: str) -> tuple[Ints, Ints]:
        node = self._index.graph.nodes[sink]
        assert isinstance(node, Sink)
        return self._edge(node.input, sink)

    def _nothing(self) -> tuple[Ints, Ints]:
        return np.full(self._index.keys, NEVER, np.int64), np.full(self._index.keys, -1, np.int64)

    def _injected(self, stream: str) -> tuple[Ints, Ints]:
        """Return, per key, the first and last row of a stream with an injected fault."""
        rows = self._index.seqs.get(stream, self._index.rows)
        every = np.arange(self._index.keys)
        begin, end = rows.ranges(every, np.full(len(every), self._first), np.full(len(every), self._last))
        low, high = self._nothing()
        hit = end > begin
        low[hit], high[hit] = rows.seqs_at(begin[hit]), rows.seqs_at(end[hit] - 1)
        return low, high

    def _edge(self, stream: str, reader: str) -> tuple[Ints, Ints]:
        low, high = self._stream(stream)
        if reader in self._path.edges.get(stream, ()):
            other_low, other_high = self._injected(stream)
            low, high = np.minimum(low, other_low), np.maximum(high, other_high)
        return low, high

    def _stream(self, stream: str) -> tuple[Ints, Ints]:
        if stream not in self._spans:
            changed = stream in self._path.operators
            self._spans[stream] = self._operator(self._index.graph.operator(stream)) if changed else self._nothing()
        return self._spans[stream]

    def _operator(self, operator: Operator) -> tuple[Ints, Ints]:
        golden_index = self._index
        low, high = self._nothing()
        for stream in operator.inputs:
            # rows that are not kept change only the outputs that they trigger; kept rows also change later outputs
            pad = 2 * golden_index.jitter if order_sensitive(operator) and stream in operator.keep else 0
            begin, end = self._edge(stream, operator.name)
            differs = begin <= end
            begin = np.where(differs, np.maximum(begin - pad, 0), begin)
            end = np.where(differs, self._until(operator, stream, end + pad) + pad, end)
            low, high = np.minimum(low, begin), np.maximum(high, np.minimum(end, NEVER))
        if golden_index.shapes[operator.name].scope == "epoch":
            differs = low <= high
            low = np.where(differs, golden_index.epochs.start(low), low)
            high = np.where(differs, golden_index.epochs.end(high, window_epochs(operator)), high)
        return low, high

    def _until(self, operator: Operator, stream: str, last: Ints) -> Ints:
        """Return the seq after which an operator's output is correct again, given the last wrong seq of its input."""
        rule = operator.keep.get(stream)
        if not isinstance(rule, LastRows):
            return last
        rows, owner = self._index.kept_rows[stream, rule.by]
        return _worst(rows.nth_after(np.arange(len(owner)), last[owner], rule.n), owner, len(last))


def _needed(
    golden_index: GoldenIndex, fault_path: FaultPath, sink: str, keys: Ints, first: Ints, last: Ints
) -> dict[str, tuple[Ints, Ints]]:
    """Return the first and last row of each input stream, per key, that are needed to compute the sink from `first` to `last`."""
    ranges: dict[str, tuple[Ints, Ints]] = {golden_index.graph.predecessors(sink)[0]: (first, last)}
    for name in reversed(golden_index.graph.order):
        if name not in ranges or name not in fault_path.operators:
            continue
        operator = golden_index.graph.operator(name)
        low, high = ranges[name]
        if golden_index.shapes[name].scope == "epoch":
            low, high = golden_index.epochs.start(low, window_epochs(operator)), golden_index.epochs.end(high)
        if order_sensitive(operator):
            low, high = np.maximum(low - 2 * golden_index.jitter, 0), np.minimum(high + 2 * golden_index.jitter, NEVER)
        for stream in operator.inputs:
            earlier = _since(golden_index, operator, stream, keys, low)
            before = ranges.get(stream, (earlier, high))
            ranges[stream] = np.minimum(before[0], earlier), np.maximum(before[1], high)
    return {stream: ranges[stream] for stream in fault_path.inputs if stream in ranges}


def _since(golden_index: GoldenIndex, operator: Operator, stream: str, keys: Ints, first: Ints) -> Ints:
    """Return the first row of an input that an operator needs for correct output from `first` on."""
    rule = operator.keep.get(stream)
    if not isinstance(rule, LastRows):
        return first
    rows, owner = golden_index.kept_rows[stream, rule.by]
    of_key = np.full(golden_index.keys, NEVER, np.int64)
    of_key[keys] = first
    concerned = np.flatnonzero(of_key[owner] < NEVER)
    earlier = rows.nth_before(concerned, of_key[owner[concerned]], rule.n)
    needed = of_key.copy()
    np.minimum.at(needed, owner[concerned], earlier)
    return needed[keys]


def _worst(values: Ints, owner: Ints, keys: int) -> Ints:
    if len(values) == keys and (owner == np.arange(keys)).all():
        return values
    worst = np.full(keys, -1, np.int64)
    np.maximum.at(worst, owner, values)
    return worst
