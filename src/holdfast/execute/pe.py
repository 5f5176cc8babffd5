"""A processing element: fused operators that run epoch by epoch on the rows they keep and the rows that are new."""

from collections.abc import Iterable, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.execute.analysis import Schemas, state_of
from holdfast.execute.batch import Copies
from holdfast.execute.call import call, running
from holdfast.execute.cut import Span
from holdfast.execute.kept import Kept, newest, still_needed
from holdfast.execute.schema import arrow_schema, quoted, to_frame
from holdfast.model import Graph

SMALL = 50_000
"""Rows up to which one task is faster than several: up to this, nothing is shuffled and no code is compiled per query."""


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
        self._graph, self._schemas = graph, schemas
        self._large, self._small = spark, small_session(spark)

    def run(self, new: Mapping[str, pa.Table], span: Span) -> dict[str, pa.Table]:
        """The rows that the span adds to each stream that leaves this PE."""
        rows = sum(table.num_rows for table in [*new.values(), *self.kept.values()])
        spark = self._small if rows <= SMALL else self._large
        wanted, arrived = self._plan(spark, new, span)
        done = {name: rows for name, rows in wanted.items() if isinstance(rows, pa.Table)}
        with running(self._graph, f"epoch {span.last} of PE {'+'.join(self.part)}"):
            done |= collect_together({name: frame for name, frame in wanted.items() if isinstance(frame, DataFrame)})
        self.kept = self._remember(done, arrived, span)
        return {name: self._added(done, name, span) for name in self.makes}

    def _plan(
        self, spark: SparkSession, new: Mapping[str, pa.Table], span: Span
    ) -> tuple[dict[str, pa.Table | DataFrame], dict[str, str]]:
        """What the last job must give: the streams that leave, the new rows of kept inputs, the state tables. And, per kept input,
        under which name its new rows are found."""
        streams: dict[str, pa.Table | DataFrame] = dict(new)
        frames: dict[str, DataFrame] = {}
        wanted: dict[str, pa.Table | DataFrame] = {}
        arrived: dict[str, str] = {}
        copies = Copies(self.reads)
        for name in self.part:
            operator = self._graph.operator(name)
            inputs = []
            for stream in operator.inputs:
                rows = streams[stream]
                if stream in operator.keep:
                    label = kept_by(name, stream)
                    wanted[stream], arrived[label] = rows, stream
                    inputs.append(self._with_kept(spark, label, rows))
                else:
                    if isinstance(rows, pa.Table) and stream not in frames:
                        frames[stream] = self._frame(spark, rows)
                    inputs.append(rows if isinstance(rows, DataFrame) else frames[stream])
            state = self._frame(spark, self._kept_rows(state_of(name))) if operator.state else None
            output, after = call(operator, inputs, state)
            output = copies.bounded(operator, output)
            if after is not None:
                wanted[state_of(name)] = after
            reread = set(self._graph.successors(name)) & set(self.part)
            if len(inputs) > 1 and any(name in self._graph.operator(reader).keep for reader in reread):
                # To be kept and read on, it would be computed twice by one job; a join costs more than a job.
                made = self._collected(output, name, span)
                streams[name] = newest(made, span) if operator.keep else made
            else:
                made = output
                streams[name] = added_by(output, span) if operator.keep and reread else output
            if name in self.makes:
                wanted[name] = made
        return wanted, arrived

    def _collected(self, output: DataFrame, name: str, span: Span) -> pa.Table:
        with running(self._graph, f"epoch {span.last} of PE {'+'.join(self.part)}"):
            return output.toArrow().cast(self._arrow(name))

    def _remember(self, done: Mapping[str, pa.Table], arrived: Mapping[str, str], span: Span) -> Kept:
        kept = {label: done[label] for label in done if label.startswith("state of ")}
        for label, stream in arrived.items():
            reader = self._graph.operator(label.removeprefix(f"{stream} kept by "))
            new = self._added(done, stream, span)
            rows = pa.concat_tables([self._kept_rows(label), new.cast(self._arrow(stream))])
            kept[label] = still_needed(rows, reader.keep[stream], span)
        return kept

    def _added(self, done: Mapping[str, pa.Table], stream: str, span: Span) -> pa.Table:
        """The rows of a stream that are of the span: an operator's output also answers for the rows it kept."""
        kept = stream in self.part and self._graph.operator(stream).keep
        return newest(done[stream], span) if kept else done[stream]

    def _with_kept(self, spark: SparkSession, label: str, rows: pa.Table | DataFrame) -> DataFrame:
        kept = self._kept_rows(label)
        if isinstance(rows, pa.Table):
            return self._frame(spark, pa.concat_tables([kept, rows.cast(kept.schema)]))
        return self._frame(spark, kept).unionByName(rows)

    def _kept_rows(self, label: str) -> pa.Table:
        held = self.kept.get(label)
        return held if held is not None else self._arrow(label.split(" kept by ")[0]).empty_table()

    def _arrow(self, name: str) -> pa.Schema:
        return arrow_schema(self._schemas[name])

    def _frame(self, spark: SparkSession, rows: pa.Table) -> DataFrame:
        frame = to_frame(spark, rows)
        return frame.coalesce(1) if spark is self._small else frame


def kept_by(operator: str, stream: str) -> str:
    """The name of the rows of a stream that an operator keeps."""
    return f"{stream} kept by {operator}"


def small_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark for jobs of a few thousand rows, where planning and compiling would outlast the work."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # a broadcast is a job of its own
    return session


def added_by(output: DataFrame, span: Span) -> DataFrame:
    """What a span adds to an operator's output, for the operators that read it in the same job."""
    if "epoch" in output.columns:
        return output.where(F.col("epoch").between(span.first, span.last))
    return output.where(F.col("seq") > span.after)


def collect_together(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """Several frames evaluated by one Spark job: their union, each with columns of its own."""
    names = list(frames)
    if len(names) <= 1:
        return {name: frames[name].toArrow() for name in names}
    columns = [
        (number, place, field) for number, name in enumerate(names) for place, field in enumerate(frames[name].schema.fields)
    ]
    parts = [
        frame.selectExpr(
            f"{mine} as part",
            *(
                f"{quoted(field.name)} as c{number}_{place}"
                if number == mine
                else f"cast(null as {field.dataType.simpleString()}) as c{number}_{place}"
                for number, place, field in columns
            ),
        )
        for mine, frame in enumerate(frames.values())
    ]
    table = reduce(DataFrame.union, parts).toArrow()
    done = {}
    for mine, name in enumerate(names):
        rows = table.filter(pc.equal(table["part"], mine))
        own = [(f"c{number}_{place}", field.name) for number, place, field in columns if number == mine]
        done[name] = rows.select([column for column, _ in own]).rename_columns([field for _, field in own])
    return done
