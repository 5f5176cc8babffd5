"""The Spark jobs of a PE whose rows are in files: executors read them, run the operators, and write output and kept rows.

The driver receives only the names of the files, with the number, the bounds of the seqs and the checksum of their rows.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast.app import Graph, Keep, LastRows
from holdfast.engine.analysis import Schemas
from holdfast.engine.combined_job import CombinedFrame
from holdfast.engine.connector.feeds import EpochFile
from holdfast.engine.epochs import Span, join_spans
from holdfast.engine.exchangeable_frame import Leaf
from holdfast.engine.kept_rows import rows_of, still_needed
from holdfast.engine.operator_call import naming_failed_operator, null_error
from holdfast.engine.plan_reuse import JobDetector
from holdfast.engine.schema import arrow_schema
from holdfast.engine.spark_jobs import Content, PeJobs
from holdfast.engine.stored_frame import StoredInput, stored_frame
from holdfast.engine.whole_trace import share
from holdfast.log import Store
from holdfast.log.position import KeptRows
from holdfast.log.stored_rows import StoredRows, join_stored, store_rows

RESULT = "label string, part int, stored string"
NULLS = "nulls of "
"""The prefix of the label under which executors report rows that belong to no epoch."""

BATCH_ROWS = 100_000
"""The most rows that Spark passes to Python at once."""

Stored = dict[str, list[StoredRows]]
"""What executors have stored under each label: one part per span for output, otherwise a single part."""

Select = Callable[[pa.Table], list[pa.Table]]
"""Returns the rows of each part."""


@dataclass(frozen=True)
class RowStorer:
    """Runs on executors: it stores the rows of one Spark task, one file per part, and yields what it has stored.

    If a row has a null in one of the columns `required`, it stores nothing and reports that.
    """

    root: str
    sync: bool
    folder: str
    label: str
    schema: pa.Schema
    select: Select
    required: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        chunks = [batch for batch in batches if batch.num_rows]
        if not chunks:
            return
        rows, store = pa.Table.from_batches(chunks).cast(self.schema), Store(self.root, sync=self.sync)
        for name in self.required:
            if rows[name].null_count:
                yield self._result(f"{NULLS}{self.label}", 0, StoredRows((name, f"{rows[name].null_count} of {rows.num_rows}")))
                return
        for part, own in enumerate(self.select(rows)):
            if own.num_rows:
                yield self._result(self.label, part, store_rows(store, own, folder=self.folder))

    def _result(self, label: str, part: int, stored: StoredRows) -> pa.RecordBatch:
        columns = [pa.array([label]), pa.array([part], pa.int32()), pa.array([json.dumps(vars(stored))])]
        return pa.RecordBatch.from_arrays(columns, ["label", "part", "stored"])


def by_span(rows: pa.Table, spans: Sequence[Span]) -> list[pa.Table]:
    """Return the rows of each span. If there is one span, all rows are its own."""
    return [rows_of(rows, span) for span in spans] if len(spans) > 1 else [rows]


class StoredJobs(PeJobs):
    """Runs a part of the graph on rows in files of a store. `folder_of` returns where to store the rows with a label.

    A plan names its files, so it is built for every run.
    """

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        part: Sequence[str],
        schemas: Schemas,
        *,
        store: Store,
        folder_of: Callable[[str, Span], str],
    ) -> None:
        parts = max(2, spark.sparkContext.defaultParallelism)
        super().__init__(executor_session(spark, parts), graph, part, schemas, parts=parts)
        self._store, self._folder_of = store, folder_of
        self._new: Mapping[str, StoredInput] = {}
        self._before: Mapping[str, KeptRows] = {}
        self._streams: dict[str, DataFrame] = {}
        self._after: dict[str, tuple[DataFrame, Select]] = {}

    def run_stored(
        self, new: Mapping[str, StoredInput], kept_rows: Mapping[str, KeptRows], spans: Sequence[Span]
    ) -> tuple[Stored, dict[str, StoredRows]]:
        """Process consecutive spans as one. Return the output of each stream, one part per span, and the kept rows."""
        self._new, self._before, self._streams, self._after, self._span = new, kept_rows, {}, {}, join_spans(spans)
        with naming_failed_operator(self._graph, f"epoch {self._span.last} of PE {'+'.join(self._part)}", part=self._part):
            requested = self._build(JobDetector(self._spark.sparkContext)).requested
            of_spans = partial(by_span, spans=tuple(spans))
            output = {name: (self._added(name, requested[name]), of_spans) for name in self._makes}
            states = {label: (frame, _whole) for label, frame in requested.items() if label.startswith("state of ")}
            stored = self._store_together(output | self._after | states, spans=len(spans))
        return {name: stored[name] for name in output}, {label: stored[label][0] for label in (*self._after, *states)}

    def _store_together(self, frames: Mapping[str, tuple[DataFrame, Select]], *, spans: int) -> Stored:
        """Store the rows of several DataFrames by one Spark job."""
        results = []
        for label, (frame, select) in frames.items():
            schema = arrow_schema(self._schema(Content(kept_rows=label)))
            required = tuple(name for name in ("seq", "epoch") if name in schema.names) if label in self._part else ()
            folder = self._folder_of(label, self._span)
            storer = RowStorer(self._store.root, self._store.sync, folder, label, schema, select, required)
            results.append(frame.mapInArrow(storer, RESULT))
        parts: dict[str, list[list[StoredRows]]] = {label: [[] for _ in range(spans)] for label in frames}
        for label, part, text in reduce(DataFrame.union, results).collect():
            stored = json.loads(text)
            if label.startswith(NULLS):
                raise null_error(self._graph.operator(label.removeprefix(NULLS)), f"{stored['files'][1]} rows", stored["files"][0])
            parts[label][part].append(StoredRows(**stored | {"files": tuple(stored["files"])}))
        return {label: [join_stored(of_span) for of_span in of_label] for label, of_label in parts.items()}

    def _cut(self, name: str, job: CombinedFrame) -> None:
        assert job.frame is not None
        (stored,) = self._store_together({name: (self._added(name, job.frame), _whole)}, spans=1)[name]
        self._streams[name] = self._frame(stored, self._schemas[name])

    def _with_kept(self, label: str, stream: str, frame: DataFrame | None) -> DataFrame:
        """Return the kept and the new rows of an input, computed once for the operator and for what it keeps."""
        rows = super()._with_kept(label, stream, frame)
        rule = self._graph.operator(label.removeprefix(f"{stream} kept by ")).keep[stream]
        if isinstance(rule, LastRows):
            rows = share(rows, rule.by) if rule.by else rows.repartition(1)
        self._after[label] = rows, partial(_kept, rule=rule, span=self._span)
        return rows

    def _leaf(self, content: Content) -> DataFrame:
        schema, frames = self._schema(content), []
        before = self._before.get(content.kept_rows or "")
        if before is not None and before.num_rows:
            frames.append(self._frame(before, schema))
        if content.stream in self._streams:
            frames.append(self._streams[content.stream])
        elif content.stream is not None:
            frames.append(stored_frame(self._spark, self._new[content.stream], schema))
        return reduce(DataFrame.unionByName, frames) if frames else self._spark.createDataFrame([], schema)

    def _frame(self, rows: KeptRows, schema: StructType) -> DataFrame:
        if isinstance(rows, StoredRows):
            files = tuple(EpochFile(self._store.root, file, 0, "") for file in rows.files)
            return stored_frame(self._spark, StoredInput(files), schema)
        return Leaf(self._spark, schema, rows, parts=self._parts).frame

    def _added(self, name: str, rows: DataFrame) -> DataFrame:
        """Return the rows that the span adds to a stream. The output of an operator also contains rows for its kept input."""
        return self._added_by(rows) if self._graph.operator(name).keep else rows

    def _added_by(self, output: DataFrame) -> DataFrame:
        name = "epoch" if "epoch" in output.columns else "seq"
        value = F.struct(name)
        inside = (
            (value >= _constant(self._span.first)) & (value <= _constant(self._span.last))
            if name == "epoch"
            else value > _constant(self._span.after)
        )
        return output.where(inside | F.col(name).isNull())


def _constant(value: int) -> Column:
    """Return a struct of a number. Spark passes a struct to the code that it generates, but writes a plain number into the code.

    A plain number of the span would change the code in every epoch, and the JVM would have to compile it again.
    """
    return F.struct(F.lit(value).cast("long"))


def _whole(rows: pa.Table) -> list[pa.Table]:
    return [rows]


def _kept(rows: pa.Table, rule: Keep, span: Span) -> list[pa.Table]:
    return [still_needed(rows, rule, span)]


def executor_session(spark: SparkSession, parts: int) -> SparkSession:
    """Return a session for jobs of many rows. Their files need not be large to be read by several tasks."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(parts))
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # a broadcast passes through the driver
    session.conf.set("spark.sql.files.openCostInBytes", str(64 * 2**10))
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
    return session
