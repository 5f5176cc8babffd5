"""What a PE asks of Spark: jobs built on leaves, and run as often as these are filled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.app import Graph, Operator
from holdfast.engine.analysis import Schemas, state_of
from holdfast.engine.combined_job import Together
from holdfast.engine.epochs import Span
from holdfast.engine.exchangeable_frame import Leaf
from holdfast.engine.kept_rows import Kept, newest
from holdfast.engine.operator_call import call, require_places
from holdfast.engine.plan_reuse import Watch, repeatable
from holdfast.engine.schema import arrow_schema, quoted
from holdfast.engine.whole_trace import Copies

FIRST, LAST, AFTER = "span's first", "span's last", "span's after"
SPAN = StructType([StructField(name, LongType()) for name in (FIRST, LAST, AFTER)])


@dataclass(frozen=True)
class Content:
    """What a leaf holds: rows that are kept, the rows of a stream behind them; where it names neither, the bounds of the span."""

    kept: str | None = None
    stream: str | None = None


@dataclass
class Plans:
    """The jobs of a PE, in order.

    `cuts` are streams within the PE that are computed by a job of their own, `last` is the job after them. `held` are the wanted
    streams that no job need compute: they are read, or cut. `arrived` tells, per kept input, the stream of its new rows.
    """

    cuts: dict[str, Together] = field(default_factory=dict)
    last: Together = field(default_factory=lambda: Together({}))
    held: set[str] = field(default_factory=set)
    arrived: dict[str, str] = field(default_factory=dict)


class Jobs:
    """A part of the graph as Spark jobs in one session, with leaves of so many partitions.

    With one partition nothing is shuffled, and plans that depend on the leaves alone are kept: of an epoch of some thousand rows,
    building and planning take longer than the work.
    """

    def __init__(self, spark: SparkSession, graph: Graph, part: Sequence[str], schemas: Schemas, *, parts: int) -> None:
        self._spark, self._graph, self._part, self._schemas, self._parts = spark, graph, part, schemas, parts
        self._reads, self._makes = graph.streams_into(set(part)), graph.streams_out_of(set(part))
        self._leaves: dict[Content, Leaf] = {}
        self._plans: Plans | None = None
        self._tables: dict[str, pa.Table] = {}
        self._kept: Kept = {}
        self._span = Span(0, 0, 0, 0)

    def run(self, new: Mapping[str, pa.Table], kept: Kept, span: Span) -> tuple[dict[str, pa.Table], dict[str, str]]:
        """The streams that leave, the new rows of kept inputs, the state tables; and, per kept input, the stream it is of."""
        self._tables, self._kept, self._span = dict(new), kept, span
        plans, self._plans = self._plans, None  # a plan that fails may hold on to why: after a failure it is built anew
        if plans is None:
            plans, repeats = self._built()
        else:
            repeats = True
            self._fill({None, *new})
            for name, job in plans.cuts.items():
                self._cut(name, job)
                self._fill({name})
        made = {name: self._tables[name] for name in plans.held} | plans.last.collected()
        self._plans = plans if repeats else None
        return made, plans.arrived

    def _fill(self, streams: set[str | None]) -> None:
        """Exchange the rows of the leaves that hold one of these streams; None: of those that hold no stream."""
        for content, leaf in self._leaves.items():
            if content.stream in streams:
                leaf.fill(self._rows(content))

    def _rows(self, content: Content) -> pa.Table:
        if content == Content():
            return pa.table({FIRST: [self._span.first], LAST: [self._span.last], AFTER: [self._span.after]})
        schema = arrow_schema(self._schema(content))
        parts = [self._kept[content.kept]] if content.kept in self._kept else []
        if content.stream is not None:
            parts.append(self._tables[content.stream])
        return pa.concat_tables([rows.cast(schema) for rows in parts]) if parts else schema.empty_table()

    def _cut(self, name: str, job: Together) -> None:
        made = job.collected()[name].cast(arrow_schema(self._schemas[name]))
        operator = self._graph.operator(name)
        require_places(operator, made)
        self._tables[name] = newest(made, self._span) if operator.keep else made

    def _built(self) -> tuple[Plans, bool]:
        """The plans, up to their last job, which is still to run; and whether they will do again the next time."""
        watch = Watch(self._spark.sparkContext)
        plans = self._build(watch)
        frames = [job.frame for job in [*plans.cuts.values(), plans.last] if job.frame is not None]
        leaves = {leaf.rdd for leaf in self._leaves.values()}
        return plans, self._parts == 1 and all(repeatable(frame, leaves) for frame in frames) and not watch.saw_jobs()

    def _build(self, watch: Watch) -> Plans:
        self._leaves = {}  # what Spark caches of a leaf's rows must not be found again when it holds others
        plans, wanted = Plans(), {}
        streams: dict[str, DataFrame | None] = dict.fromkeys(self._reads)  # None: the rows are at hand
        copies = Copies(self._reads)
        for name in self._part:
            operator = self._graph.operator(name)
            inputs = []
            for stream in operator.inputs:
                frame = streams[stream]
                if stream in operator.keep:
                    label = kept_by(name, stream)
                    plans.arrived[label] = stream
                    if frame is None:
                        plans.held.add(stream)
                    else:
                        wanted[stream] = frame
                    inputs.append(self._with_kept(label, stream, frame))
                else:
                    inputs.append(self._leaf(Content(stream=stream)) if frame is None else frame)
            state = self._leaf(Content(kept=state_of(name))) if operator.state else None
            with watch:
                output, after = call(operator, inputs, state)
            output = copies.bounded(operator, output)
            if after is not None:
                wanted[state_of(name)] = after
            if self._alone(operator):
                plans.cuts[name] = Together({name: output}, parts=self._few)
                plans.held.add(name)
                streams[name] = None
                self._cut(name, plans.cuts[name])
                continue
            streams[name] = self._added_by(output) if operator.keep and self._readers(name) else output
            if name in self._makes:
                wanted[name] = output
        plans.last = Together(wanted, parts=self._few)
        return plans

    def _readers(self, name: str) -> set[str]:
        return set(self._graph.successors(name)) & set(self._part)

    def _alone(self, operator: Operator) -> bool:
        """Whether one job would compute it twice, to be kept and to be read on, and it is a join: that costs more than a job."""
        kept = any(operator.name in self._graph.operator(reader).keep for reader in self._readers(operator.name))
        return kept and len(operator.inputs) > 1

    def _with_kept(self, label: str, stream: str, frame: DataFrame | None) -> DataFrame:
        if frame is None:
            return self._leaf(Content(kept=label, stream=stream))
        return self._together(self._leaf(Content(kept=label)).unionByName(frame))

    def _added_by(self, output: DataFrame) -> DataFrame:
        """What a span adds to an operator's output, for the operators that read it in the same job."""
        of_span = f"epoch between {quoted(FIRST)} and {quoted(LAST)}" if "epoch" in output.columns else f"seq > {quoted(AFTER)}"
        rows = output.join(self._leaf(Content()), F.expr(of_span))
        return self._together(rows.select(*map(quoted, output.columns)))

    def _together(self, frame: DataFrame) -> DataFrame:
        return frame if self._few is None else frame.coalesce(self._few)

    @property
    def _few(self) -> int | None:
        return 1 if self._parts == 1 else None

    def _leaf(self, content: Content) -> DataFrame:
        if content not in self._leaves:
            self._leaves[content] = Leaf(self._spark, self._schema(content), self._rows(content), parts=self._parts)
        return self._leaves[content].frame

    def _schema(self, content: Content) -> StructType:
        if content == Content():
            return SPAN
        return self._schemas[content.stream or str(content.kept).split(" kept by ")[0]]


def kept_by(operator: str, stream: str) -> str:
    """The name of the rows of a stream that an operator keeps."""
    return f"{stream} kept by {operator}"
