"""Run one operator again on streams of a whole-trace run: epoch by epoch, or on a part of the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import Graph, Keep, Operator
from holdfast.engine.analysis import Schemas
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import Span, join_spans
from holdfast.engine.kept_rows import is_inside, rows_of
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.pe import Pe
from holdfast.engine.row_comparison import Difference, Row, first_difference
from holdfast.engine.schema import to_frame
from holdfast.engine.whole_trace import build_whole_trace


@dataclass(frozen=True)
class StrayRow:
    """A row that an operator produced in an epoch to which the row does not belong."""

    operator: Operator
    epoch: int
    row: Row

    def __str__(self) -> str:
        mark = "epoch" if "epoch" in self.row else "seq"
        return (
            f"operator '{self.operator.name}' ({self.operator.origin}) produces in epoch {self.epoch} a row of another epoch: "
            f"{format_row(self.row)}; a row must carry the {mark} of the tuple that triggered it"
        )


def format_row(row: Row | None, beside: Row | None = None) -> str:
    """Return a row as text. Of a row that is compared with `beside`, only seq, epoch and the columns that differ are shown."""
    if row is None:
        return "no such row"
    shown = row if beside is None else {k: v for k, v in row.items() if k in ("seq", "epoch") or v != beside.get(k)}
    return ", ".join(f"{name}={value!s}" for name, value in shown.items())


@dataclass(frozen=True)
class OperatorCheck:
    """Runs one operator on the streams of the whole-trace run."""

    spark: SparkSession
    graph: Graph
    schemas: Schemas
    operator: Operator
    whole: Mapping[str, pa.Table]
    spans: Sequence[Span]

    def verdict(self) -> Difference | StrayRow | None:
        """Return what differs between the whole-trace run and epoch by epoch."""
        name, parts = self.operator.name, []
        pe = Pe(self.spark, self.graph, [name], self.schemas)
        for span in self.spans:
            rows = pe.run({stream: rows_of(self.whole[stream], span) for stream in self.operator.inputs}, span)[name]
            strayed = rows.filter(pc.invert(is_inside(rows, span)))
            if strayed.num_rows:
                return StrayRow(self.operator, span.last, strayed.slice(0, 1).to_pylist()[0])
            parts.append(rows.cast(self.whole[name].schema))
        return first_difference(rows_of(self.whole[name], join_spans(self.spans)), pa.concat_tables(parts))

    def difference_at_once(self, until: Span) -> Difference | None:
        """Return what differs between the whole-trace run and another run on only the rows up to the end of a span."""
        spans = self.spans[: self.spans.index(until) + 1]
        past = join_spans(spans)
        frames = {stream: to_frame(self.spark, rows_of(self.whole[stream], past)) for stream in self.operator.inputs}
        with naming_failed_operator(self.graph, "a run on part of the trace", part=[self.operator.name]):
            again = collect_together(built_alone(self.graph, self.operator, frames, spans))[self.operator.name]
        return first_difference(rows_of(self.whole[self.operator.name], past), rows_of(again, past))

    def with_keep(self, keep: Mapping[str, Keep]) -> "OperatorCheck":
        """Return the same check with other keep rules."""
        changed = replace(self.operator, keep=dict(keep))
        return replace(self, graph=Graph({**self.graph.nodes, changed.name: changed}, self.graph.order), operator=changed)


def built_alone(graph: Graph, operator: Operator, frames: Mapping[str, DataFrame], spans: Sequence[Span]) -> dict[str, DataFrame]:
    """Return the output of one operator for its input streams as one plan, under its name."""
    inputs = {stream: frames[stream] for stream in operator.inputs}
    output = build_whole_trace(graph, inputs, part=[operator.name], epochs=(spans[0].first, spans[-1].last))
    return {operator.name: output[operator.name]}
