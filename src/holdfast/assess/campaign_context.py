"""What a campaign needs before its first trial: the application, its trace, and its golden streams."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from holdfast.app import App, Graph, LastRows, Operator, Sink, Source
from holdfast.assess.arrival_jitter import jittered, order_sensitive
from holdfast.assess.case import Case, OutageLocator
from holdfast.assess.fault_reach import EpochSeqs, GoldenIndex
from holdfast.assess.injection import injected_edges
from holdfast.assess.keyed_seqs import Ints, KeyedSeqs
from holdfast.assess.operator_shape import Shape, shapes_of
from holdfast.assess.output_score import OutputScore
from holdfast.assess.sections import Sections
from holdfast.assess.source_rows import SourceRows, source_rows
from holdfast.engine.analysis import Schemas, analyse, check_score
from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.errors import CompoundError, HoldfastError

FURTHEST = 1 << 53
"""The first seq that is too large to encode its jitter."""


@dataclass(frozen=True)
class TraceKey:
    """A column that splits the trace into parts which no operator mixes, the columns that carry a slot, and the key of each row."""

    column: str
    marked: tuple[str, ...]
    keys: Ints


def analyse_application(spark: SparkSession, app: App, scores: Sequence[OutputScore]) -> Schemas:
    """Return the schemas of an application's streams; HoldfastError if the application or a score is invalid. Needs no trace."""
    graph = app.graph()
    graph.require_no_queries("assessment by injection")
    schemas = analyse(graph, spark, name=app.name)
    errors = [
        error for score in scores for error in check_score(graph, spark, schemas, sink=score.sink, expression=score.expression)
    ]
    if errors:
        raise CompoundError(f"the scores of application '{app.name}'", errors)
    return schemas


