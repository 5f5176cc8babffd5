"""How far a fault reaches: for each key from which seq to which its outputs can differ, and which rows it takes to tell.

From the first law: an operator that keeps the last n rows of a key gives the right output again after n right rows of that key.
So a fault's reach follows from the golden streams alone, operator by operator, with no run.
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
    """Which seqs belong to which epoch: `ends[e]` is the last seq of the e-th epoch of the trace, ascending."""

    ends: Ints

    def start(self, seqs: Ints, back: int = 0) -> Ints:
        """The first seq of the epoch that lies `back` epochs before the one of each seq."""
        at = np.searchsorted(self.ends, seqs) - back
        return np.where(at <= 0, 0, self.ends[np.clip(at - 1, 0, len(self.ends) - 1)] + 1)

    def end(self, seqs: Ints, on: int = 0) -> Ints:
        """The last seq of the epoch that lies `on` epochs after the one of each seq."""
        at = np.searchsorted(self.ends, seqs) + on
        return np.where((seqs >= NEVER) | (at >= len(self.ends)), NEVER, self.ends[np.minimum(at, len(self.ends) - 1)])


@dataclass(frozen=True)
class Reach:
    """For each of `keys`: outputs can differ from seq `first` to `last`; telling takes, of each stream that is read from outside,
    the rows from one seq to another."""

    keys: Ints
    first: Ints
    last: Ints
    needs: Mapping[str, tuple[Ints, Ints]]


@dataclass(frozen=True)
class FaultPath:
    """The way of a fault through the graph: the edges where it strikes, the operators that it can change, and the streams that
    these read from outside."""

    edges: Edges
    operators: frozenset[str]
    inputs: tuple[str, ...]


def find_fault_path(graph: Graph, shapes: Mapping[str, Shape], fault: StreamFault, sink: str) -> FaultPath:
    """The way of a fault to a sink.

    Losing tuples before an operator that looks at single tuples is losing them after it, so a loss is followed past such
    operators, up to the first that looks further.
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
    struck = {stream for stream, reader in edges}
    by_stream = {s: tuple(sorted(reader for stream, reader in edges if stream == s)) for s in sorted(struck)}
    cut = dict.fromkeys([*graph.streams_into(operators), *(s for s in sorted(struck) if s not in operators)])
    return FaultPath(by_stream, operators, tuple(cut))


@dataclass(frozen=True)
class GoldenIndex:
    """What is known of an application over one golden trace: its graph and shapes, who keeps what, and where rows lie.

    `kept` has, for each kept stream and the columns it is kept by, its rows by those columns' values, and the key of each such
    value; `rows` are all source rows by key.
    """

    graph: Graph
    shapes: Mapping[str, Shape]
    rows: KeyedSeqs
    kept: Mapping[tuple[str, tuple[str, ...]], tuple[KeyedSeqs, Ints]]
    seqs: Mapping[str, KeyedSeqs]
    epochs: EpochSeqs
    keys: int
    jitter: int


def reach_of(golden_index: GoldenIndex, fault_path: FaultPath, first: int, last: int, *, sink: str) -> Reach:
    """The reach of a fault that strikes seqs `first` to `last` on its fault_path to a sink."""
    low, high = _Forward(golden_index, fault_path, first, last).at(sink)
    keys = np.flatnonzero(low <= high)
    begin, end = low[keys], high[keys]
    return Reach(keys, begin, end, _needed(golden_index, fault_path, sink, keys, begin, end))


class _Forward:
    """First and last seq at which each stream can differ, per key; first above last where it cannot."""

    def __init__(self, golden_index: GoldenIndex, fault_path: FaultPath, first: int, last: int) -> None:
        self._index, self._path = golden_index, fault_path
        self._first, self._last = first, last
        self._known: dict[str, tuple[Ints, Ints]] = {}

    def at(self, sink: str) -> tuple[Ints, Ints]:
        node = self._index.graph.nodes[sink]
        assert isinstance(node, Sink)
        return self._edge(node.input, sink)

    def _nothing(self) -> tuple[Ints, Ints]:
        return np.full(self._index.keys, NEVER, np.int64), np.full(self._index.keys, -1, np.int64)

    def _injected(self, stream: str) -> tuple[Ints, Ints]:
        """The keys of the rows that are struck, from their first to their last."""
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
        if stream not in self._known:
            changed = stream in self._path.operators
            self._known[stream] = self._operator(self._index.graph.operator(stream)) if changed else self._nothing()
        return self._known[stream]

    def _operator(self, operator: Operator) -> tuple[Ints, Ints]:
        golden_index = self._index
        low, high = self._nothing()
        for stream in operator.inputs:
            # what is not kept changes only the outputs that it triggers; what is kept changes those that come to follow it
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
        """The seq after which an operator's output is right again, given up to which one its input is wrong."""
        rule = operator.keep.get(stream)
        if not isinstance(rule, LastRows):
            return last
        rows, owner = self._index.kept[stream, rule.by]
        return _worst(rows.nth_after(np.arange(len(owner)), last[owner], rule.n), owner, len(last))


def _needed(
    golden_index: GoldenIndex, fault_path: FaultPath, sink: str, keys: Ints, first: Ints, last: Ints
) -> dict[str, tuple[Ints, Ints]]:
    """From which row to which each key's rows of each cut stream are needed, so that the sink is right from first to last."""
    wanted: dict[str, tuple[Ints, Ints]] = {golden_index.graph.predecessors(sink)[0]: (first, last)}
    for name in reversed(golden_index.graph.order):
        if name not in wanted or name not in fault_path.operators:
            continue
        operator = golden_index.graph.operator(name)
        low, high = wanted[name]
        if golden_index.shapes[name].scope == "epoch":
            low, high = golden_index.epochs.start(low, window_epochs(operator)), golden_index.epochs.end(high)
        if order_sensitive(operator):
            low, high = np.maximum(low - 2 * golden_index.jitter, 0), np.minimum(high + 2 * golden_index.jitter, NEVER)
        for stream in operator.inputs:
            earlier = _since(golden_index, operator, stream, keys, low)
            before = wanted.get(stream, (earlier, high))
            wanted[stream] = np.minimum(before[0], earlier), np.maximum(before[1], high)
    return {stream: wanted[stream] for stream in fault_path.inputs if stream in wanted}


def _since(golden_index: GoldenIndex, operator: Operator, stream: str, keys: Ints, first: Ints) -> Ints:
    """From which row of an input on an operator must be fed, so that its output is right from `first` on."""
    rule = operator.keep.get(stream)
    if not isinstance(rule, LastRows):
        return first
    rows, owner = golden_index.kept[stream, rule.by]
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
