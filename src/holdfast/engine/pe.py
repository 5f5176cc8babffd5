"""A processing element: fused operators that run epoch by epoch on the rows they keep and the rows that are new."""

from collections.abc import Iterable, Mapping
from functools import cached_property

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.app import Graph
from holdfast.engine.analysis import Schemas
from holdfast.engine.epochs import Span
from holdfast.engine.kept_rows import Kept, newest, still_needed
from holdfast.engine.operator_call import require_places, running
from holdfast.engine.schema import arrow_schema
from holdfast.engine.spark_jobs import Jobs

SMALL = 50_000
"""Rows up to which one task is faster than several: up to this, nothing is shuffled and no code is compiled per query."""
SMALL_BYTES = 32 * 2**20
"""What those rows may be in all: they go to one task."""


class Pe:
    """A part of the graph with the rows it keeps.

    `run` processes a span of epochs as one Spark job, or as two where a join's output is kept within. Its output is what the
    whole-trace run has for those epochs: the first law. Kept rows change only when all has succeeded, so a failed epoch can be run
    again.
    """

    def __init__(self, spark: SparkSession, graph: Graph, part: Iterable[str], schemas: Schemas) -> None:
        names = set(part)
        self.part = tuple(name for name in graph.order if name in names)
        self.reads = graph.streams_into(names)
        self.makes = graph.streams_out_of(names)
        self.kept: Kept = {}
        self._spark, self._graph, self._schemas = spark, graph, schemas
        self._small = Jobs(small_session(spark), graph, self.part, schemas, parts=1)

    def run(self, new: Mapping[str, pa.Table], span: Span) -> dict[str, pa.Table]:
        """The rows that the span adds to each stream that leaves this PE."""
        tables = [*new.values(), *self.kept.values()]
        small = sum(table.num_rows for table in tables) <= SMALL and sum(table.nbytes for table in tables) <= SMALL_BYTES
        jobs = self._small if small else self._large
        with running(self._graph, f"epoch {span.last} of PE {'+'.join(self.part)}", part=self.part):
            done, arrived = jobs.run(new, self.kept, span)
        for name in self.makes:
            require_places(self._graph.operator(name), done[name])
        self.kept = self._remember(done, arrived, span)
        return {name: self._added(done, name, span) for name in self.makes}

    @cached_property
    def _large(self) -> Jobs:
        """Jobs in a session of its own too: other PEs run the same operators, and what these call by a name is to be theirs."""
        parts = max(2, self._spark.sparkContext.defaultParallelism)
        return Jobs(self._spark.newSession(), self._graph, self.part, self._schemas, parts=parts)

    def _remember(self, done: Mapping[str, pa.Table], arrived: Mapping[str, str], span: Span) -> Kept:
        kept = {label: done[label] for label in done if label.startswith("state of ")}
        for label, stream in arrived.items():
            reader = self._graph.operator(label.removeprefix(f"{stream} kept by "))
            schema = arrow_schema(self._schemas[stream])
            before = self.kept.get(label, schema.empty_table())
            rows = pa.concat_tables([each.cast(schema) for each in (before, self._added(done, stream, span))])
            kept[label] = still_needed(rows, reader.keep[stream], span)
        return kept

    def _added(self, done: Mapping[str, pa.Table], stream: str, span: Span) -> pa.Table:
        """The rows of a stream that are of the span: an operator's output also answers for the rows it kept."""
        kept = stream in self.part and self._graph.operator(stream).keep
        return newest(done[stream], span) if kept else done[stream]


def small_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark for jobs of a few thousand rows, where planning and compiling would outlast the work."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # a broadcast is a job of its own
    return session
