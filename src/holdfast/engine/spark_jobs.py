"""The Spark jobs of a PE. Their plans read leaves, whose rows can be replaced, so that a plan can run again for other epochs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.app import Graph, Operator
from holdfast.engine.analysis import Schemas, state_of
from holdfast.engine.combined_job import CombinedFrame
from holdfast.engine.epochs import Span
from holdfast.engine.exchangeable_frame import Leaf
from holdfast.engine.kept_rows import Kept, rows_added
from holdfast.engine.operator_call import call_operator, require_epochs
from holdfast.engine.plan_reuse import JobDetector, is_reusable
from holdfast.engine.schema import arrow_schema, quoted
from holdfast.engine.whole_trace import Copies

FIRST, LAST, AFTER = "span's first", "span's last", "span's after"
SPAN = StructType([StructField(name, LongType()) for name in (FIRST, LAST, AFTER)])


@dataclass(frozen=True)
class Content:
    """What a leaf holds: kept rows, followed by the new rows of a stream. If both are None, it holds the bounds of the span."""

    kept_rows: str | None = None
    stream: str | None = None


@dataclass
class Plans:
    """The jobs of a PE, in order.

    `cuts` are the streams within the PE that have their own job, and `last` is the job that runs after these and computes what is
    `requested`. `held` are the streams that the PE needs but `last` does not compute, because they are inputs or cuts. `arrived`
    maps the label of each kept input to the stream that has its new rows.
    """

    cuts: dict[str, CombinedFrame] = field(default_factory=dict)
    requested: dict[str, DataFrame] = field(default_factory=dict)
    last: CombinedFrame = field(default_factory=lambda: CombinedFrame({}))
    held: set[str] = field(default_factory=set)
    arrived: dict[str, str] = field(default_factory=dict)


class PeJobs:
    """Runs a part of the graph as Spark jobs in one session, with leaves of `parts` partitions.

    With one partition nothing is shuffled, and plans that depend only on the leaves are reused: for an epoch of some thousand
    rows, building and planning take longer than the work.
    """

    def __init__(self, spark: SparkSession, graph: Graph, part: Sequence[str], schemas: Schemas, *, parts: int) -> None:
        self._spark, self._graph, self._part, self._schemas, self._parts = spark, graph, part, schemas, parts
        self._reads, self._makes = graph.streams_into(set(part)), graph.streams_out_of(set(part))
        self._leaves: dict[Content, Leaf] = {}
        self._plans: Plans | None = None
        self._tables: dict[str, pa.Table] = {}
        self._kept_rows: Kept = {}
        self._span = Span(0, 0, 0, 0)

    def run(self, new: Mapping[str, pa.Table], kept_rows: Kept, span: Span) -> tuple[dict[str, pa.Table], dict[str, str]]:
        """Process a span. Return tables by name (output streams, new rows of kept inputs, state tables) and `Plans.arrived`."""
        self._tables, self._kept_rows, self._span = dict(new), kept_rows, span
        plans, self._plans = self._plans, None  # not reused if the run fails: the plan itself may be the cause
        if plans is None:
            plans, reusable = self._build_first()
        else:
            reusable = True
            self._fill({None, *new})
            for name, job in plans.cuts.items():
                self._cut(name, job)
                self._fill({name})
        tables = {name: self._tables[name] for name in plans.held} | plans.last.collect()
        self._plans = plans if reusable else None
        return tables, plans.arrived

    def _fill(self, streams: set[str | None]) -> None:
        """Replace the rows of the leaves that hold one of these streams. None stands for leaves that hold no stream."""
        for content, leaf in self._leaves.items():
            if content.stream in streams:
                leaf.fill(self._rows(content))

    def _rows(self, content: Content) -> pa.Table:
        if content == Content():
            return pa.table({FIRST: [self._span.first], LAST: [self._span.last], AFTER: [self._span.after]})
        schema = arrow_schema(self._schema(content))
        parts = [self._kept_rows[content.kept_rows]] if content.kept_rows in self._kept_rows else []
        if content.stream is not None:
            parts.append(self._tables[content.stream])
        return pa.concat_tables([rows.cast(schema) for rows in parts]) if parts else schema.empty_table()

    def _cut(self, name: str, job: CombinedFrame) -> None:
        rows = job.collect()[name].cast(arrow_schema(self._schemas[name]))
        operator = self._graph.operator(name)
        require_epochs(operator, rows)
        self._tables[name] = rows_added(rows, self._span) if operator.keep else rows

    def _build_first(self) -> tuple[Plans, bool]:
        """Build the plans and run all jobs but the last. Return the plans and whether they can be reused."""
        detector = JobDetector(self._spark.sparkContext)
        plans = self._build(detector)
        plans.last = CombinedFrame(plans.requested, parts=self._few)
        frames = [job.frame for job in [*plans.cuts.values(), plans.last] if job.frame is not None]
        leaves = {leaf.rdd for leaf in self._leaves.values()}
        return plans, self._parts == 1 and all(is_reusable(frame, leaves) for frame in frames) and not detector.saw_jobs()

    def _build(self, detector: JobDetector) -> Plans:
        self._leaves = {}  # Spark must not reuse what it cached for other rows of a leaf
        plans = Plans()
        streams: dict[str, DataFrame | None] = dict.fromkeys(self._reads)  # None: the rows are in a table
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
                        plans.requested[stream] = frame
                    inputs.append(self._with_kept(label, stream, frame))
                else:
                    inputs.append(self._leaf(Content(stream=stream)) if frame is None else frame)
            state = self._leaf(Content(kept_rows=state_of(name))) if operator.state else None
            with detector:
                output, after = call_operator(operator, inputs, state)
            output = copies.limit(operator, output)
            if after is not None:
                plans.requested[state_of(name)] = after
            if self._needs_own_job(operator):
                plans.cuts[name] = CombinedFrame({name: output}, parts=self._few)
                plans.held.add(name)
                streams[name] = None
                self._cut(name, plans.cuts[name])
                continue
            streams[name] = self._added_by(output) if operator.keep and self._readers(name) else output
            if name in self._makes:
                plans.requested[name] = output
        return plans

    def _readers(self, name: str) -> set[str]:
        return set(self._graph.successors(name)) & set(self._part)

    def _needs_own_job(self, operator: Operator) -> bool:
        """Return whether the operator is a join that one job would compute twice: to keep its rows and to read them."""
        is_kept = any(operator.name in self._graph.operator(reader).keep for reader in self._readers(operator.name))
        return is_kept and len(operator.inputs) > 1

    def _with_kept(self, label: str, stream: str, frame: DataFrame | None) -> DataFrame:
        if frame is None:
            return self._leaf(Content(kept_rows=label, stream=stream))
        return self._coalesce(self._leaf(Content(kept_rows=label)).unionByName(frame))

    def _added_by(self, output: DataFrame) -> DataFrame:
        """Return the rows that the span adds to an operator's output, for operators that read it in the same job."""
        of_span = f"epoch between {quoted(FIRST)} and {quoted(LAST)}" if "epoch" in output.columns else f"seq > {quoted(AFTER)}"
        rows = output.join(self._leaf(Content()), F.expr(of_span))
        return self._coalesce(rows.select(*map(quoted, output.columns)))

    def _coalesce(self, frame: DataFrame) -> DataFrame:
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
        return self._schemas[content.stream or str(content.kept_rows).split(" kept by ")[0]]


def kept_by(operator: str, stream: str) -> str:
    """Return the name of the rows of a stream that an operator keeps."""
    return f"{stream} kept by {operator}"
