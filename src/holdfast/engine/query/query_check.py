"""Checks a query on recorded rows: whether it can be repeated, and whether its rows depend on where epochs end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from holdfast.app import Graph, Operator
from holdfast.engine.analysis import Schemas
from holdfast.engine.epochs import Span
from holdfast.engine.operator_check import format_row
from holdfast.engine.query.query_replay import QUIET_BATCHES, QueryPe
from holdfast.engine.row_comparison import Difference, first_difference
from holdfast.engine.schema import arrow_schema

MERGED_EPOCHS = 3
CHECKED_EPOCHS = 40
"""The most epochs that are run again, because each is a batch of its own, and the check runs three of them per epoch."""

REPEAT_ADVICE = (
    "a query must give the same rows when its epochs are repeated, but it depends on something else than its input, such as "
    "current_timestamp(), rand(), uuid() or the processing time"
)
REASONS = (
    "a row that is late for the watermark of earlier epochs is dropped; of equal rows within an epoch dropDuplicates keeps any; "
    "first, last and collect_list follow the order of arrival"
)


@dataclass(frozen=True)
class QueryBreach:
    """A query that gives other rows when its epochs are repeated, with the first row that differs."""

    operator: Operator
    difference: Difference

    def __str__(self) -> str:
        left, right = self.difference.left, self.difference.right
        return (
            f"{self.operator} gives {format_row(left)} in one run and {format_row(right)} in another, "
            f"in epoch {(left or right or {}).get('epoch')}, where a fork of it continues: {REPEAT_ADVICE}"
        )


@dataclass(frozen=True)
class CutDependence:
    """A query whose rows depend on where epochs end. That is no error, but the user should know."""

    operator: Operator
    difference: Difference

    def __str__(self) -> str:
        row = self.difference.left or self.difference.right or {}
        shown = format_row({name: value for name, value in row.items() if name != "seq"})
        epochs = "longer" if self.difference.left is None else "these"
        return f"{self.operator} depends on where epochs end: it gives {shown} only with {epochs} epochs; {REASONS}"


def check_query(
    spark: SparkSession, graph: Graph, schemas: Schemas, query: Operator, whole: Mapping[str, pa.Table], epochs: Sequence[Span]
) -> QueryBreach | CutDependence | None:
    """Return what is wrong with a query on the streams of a whole-trace run.

    The query runs again over the first epochs, with a fork in the middle and, in append mode, with longer epochs.
    """
    epochs = epochs[:CHECKED_EPOCHS]
    repeated = repeated_rows(spark, graph, query, schemas, whole, epochs)
    output = whole[query.name].filter(pc.less_equal(whole[query.name]["epoch"], epochs[-1].last))
    difference = first_difference(output.cast(repeated.schema), repeated)
    if difference is not None:
        return QueryBreach(query, difference)
    if query.output_mode != "append":
        return None
    difference = difference_by_cut(spark, graph, query, schemas, whole, epochs)
    return None if difference is None else CutDependence(query, difference)


def repeated_rows(
    spark: SparkSession, graph: Graph, query: Operator, schemas: Schemas, streams: Mapping[str, pa.Table], spans: Sequence[Span]
) -> pa.Table:
    """Return the rows of a query that fails in the middle of the epochs and continues with a fork."""
    middle = max(1, len(spans) // 2)
    return _run(spark, graph, query, schemas, [_rows_of_epoch(streams, query, span.last) for span in spans], spans, middle)


def difference_by_cut(
    spark: SparkSession, graph: Graph, query: Operator, schemas: Schemas, streams: Mapping[str, pa.Table], spans: Sequence[Span]
) -> Difference | None:
    """Return the first row that only appears, or only fails to appear, if `MERGED_EPOCHS` epochs at a time are one epoch."""
    by_epoch = [_rows_of_epoch(streams, query, span.last) for span in spans]
    merged = [
        {stream: pa.concat_tables([rows[stream] for rows in by_epoch[start : start + MERGED_EPOCHS]]) for stream in query.inputs}
        for start in range(0, len(by_epoch), MERGED_EPOCHS)
    ]
    end = [{stream: rows.slice(0, 0) for stream, rows in by_epoch[0].items()}] * QUIET_BATCHES
    tables = []
    for batches in ([*by_epoch, *end], [*merged, *end]):
        numbered = [Span(number, number, 0, 0) for number in range(len(batches))]
        rows = _run(spark, graph, query, schemas, batches, numbered, None).drop_columns("epoch")
        tables.append(rows.set_column(rows.column_names.index("seq"), "seq", pa.array([0] * rows.num_rows, pa.int64())))
    return first_difference(*tables)


def _run(
    spark: SparkSession,
    graph: Graph,
    query: Operator,
    schemas: Schemas,
    batches: Sequence[Mapping[str, pa.Table]],
    spans: Sequence[Span],
    fork_at: int | None,
) -> pa.Table:
    with QueryPe(spark, graph, query.name, schemas, first_epoch=spans[0].first, fork_at=fork_at) as pe:
        parts = [pe.run(rows, span)[query.name] for rows, span in zip(batches, spans, strict=True)]
    return pa.concat_tables([part.cast(arrow_schema(schemas[query.name])) for part in parts])


def _rows_of_epoch(streams: Mapping[str, pa.Table], query: Operator, epoch: int) -> dict[str, pa.Table]:
    return {stream: streams[stream].filter(pc.equal(streams[stream]["epoch"], epoch)) for stream in query.inputs}
