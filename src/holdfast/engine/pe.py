"""Run a processing element (PE): one or more fused operators, which process their kept rows and new rows epoch by epoch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.app import Graph
from holdfast.engine.analysis import Schemas
from holdfast.engine.epochs import Span
from holdfast.engine.kept_rows import Kept, rows_added, still_needed
from holdfast.engine.operator_call import naming_failed_operator, require_epochs
from holdfast.engine.query.query_replay import QueryPe
from holdfast.engine.schema import arrow_schema
from holdfast.engine.spark_jobs import PeJobs

SMALL = 50_000
"""Up to this many rows, one Spark task is faster than several: nothing is shuffled, and no code is compiled per query."""
SMALL_BYTES = 32 * 2**20
"""Up to this total size, all rows may go to one Spark task."""


class Pe:
    """A part of the graph with the rows it keeps.

    `run` processes a span of epochs in one Spark job, or in two if an operator of the PE keeps the output of a join. By the first
    law, its output equals that of the whole-trace run for those epochs. Kept rows change only after everything has succeeded, so
    a failed epoch can run again.
    """

    def __init__(self, spark: SparkSession, graph: Graph, part: Iterable[str], schemas: Schemas) -> None:
        names = set(part)
        self.part = tuple(name for name in graph.order if name in names)
        self.reads = graph.streams_into(names)
        self.makes = graph.streams_out_of(names)
        self.kept_rows: Kept = {}
        self._spark, self._graph, self._schemas = spark, graph, schemas
        self._small = PeJobs(small_session(spark), graph, self.part, schemas, parts=1)

    def run(self, new: Mapping[str, pa.Table], span: Span) -> dict[str, pa.Table]:
        """Return the rows that the span adds to each output stream of this PE."""
        tables = [*new.values(), *self.kept_rows.values()]
        small = sum(table.num_rows for table in tables) <= SMALL and sum(table.nbytes for table in tables) <= SMALL_BYTES
        jobs = self._small if small else self._large
        with naming_failed_operator(self._graph, f"epoch {span.last} of PE {'+'.join(self.part)}", part=self.part):
            tables_of, arrived = jobs.run(new, self.kept_rows, span)
        for name in self.makes:
            require_epochs(self._graph.operator(name), tables_of[name])
        self.kept_rows = self._remember(tables_of, arrived, span)
        return {name: self._added(tables_of, name, span) for name in self.makes}

    @cached_property
    def _large(self) -> PeJobs:
        """Jobs for many rows. They have their own session, so that views of the same name in other PEs do not collide."""
        parts = max(2, self._spark.sparkContext.defaultParallelism)
        return PeJobs(self._spark.newSession(), self._graph, self.part, self._schemas, parts=parts)

    def _remember(self, tables: Mapping[str, pa.Table], arrived: Mapping[str, str], span: Span) -> Kept:
        kept_rows = {label: tables[label] for label in tables if label.startswith("state of ")}
        for label, stream in arrived.items():
            reader = self._graph.operator(label.removeprefix(f"{stream} kept by "))
            schema = arrow_schema(self._schemas[stream])
            before = self.kept_rows.get(label, schema.empty_table())
            rows = pa.concat_tables([rows.cast(schema) for rows in (before, self._added(tables, stream, span))])
            kept_rows[label] = still_needed(rows, reader.keep[stream], span)
        return kept_rows

    def _added(self, tables: Mapping[str, pa.Table], stream: str, span: Span) -> pa.Table:
        """Return the rows of a stream that belong to the span. An operator's output also contains rows for its kept input."""
        keeps_input = stream in self.part and self._graph.operator(stream).keep
        return rows_added(tables[stream], span) if keeps_input else tables[stream]


def small_session(spark: SparkSession) -> SparkSession:
    """Return a session for jobs of a few thousand rows, in which planning and compiling would take longer than the work."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # a broadcast is a job of its own
    return session


@contextmanager
def open_pe(
    spark: SparkSession, graph: Graph, part: Sequence[str], schemas: Schemas, *, first_epoch: int
) -> Iterator[Pe | QueryPe]:
    """Yield a PE that processes epochs from `first_epoch` on: functions or a query."""
    if graph.operator(part[0]).is_query:
        with QueryPe(spark, graph, part[0], schemas, first_epoch=first_epoch) as pe:
            yield pe
    else:
        yield Pe(spark, graph, part, schemas)
