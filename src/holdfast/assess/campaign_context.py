"""Everything a campaign knows before its first trial: the application on its trace, and what a golden run shows of it."""

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
from holdfast.engine.operator_call import running
from holdfast.engine.whole_trace import run_batch
from holdfast.errors import CompoundError, HoldfastError

FURTHEST = 1 << 53
"""A seq that leaves no room for its displacement beside it."""


@dataclass(frozen=True)
class TraceKey:
    """By which column a trace falls apart into pieces that no operator brings together, and the columns that tell them apart."""

    column: str
    marked: tuple[str, ...]
    keys: Ints


def analyse_application(spark: SparkSession, app: App, scores: Sequence[OutputScore]) -> Schemas:
    """The schemas of an application's streams; its errors and those of its scores are told without a trace."""
    graph = app.graph()
    schemas = analyse(graph, spark, name=app.name)
    errors = [
        error for score in scores for error in check_score(graph, spark, schemas, sink=score.sink, expression=score.expression)
    ]
    if errors:
        raise CompoundError(f"the scores of application '{app.name}'", errors)
    return schemas


class CampaignContext:
    """An application, its trace and its scores, with what the runners need to know of them."""

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
        """`schemas` are those that `analyse_application` gave, where it was asked already."""
        self.spark, self.app, self.graph = spark, app, app.graph()
        self.jitter, self.section = jitter, section
        self.scores = tuple(scores)
        self.schemas: Schemas = schemas or analyse_application(spark, app, self.scores)
        if len({score.sink for score in self.scores}) != 1:
            raise HoldfastError("the scores of one campaign must be of one sink; assess the sinks one after the other")
        self.sink = self.scores[0].sink
        self.sources = with_epochs(trace, ByTime(app.epoch_s))
        self._held: dict[str, DataFrame] = {}
        self._seqs: dict[str, Ints] = {}

    @cached_property
    def shapes(self) -> Mapping[str, Shape]:
        return shapes_of(self.graph, self.spark, self.schemas)

    @cached_property
    def rows(self) -> SourceRows:
        columns = sorted({column for group in self.groups(self._leading()) for column in group})
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
        """The sections of the output."""
        return Sections.over(int(self.rows.seq[0]), int(self.rows.seq[-1]), length=self.section)

    @property
    def span(self) -> tuple[int, int]:
        """The first seq, and how many seqs there are up to the last."""
        first, last = int(self.rows.seq[0]), int(self.rows.seq[-1])
        return first, last - first + 1

    def trace_hash(self) -> str:
        """A number that another trace hardly has, whatever the order of its files and rows."""
        hashes = []
        for name in sorted(self.sources):
            columns = [field.name for field in self.sources[name].schema if not isinstance(field.dataType, MapType)]
            row = self.sources[name].select(F.sum(F.xxhash64(*columns).cast("decimal(38,0)"))).first()
            hashes.append(str(row[0] if row else None))
        return hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:16]

    def sectioned(self, section: int) -> "CampaignContext":
        """The same with sections of another length."""
        other = copy(self)
        other.section = section
        return other

    def jittered(self, seed: int) -> Graph:
        return jittered(self.graph, bound=self.jitter, seeds=[seed])

    @cached_property
    def deterministic(self) -> bool:
        """Whether every run gives the same output, so that repetitions would only repeat."""
        return self.jitter == 0 or not any(order_sensitive(operator) for operator in self.graph.operators)

    def output(self, graph: Graph) -> DataFrame:
        """The scored sink's rows of a changed graph over the whole trace."""
        frames = run_batch(graph, self.sources, epochs=self.epochs)
        return frames[graph.predecessors(self.sink)[0]]

    def golden_output(self, seed: int) -> DataFrame:
        """The scored sink's rows under an arrival order. What the order cannot change is computed once for all orders."""
        wavering = {o.name for o in self.graph.operators if not self.deterministic and order_sensitive(o)}
        changed = frozenset(wavering | {name for one in wavering for name in self.graph.downstream(one)}) & frozenset(
            self._leading()
        )
        if not changed:
            return self.output(self.graph)
        cut = self.graph.streams_into(changed)
        plan = subgraph(self.jittered(seed), changed, cut, self.sink)
        frames = run_batch(plan, {stream: self.frame(stream) for stream in cut}, epochs=self.epochs)
        return frames[plan.predecessors(self.sink)[0]]

    def frame(self, stream: str) -> DataFrame:
        """A golden stream, computed when it is first read and held until `release`."""
        if stream not in self._held:
            frames = run_batch(self.graph, self.sources, epochs=self.epochs)
            even = frames[stream].repartition(2 * self.spark.sparkContext.defaultParallelism)  # so that every core has its part
            self._held[stream] = even.persist(StorageLevel.MEMORY_AND_DISK)
        return self._held[stream]

    def release(self) -> None:
        """Give back the streams that are held."""
        for frame in self._held.values():
            frame.unpersist()
        self._held.clear()

    def groups(self, operators: Iterable[str]) -> list[tuple[str, ...]]:
        """The sets of columns by which operators take rows together."""
        return [group for name in operators for group in self.shapes[name].groups]

    def _leading(self) -> list[str]:
        """The operators that lead to the scored sink."""
        upstream = self.graph.upstream(self.sink)
        return [operator.name for operator in self.graph.operators if operator.name in upstream]

    def stream_seqs(self, names: Iterable[str]) -> dict[str, Ints]:
        """The seqs of golden streams, ascending, by one Spark job for those that nobody asked for before."""
        roots = {name: self._root(name) for name in names}
        if len(self.graph.sources) == 1:
            self._seqs.setdefault(self.graph.sources[0].name, self.rows.seq)
        asked = sorted(set(roots.values()) - self._seqs.keys())
        if asked:
            frames = run_batch(self.graph, self.sources, epochs=self.epochs)
            parts = [frames[name].select(F.lit(number).alias("stream"), "seq") for number, name in enumerate(asked)]
            with running(self.graph, "the golden run"):
                table = reduce(DataFrame.unionAll, parts).toArrow()
            stream, seq = table["stream"].to_numpy(), table["seq"].to_numpy()
            self._seqs |= {name: np.sort(seq[stream == number]) for number, name in enumerate(asked)}
        return {name: self._seqs[root] for name, root in roots.items()}

    def _root(self, stream: str) -> str:
        """The stream furthest up that has the same seqs."""
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
        """The streams on the way to the sink of which an operator keeps the last rows."""
        return [
            (stream, rule)
            for name in self._leading()
            for stream, rule in self.graph.operator(name).keep.items()
            if isinstance(rule, LastRows)
        ]

    @cached_property
    def trace_key(self) -> TraceKey | str:
        """How the trace falls apart, or why it does not."""
        for name in self._leading():
            shape = self.shapes[name]
            if shape.scope == "history":
                return f"operator '{name}' has a state table, which the rows after a fault do not rebuild"
            if () in shape.groups:
                return f"operator '{name}' takes the rows of all keys together"
        groups = self.groups(self._leading())
        if not groups:
            return "no operator on the way to the sink has a key to tell trials apart by"
        missing = [column for group in groups for column in group if column not in self.rows.codes]
        if missing:
            return f"column '{missing[0]}', by which operators take rows together, is not in every source"
        nulls = [name for name, values in self.rows.values.items() if values.null_count]
        if nulls:
            return f"column '{nulls[0]}' has rows without a value"
        for column in sorted(self.rows.codes):
            if all(column in group or self._determines(group, column) for group in groups):
                return TraceKey(column, tuple(sorted(self.rows.codes)), self.rows.codes[column])
        return "no one column keeps the rows apart that operators keep apart"

    def _determines(self, group: tuple[str, ...], column: str) -> bool:
        codes = combined([self.rows.codes[name] for name in group])
        return len(np.unique(combined([codes, self.rows.codes[column]]))) == len(np.unique(codes))

    def golden_index(self, seqs: Mapping[str, Ints]) -> GoldenIndex:
        """The map on which reaches are measured; the trace_key must be known."""
        trace_key = self.trace_key
        assert isinstance(trace_key, TraceKey)
        (base, span), rows = self.span, self.rows
        by_key = {name: KeyedSeqs.of(trace_key.keys[self.at(seq)], seq, span=span, base=base) for name, seq in seqs.items()}
        kept = {}
        for stream, rule in self.kept_streams():
            codes, firsts = np.unique(combined([rows.codes[name] for name in rule.by]), return_index=True)
            full = np.searchsorted(codes, combined([rows.codes[name] for name in rule.by]))
            by_value = KeyedSeqs.of(full[self.at(seqs[stream])], seqs[stream], span=span, base=base)
            kept[stream, rule.by] = (by_value, trace_key.keys[firsts])
        ends = np.flatnonzero(np.diff(rows.epoch, append=rows.epoch[-1:] + 1))
        return GoldenIndex(
            graph=self.graph,
            shapes=self.shapes,
            rows=KeyedSeqs.of(trace_key.keys, rows.seq, span=span, base=base),
            kept=kept,
            seqs=by_key,
            epochs=_epoch_seqs(rows.epoch[ends], rows.seq[ends]),
            keys=len(rows.values[trace_key.column]),
            jitter=0 if self.deterministic else self.jitter,
        )

    def at(self, seq: Ints) -> Ints:
        """Where the source rows with these seqs stand."""
        found: Ints = np.searchsorted(self.rows.seq, seq)
        if len(found) and (found[-1] >= len(self.rows.seq) or (self.rows.seq[found] != seq).any()):
            raise HoldfastError(
                "an operator puts out a seq that no source tuple has; it must carry the seq of the tuple that triggered it"
            )
        return found


def subgraph(graph: Graph, operators: Iterable[str], cut: Iterable[str], sink: str) -> Graph:
    """Some operators as an application of their own: what they read from outside is its sources."""
    names = set(operators)
    nodes: list[Source | Operator | Sink] = [Source(stream, "seq long") for stream in cut]
    nodes += [graph.operator(name) for name in graph.order if name in names]
    end = graph.nodes[sink]
    assert isinstance(end, Sink)
    return Graph.of([*nodes, end])


def combined(columns: Sequence[Ints]) -> Ints:
    """One code for several: equal where all of them are."""
    codes = columns[0]
    for column in columns[1:]:
        codes = np.unique(codes * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1].astype(np.int64)
    return codes


def _epoch_seqs(epochs: Ints, ends: Ints) -> EpochSeqs:
    """The last seq of every epoch, those without rows included: they end where the one before them did."""
    every = np.arange(epochs[0], epochs[-1] + 1)
    return EpochSeqs(ends[np.searchsorted(epochs, every, side="right") - 1])
