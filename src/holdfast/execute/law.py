"""The first law: a whole trace as one plan gives, row for row, what the same trace gives epoch by epoch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from holdfast.execute.analysis import Schemas, analyse
from holdfast.execute.batch import run_batch
from holdfast.execute.call import running
from holdfast.execute.compare import Difference, first_difference
from holdfast.execute.cut import Span
from holdfast.execute.kept import newest
from holdfast.execute.pe import Pe, collect_together
from holdfast.model import Graph, LastEpochs, LastRows, Operator

EVERYTHING = 1 << 40
"""More rows than any key has: to ask whether an operator would obey if it kept all of its past."""


@dataclass(frozen=True)
class Broken:
    """An operator whose output depends on how the stream is cut, with the first row that shows it and what to do."""

    operator: Operator
    epoch: int
    difference: Difference
    advice: str

    def __str__(self) -> str:
        name, seq = self.operator.name, self.difference.seq
        return (
            f"operator '{name}' ({self.operator.origin}) breaks the first law at seq {seq}, in epoch {self.epoch}: over the whole "
            f"trace it gives {_shown(self.difference.left)}, epoch by epoch {_shown(self.difference.right)}; {self.advice}"
        )


def _shown(row: Mapping[str, object] | None) -> str:
    return "no such row" if row is None else ", ".join(f"{name}={value!r}" for name, value in row.items())


def broken_operators(
    spark: SparkSession,
    graph: Graph,
    sources: Mapping[str, DataFrame],
    spans: Sequence[Span],
    *,
    progress: Callable[[str], None] = lambda operator: None,
) -> list[Broken]:
    """The operators that break the first law over these sources and this cut, each judged on correct inputs."""
    schemas = analyse(graph, spark)
    frames = run_batch(graph, sources, epochs=(spans[0].first, spans[-1].last))
    with running(graph, "the whole-trace run"):
        whole = collect_together(frames)
    found = []
    for operator in graph.operators:
        progress(operator.name)
        difference = _difference(spark, graph, schemas, operator, whole, spans)
        if difference:
            epoch = next((s.first for s in spans if s.after < difference.seq <= s.until), spans[-1].last)
            advice = _advice(operator, partial(_holds_with, spark, graph, schemas, operator, whole, spans))
            found.append(Broken(operator, epoch, difference, advice))
    return found


def _difference(
    spark: SparkSession, graph: Graph, schemas: Schemas, operator: Operator, whole: Mapping[str, pa.Table], spans: Sequence[Span]
) -> Difference | None:
    pe = Pe(spark, graph, [operator.name], schemas)
    parts = [pe.run({stream: rows_of(whole[stream], span) for stream in operator.inputs}, span)[operator.name] for span in spans]
    wanted = whole[operator.name]
    return first_difference(wanted, pa.concat_tables([part.cast(wanted.schema) for part in parts]))


def rows_of(table: pa.Table, span: Span) -> pa.Table:
    """The rows of a stream that belong to a span."""
    inside = newest(table, span)
    if "epoch" in table.column_names:
        return inside
    return inside.filter(pc.less_equal(inside["seq"], span.until))


def _holds_with(
    spark: SparkSession,
    graph: Graph,
    schemas: Schemas,
    operator: Operator,
    whole: Mapping[str, pa.Table],
    spans: Sequence[Span],
    keep: LastRows | LastEpochs,
) -> bool:
    rules = dict.fromkeys(operator.keep or operator.inputs, keep)
    changed = replace(operator, keep=rules)
    altered = Graph({**graph.nodes, operator.name: changed}, graph.order)
    return _difference(spark, altered, schemas, changed, whole, spans) is None


def _advice(operator: Operator, holds_with: Callable[[LastRows | LastEpochs], bool]) -> str:
    """What to do, found by trying other rules on the same rows."""
    if operator.state is not None:
        return "its state table must carry everything that the output depends on, and each row may be counted once"
    if not holds_with(LastRows(EVERYTHING, ())):
        return "keeping more would not help: it looks ahead, or it depends on the order or division of rows"
    rules = list(operator.keep.values())
    if not rules:
        return "it looks back at earlier rows but keeps none: give it a keep rule"
    rule = rules[0]
    for times in (2, 4, 8, 16):
        wider = replace(rule, n=rule.n * times)
        if holds_with(wider):
            return f"it looks further back than {rule} keeps: {wider} would do on this sample"
    return f"it looks further back than {rule} keeps, by far: keep more rows, or use a state table"
