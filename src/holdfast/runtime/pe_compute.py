"""A PE on Spark, as a replica's loop runs it."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.app import Graph, LastEpochs
from holdfast.engine.analysis import Schemas
from holdfast.engine.epochs import Span
from holdfast.engine.operator_call import require_caused
from holdfast.engine.pe import Pe
from holdfast.engine.schema import arrow_schema
from holdfast.log.position import Position

WARM_RUNS = 6


class PeCompute:
    """Runs spans of epochs from a head's kept rows. Spark's jobs carry the name of the PE and the epochs."""

    def __init__(self, spark: SparkSession, graph: Graph, part: Iterable[str], schemas: Schemas, *, name: str) -> None:
        self._pe = Pe(spark, graph, part, schemas)
        self._spark, self._graph, self._name = spark, graph, name
        self._empty = {stream: arrow_schema(schemas[stream]).empty_table() for stream in self._pe.makes}
        operators = [graph.operator(each) for each in self._pe.part]
        # Without input nothing comes out, unless a window still holds rows or a state table has a mind of its own.
        self._restless = any(o.state is not None or o.windowed for o in operators)

    def warm(self, schemas: Schemas) -> None:
        """Run over nothing a few times, so that the first epochs need not wait until the JVM has loaded and compiled what every
        epoch needs: planning, which takes most of an epoch's time, is several times faster after that."""
        nothing = {stream: arrow_schema(schemas[stream]).empty_table() for stream in self._pe.reads}
        for _ in range(WARM_RUNS):
            self._pe.run(nothing, Span(0, 0, 0, 0))

    def run(self, new: dict[str, pa.Table], head: Position, span: Span) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        if not self._restless and not any(table.num_rows for table in new.values()):
            return dict(self._empty), head.kept
        what = f"epoch {span.first}" if span.first == span.last else f"epochs {span.first} to {span.last}"
        self._spark.sparkContext.setJobGroup(self._name, f"{self._name} {what}", interruptOnCancel=True)
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self._name)
        self._pe.kept = head.kept
        made = self._pe.run(new, span)
        for stream, rows in made.items():
            require_caused(self._graph.operator(stream), rows, span)
        return {stream: rows.cast(self._empty[stream].schema) for stream, rows in made.items()}, self._pe.kept


def taint_duration_epochs(graph: Graph, part: Iterable[str]) -> int | None:
    """After how many epochs an incomplete input no longer shows in what a part of the graph keeps; None: it may always."""
    operators = [graph.operator(name) for name in part]
    if any(o.state is not None or any(not isinstance(rule, LastEpochs) for rule in o.keep.values()) for o in operators):
        return None
    return sum(max((rule.n for rule in o.keep.values() if isinstance(rule, LastEpochs)), default=0) for o in operators)
