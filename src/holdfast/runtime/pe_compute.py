"""Runs a PE's operators on Spark, for a PE replica."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from holdfast.app import Graph, LastEpochs
from holdfast.documents.job import Task
from holdfast.engine.analysis import Schemas
from holdfast.engine.epochs import Span, join_spans
from holdfast.engine.operator_call import require_seqs_of_input
from holdfast.engine.pe import Pe
from holdfast.engine.schema import arrow_schema
from holdfast.engine.stored_frame import StoredInput
from holdfast.engine.stored_jobs import StoredJobs
from holdfast.log import Store
from holdfast.log.checkpoints import kept_rows_folder
from holdfast.log.position import KeptRows, Position
from holdfast.log.row_files import row_folder
from holdfast.log.stored_rows import StoredRows

WARM_UP_RUNS = 6


class PeCompute:
    """Processes spans of epochs from the kept rows of a position. Spark's jobs carry the name of the PE and the epochs."""

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        part: Iterable[str],
        schemas: Schemas,
        *,
        name: str,
        store: Store | None = None,
        task: Task | None = None,
    ) -> None:
        self._pe = Pe(spark, graph, part, schemas)
        self._spark, self._graph, self._name, self._schemas = spark, graph, name, schemas
        self._store, self._task = store, task
        self._empty_output = {stream: arrow_schema(schemas[stream]).empty_table() for stream in self._pe.makes}
        operators = [graph.operator(operator) for operator in self._pe.part]
        # Windows may still hold rows, and a function with a state table may emit rows at any time.
        self._may_emit_without_input = any(o.state is not None or o.windowed for o in operators)

    def warm(self, schemas: Schemas) -> None:
        """Process empty input several times, so that the JVM has loaded and compiled its code before the first epoch.

        Planning takes most of an epoch's time, and becomes several times faster by this.
        """
        empty = {stream: arrow_schema(schemas[stream]).empty_table() for stream in self._pe.reads}
        for _ in range(WARM_UP_RUNS):
            self._pe.run(empty, Span(0, 0, 0, 0))

    def run(self, new: dict[str, pa.Table], position: Position, span: Span) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """Process new rows of a span of epochs from a position. Return the output rows per stream, and the kept rows."""
        if not self._may_emit_without_input and not any(table.num_rows for table in new.values()):
            return dict(self._empty_output), position.kept_rows
        self._name_jobs(span)
        self._pe.kept_rows = position.kept_rows
        output = self._pe.run(new, span)
        for stream, rows in output.items():
            last = None if "epoch" in rows.column_names else pc.max(rows["seq"]).as_py()
            require_seqs_of_input(self._graph.operator(stream), last, span)
        return {stream: rows.cast(self._empty_output[stream].schema) for stream, rows in output.items()}, self._pe.kept_rows

    def run_stored(
        self, new: Mapping[str, StoredInput], position: Position, spans: Sequence[Span]
    ) -> tuple[dict[str, list[StoredRows]], dict[str, KeptRows]]:
        """Process rows in files on executors. Return the stored output of each stream, one part per span, and the kept rows."""
        if not self._may_emit_without_input and not any(rows.files for rows in new.values()):
            return {stream: [StoredRows() for _ in spans] for stream in self._empty_output}, position.kept_rows
        self._name_jobs(join_spans(spans))
        output, kept_rows = self._stored_jobs.run_stored(new, position.kept_rows, spans)
        for stream, parts in output.items():
            for rows, span in zip(parts, spans, strict=True):
                last = None if "epoch" in self._empty_output[stream].column_names else rows.last_seq
                require_seqs_of_input(self._graph.operator(stream), last, span)
        return output, {**kept_rows}

    @cached_property
    def _stored_jobs(self) -> StoredJobs:
        assert self._store is not None and self._task is not None
        store, task = self._store, self._task

        def folder_of(label: str, span: Span) -> str:
            if label in self._pe.part:
                return row_folder(label, task.task)
            return kept_rows_folder(task.name, span.last)

        return StoredJobs(self._spark, self._graph, self._pe.part, self._schemas, store=store, folder_of=folder_of)

    def _name_jobs(self, span: Span) -> None:
        """Name the Spark jobs that follow, so that users see what they are, and they can be canceled."""
        epochs = f"epoch {span.first}" if span.first == span.last else f"epochs {span.first} to {span.last}"
        self._spark.sparkContext.setJobGroup(self._name, f"{self._name} {epochs}", interruptOnCancel=True)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._name)


def taint_duration_epochs(graph: Graph, part: Iterable[str]) -> int | None:
    """Return for how many epochs incomplete input affects the kept rows of a part of the graph; None: possibly forever."""
    operators = [graph.operator(name) for name in part]
    if any(o.state is not None or any(not isinstance(rule, LastEpochs) for rule in o.keep.values()) for o in operators):
        return None
    return sum(max((rule.n for rule in o.keep.values() if isinstance(rule, LastEpochs)), default=0) for o in operators)