class CampaignContext:
    """An application with its trace and scores, and the golden streams that trials are compared with."""

    def __init__(
        self,
        spark: SparkSession,
        app: App,
        trace: Mapping[str, DataFrame],
        *,
        scores: Sequence[OutputScore],
        jitter: int,
        section: int,
        schemas: Schemas | None = None,
    ) -> None:
        """`schemas` is the result of `analyse_application`, if the caller has it already."""
        self.spark, self.app, self.graph = spark, app, app.graph()
        self.jitter, self.section = jitter, section
        self.scores = tuple(scores)
        self.schemas: Schemas = schemas or analyse_application(spark, app, self.scores)
        if len({score.sink for score in self.scores}) != 1:
            raise HoldfastError("the scores of one campaign must be of one sink; assess the sinks one after the other")
        self.sink = self.scores[0].sink
        self.sources = with_epochs(trace, ByTime(app.epoch_s))
        self._cached: dict[str, DataFrame] = {}
        self._seqs: dict[str, Ints] = {}

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        return shapes_of(self.graph, self.spark, self.schemas)

    @cached_property
    def rows(self) -> SourceRows:
        columns = sorted({column for group in self.groups(self._operators_to_sink()) for column in group})
        shared = [c for c in columns if all(c in frame.columns for frame in self.sources.values())]
        rows = source_rows(self.sources, shared, self.app.epoch_s)
        if not self.deterministic and len(rows.seq) and rows.seq[-1] >= FURTHEST:
            raise HoldfastError(
                f"the trace has seqs up to {rows.seq[-1]:,}, and only below {FURTHEST:,} can their arrival order vary; give "
                "smaller seqs, or an order that does not vary (--jitter 0)"
            )
        return rows

    @property
    def epochs(self) -> tuple[int, int]:
        return int(self.rows.epoch[0]), int(self.rows.epoch[-1])

    @property
    def sections(self) -> Sections:
        """The sections into which the output is divided."""
        return Sections.over(int(self.rows.seq[0]), int(self.rows.seq[-1]), length=self.section)

    @property
    def span(self) -> tuple[int, int]:
        """The first seq, and the number of seqs up to the last."""
        first, last = int(self.rows.seq[0]), int(self.rows.seq[-1])
        return first, last - first + 1

    def trace_hash(self) -> str:
        """Return a hash of the trace that does not depend on the order of its files and rows."""
        hashes = []
        for name in sorted(self.sources):
            columns = [field.name for field in self.sources[name].schema if not isinstance(field.dataType, MapType)]
            row = self.sources[name].select(F.sum(F.xxhash64(*columns).cast("decimal(38,0)"))).first()
            hashes.append(str(row[0] if row else None))
        return hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:16]

    def sectioned(self, section: int) -> "CampaignContext":
        """Return a copy of the context with sections of another length."""
        other = copy(self)
        other.section = section
        return other

    def jittered(self, seed: int) -> Graph:
        return jittered(self.graph, bound=self.jitter, seeds=[seed])

    @cached_property
    def deterministic(self) -> bool:
        """Whether every run gives the same output, so that one repetition is enough."""
        return self.jitter == 0 or not any(order_sensitive(operator) for operator in self.graph.operators)

    def output(self, graph: Graph) -> DataFrame:
        """Return the scored sink's rows of a changed graph over the whole trace."""
        frames = build_whole_trace(graph, self.sources, epochs=self.epochs)
        return frames[graph.predecessors(self.sink)[0]]

    def golden_output(self, seed: int) -> DataFrame:
        """Return the scored sink's rows under one arrival order. Streams that do not depend on the order are computed once."""
        varying = {o.name for o in self.graph.operators if not self.deterministic and order_sensitive(o)}
        downstream = {name for operator in varying for name in self.graph.downstream(operator)}
        changed = frozenset(varying | downstream) & frozenset(self._operators_to_sink())
        if not changed:
            return self.output(self.graph)
        inputs = self.graph.streams_into(changed)
        plan = subgraph(self.jittered(seed), changed, inputs, self.sink)
        frames = build_whole_trace(plan, {stream: self.frame(stream) for stream in inputs}, epochs=self.epochs)
        return frames[plan.predecessors(self.sink)[0]]

    def frame(self, stream: str) -> DataFrame:
        """Return a golden stream. It is computed at the first read and cached until `release`."""
        if stream not in self._cached:
            frames = build_whole_trace(self.graph, self.sources, epochs=self.epochs)
            even = frames[stream].repartition(2 * self.spark.sparkContext.defaultParallelism)  # one part per core
            self._cached[stream] = even.persist(StorageLevel.MEMORY_AND_DISK)
        return self._cached[stream]

    def release(self) -> None:
        """Drop the cached streams."""
        for frame in self._cached.values():
            frame.unpersist()
        self._cached.clear()

    def groups(self, operators: Iterable[str]) -> list[tuple[str, ...]]:
        """Return the sets of columns by which operators group rows."""
        return [group for name in operators for group in self.shapes[name].groups]

    def _operators_to_sink(self) -> list[str]:
        """Return the operators upstream of the scored sink."""
        upstream = self.graph.upstream(self.sink)
        return [operator.name for operator in self.graph.operators if operator.name in upstream]

    def stream_seqs(self, names: Iterable[str]) -> dict[str, Ints]:
        """Return the seqs of golden streams, ascending. One Spark job computes those that are not known yet."""
        roots = {name: self._root(name) for name in names}
        if len(self.graph.sources) == 1:
            self._seqs.setdefault(self.graph.sources[0].name, self.rows.seq)
        missing = sorted(set(roots.values()) - self._seqs.keys())
        if missing:
            frames = build_whole_trace(self.graph, self.sources, epochs=self.epochs)
            parts = [frames[name].select(F.lit(number).alias("stream"), "seq") for number, name in enumerate(missing)]
            with naming_failed_operator(self.graph, "the golden run"):
                table = reduce(DataFrame.unionAll, parts).toArrow()
            stream, seq = table["stream"].to_numpy(), table["seq"].to_numpy()
            self._seqs |= {name: np.sort(seq[stream == number]) for number, name in enumerate(missing)}
        return {name: self._seqs[root] for name, root in roots.items()}

    def _root(self, stream: str) -> str:
        """Return the most upstream stream that has the same seqs."""
        node = self.graph.nodes[stream]
        if isinstance(node, Operator) and self.shapes[stream].same_seqs:
            return self._root(node.inputs[0])
        return stream

    def locator(self, cases: Iterable[Case], seqs: Mapping[str, Ints]) -> OutageLocator:
        return OutageLocator(
            self.rows.seq, {name: seqs[name] for case in cases for name in self.injected_edges(case)}, self.rows.tempo
        )

    def injected_edges(self, case: Case) -> dict[str, tuple[str, ...]]:
        return injected_edges(self.graph, case.target, case.side)

    def kept_streams(self) -> list[tuple[str, LastRows]]:
        """Return the streams upstream of the sink whose last rows an operator keeps."""
        return [
            (stream, rule)
            for name in self._operators_to_sink()
            for stream, rule in self.graph.operator(name).keep.items()
            if isinstance(rule, LastRows)
        ]

    @cached_property
    def trace_key(self) -> TraceKey | str:
        """The key that splits the trace, or the reason why there is none."""
        for name in self._operators_to_sink():
            shape = self.shapes[name]
            if shape.scope == "history":
                return f"operator '{name}' has a state table, which the rows after a fault do not rebuild"
            if () in shape.groups:
                return f"operator '{name}' groups the rows of all keys"
        groups = self.groups(self._operators_to_sink())
        if not groups:
            return "no operator on the way to the sink has a key that can separate trials"
        missing = [column for group in groups for column in group if column not in self.rows.codes]
        if missing:
            return f"column '{missing[0]}', by which operators group rows, is not in every source"
        nulls = [name for name, values in self.rows.values.items() if values.null_count]
        if nulls:
            return f"column '{nulls[0]}' has rows without a value"
        for column in sorted(self.rows.codes):
            if all(column in group or self._determines(group, column) for group in groups):
                return TraceKey(column, tuple(sorted(self.rows.codes)), self.rows.codes[column])
        return "no single column separates the rows that operators process separately"

    def _determines(self, group: tuple[str, ...], column: str) -> bool:
        codes = combined([self.rows.codes[name] for name in group])
        return len(np.unique(combined([codes, self.rows.codes[column]]))) == len(np.unique(codes))

    def golden_index(self, seqs: Mapping[str, Ints]) -> GoldenIndex:
        """Return the index from which reaches are computed. The trace must have a key."""
        trace_key = self.trace_key
        assert isinstance(trace_key, TraceKey)
        (base, span), rows = self.span, self.rows
        by_key = {
            name: KeyedSeqs.of(trace_key.keys[self.row_positions(seq)], seq, span=span, base=base) for name, seq in seqs.items()
        }
        kept_rows = {}
        for stream, rule in self.kept_streams():
            codes, firsts = np.unique(combined([rows.codes[name] for name in rule.by]), return_index=True)
            full = np.searchsorted(codes, combined([rows.codes[name] for name in rule.by]))
            by_value = KeyedSeqs.of(full[self.row_positions(seqs[stream])], seqs[stream], span=span, base=base)
            kept_rows[stream, rule.by] = (by_value, trace_key.keys[firsts])
        ends = np.flatnonzero(np.diff(rows.epoch, append=rows.epoch[-1:] + 1))
        return GoldenIndex(
            graph=self.graph,
            shapes=self.shapes,
            rows=KeyedSeqs.of(trace_key.keys, rows.seq, span=span, base=base),
            kept_rows=kept_rows,
            seqs=by_key,
            epochs=_epoch_seqs(rows.epoch[ends], rows.seq[ends]),
            keys=len(rows.values[trace_key.column]),
            jitter=0 if self.deterministic else self.jitter,
        )

    def row_positions(self, seq: Ints) -> Ints:
        """Return the positions of the source rows with these seqs."""
        positions: Ints = np.searchsorted(self.rows.seq, seq)
        if len(positions) and (positions[-1] >= len(self.rows.seq) or (self.rows.seq[positions] != seq).any()):
            raise HoldfastError(
                "an operator's output has a seq that no source tuple has; every output row must have the seq of the tuple that "
                "triggered it"
            )
        return positions


def subgraph(graph: Graph, operators: Iterable[str], inputs: Iterable[str], sink: str) -> Graph:
    """Return a graph of some operators and the sink, with the streams in `inputs` as its sources."""
    names = set(operators)
    nodes: list[Source | Operator | Sink] = [Source(stream, "seq long") for stream in inputs]
    nodes += [graph.operator(name) for name in graph.order if name in names]
    end = graph.nodes[sink]
    assert isinstance(end, Sink)
    return Graph.of([*nodes, end])


def combined(columns: Sequence[Ints]) -> Ints:
    """Return one code per row that is equal where all columns are equal."""
    codes = columns[0]
    for column in columns[1:]:
        codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1].astype(np.int64)
    return codes


def _epoch_seqs(epochs: Ints, ends: Ints) -> EpochSeqs:
    """Return the last seq of every epoch. An epoch without rows ends where the previous one does."""
    every = np.arange(epochs[0], epochs[-1] + 1)
    return EpochSeqs(ends[np.searchsorted(epochs, every, side="right") - 1])
