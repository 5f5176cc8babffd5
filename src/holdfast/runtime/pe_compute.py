"""Runs a PE's operators on Spark, for a PE replica."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.app import Graph, LastEpochs
from holdfast.engine.analysis import Schemas
from holdfast.engine.epochs import Span
from holdfast.engine.operator_call import require_seqs_of_input
from holdfast.engine.pe import Pe
from holdfast.engine.schema import arrow_schema
from holdfast.log.position import Position

WARM_UP_RUNS = 6


class PeCompute:
    """Processes spans of epochs from the kept rows of a position. Spark's jobs carry the name of the PE and the epochs."""

    def __init__(self, spark: SparkSession, graph: Graph, part: Iterable[str], schemas: Schemas, *, name: str) -> None:
        self._pe = Pe(spark, graph, part, schemas)
        self._spark, self._graph, self._name = spark, graph, name
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
        epochs = f"epoch {span.first}" if span.first == span.last else f"epochs {span.first} to {span.last}"
        self._spark.sparkContext.setJobGroup(self._name, f"{self._name} {epochs}", interruptOnCancel=True)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._name)
        self._pe.kept_rows = position.kept_rows
        output = self._pe.run(new, span)
        for stream, rows in output.items():
            require_seqs_of_input(self._graph.operator(stream), rows, span)
        return {stream: rows.cast(self._empty_output[stream].schema) for stream, rows in output.items()}, self._pe.kept_rows


def taint_duration_epochs(graph: Graph, part: Iterable[str]) -> int | None:
    """Return for how many epochs incomplete input affects the kept rows of a part of the graph; None: possibly forever."""
    operators = [graph.operator(name) for name in part]
    if any(o.state is not None or any(not isinstance(rule, LastEpochs) for rule in o.keep.values()) for o in operators):
        return None
    return sum(max((rule.n for rule in o.keep.values() if isinstance(rule, LastEpochs)), default=0) for o in operators)
