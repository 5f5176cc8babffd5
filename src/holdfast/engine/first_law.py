"""Check the first law: processing a whole trace as one plan and epoch by epoch give the same rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import Graph, Keep, LastRows, Operator
from holdfast.engine.analysis import Schemas, analyse
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import Span
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.pe import Pe
from holdfast.engine.row_comparison import Difference, first_difference
from holdfast.engine.whole_trace import build_whole_trace

EVERYTHING = 1 << 40
"""More rows than any key has, to test whether an operator would obey the law if it kept all past rows."""


@dataclass(frozen=True)
class LawBreach:
    """An operator whose output depends on where epochs end, with the first row that differs and advice."""

    operator: Operator
    epoch: int
    difference: Difference
    advice: str

    def __str__(self) -> str:
        name, seq = self.operator.name, self.difference.seq
        whole, by_epoch = _format_row(self.difference.left), _format_row(self.difference.right)
        return (
            f"operator '{name}' ({self.operator.origin}) breaks the first law at seq {seq}, in epoch {self.epoch}: over the whole "
            f"trace it gives {whole}, epoch by epoch {by_epoch}; {self.advice}"
        )


@dataclass(frozen=True)
class StrayRow:
    """A row that an operator produced in an epoch to which the row does not belong."""

    operator: Operator
    epoch: int
    row: Mapping[str, object]

    def __str__(self) -> str:
        mark = "epoch" if "epoch" in self.row else "seq"
        return (
            f"operator '{self.operator.name}' ({self.operator.origin}) produces in epoch {self.epoch} a row of another epoch: "
            f"{_format_row(self.row)}; a row must carry the {mark} of the tuple that triggered it"
        )


def _format_row(row: Mapping[str, object] | None) -> str:
    return "no such row" if row is None else ", ".join(f"{name}={value!r}" for name, value in row.items())


def broken_operators(
    spark: SparkSession,
    graph: Graph,
    sources: Mapping[str, DataFrame],
    spans: Sequence[Span],
    *,
    progress: Callable[[str], None] = lambda operator: None,
) -> list[LawBreach | StrayRow]:
    """Return the operators that break the first law for these sources and epochs. Each is checked on correct inputs."""
    schemas = analyse(graph, spark)
    frames = build_whole_trace(graph, sources, epochs=(spans[0].first, spans[-1].last))
    with naming_failed_operator(graph, "the whole-trace run"):
        whole = collect_together(frames)
    broken: list[LawBreach | StrayRow] = []
    for operator in graph.operators:
        progress(operator.name)
        check = _OperatorCheck(spark, graph, schemas, operator, whole, spans)
        verdict = check.verdict()
        if isinstance(verdict, Difference):
            advice = _advice(operator, check.holds_with)
            broken.append(LawBreach(operator, _epoch_of(verdict, spans), verdict, advice))
        elif verdict:
            broken.append(verdict)
    return broken


@dataclass(frozen=True)
class _OperatorCheck:
    """Runs one operator epoch by epoch on the streams of the whole-trace run."""

    spark: SparkSession
    graph: Graph
    schemas: Schemas
    operator: Operator
    whole: Mapping[str, pa.Table]
    spans: Sequence[Span]

    def verdict(self) -> Difference | StrayRow | None:
        name, parts = self.operator.name, []
        pe = Pe(self.spark, self.graph, [name], self.schemas)
        for span in self.spans:
            rows = pe.run({stream: rows_of(self.whole[stream], span) for stream in self.operator.inputs}, span)[name]
            strayed = rows.filter(pc.invert(_inside(rows, span)))
            if strayed.num_rows:
                return StrayRow(self.operator, span.last, strayed.slice(0, 1).to_pylist()[0])
            parts.append(rows.cast(self.whole[name].schema))
        return first_difference(self.whole[name], pa.concat_tables(parts))

    def holds_with(self, keep: Mapping[str, Keep]) -> bool:
        """Return whether the operator would obey the law with other keep rules."""
        changed = replace(self.operator, keep=dict(keep))
        altered = Graph({**self.graph.nodes, changed.name: changed}, self.graph.order)
        return replace(self, graph=altered, operator=changed).verdict() is None


def rows_of(table: pa.Table, span: Span) -> pa.Table:
    """Return the rows of a stream that belong to a span."""
    return table.filter(_inside(table, span))


def _inside(table: pa.Table, span: Span) -> pa.ChunkedArray:
    name, low, high = ("epoch", span.first, span.last) if "epoch" in table.column_names else ("seq", span.after + 1, span.until)
    return pc.fill_null(pc.and_(pc.greater_equal(table[name], low), pc.less_equal(table[name], high)), False)


def _epoch_of(difference: Difference, spans: Sequence[Span]) -> int:
    row = difference.left or difference.right or {}
    if row.get("epoch") is not None:
        return int(row["epoch"])
    return next((span.first for span in spans if span.after < difference.seq <= span.until), spans[-1].last)


def _advice(operator: Operator, holds_with: Callable[[Mapping[str, Keep]], bool]) -> str:
    """Return what to do, by trying other keep rules on the same rows."""
    if operator.state is not None:
        return "its state table must contain everything that the output depends on, and each row must be counted once"
    everything: dict[str, Keep] = dict.fromkeys(operator.inputs, LastRows(EVERYTHING, ()))
    if not holds_with(everything):
        return "keeping more rows would not help: it looks ahead, or it depends on the order or partitioning of rows"
    advice = []
    for stream in operator.inputs:
        rule = operator.keep.get(stream)
        others = {other: rule_of_other for other, rule_of_other in everything.items() if other != stream}
        if holds_with(others if rule is None else {**others, stream: rule}):
            continue
        of = f" of '{stream}'" if len(operator.inputs) > 1 else ""
        if rule is None:
            advice.append(f"it looks back at earlier rows{of} but keeps none: give it a keep rule")
        elif wider := _enough(rule, partial(_holds_beside, others, stream, holds_with)):
            advice.append(f"it looks further back than {rule} keeps{of}: {wider} would do on this sample")
        else:
            advice.append(f"it looks further back than {rule} keeps{of}, by far: keep more rows, or use a state table")
    return "; ".join(advice) or "it keeps too little of its inputs: keep more of each"


def _holds_beside(others: Mapping[str, Keep], stream: str, holds_with: Callable[[Mapping[str, Keep]], bool], rule: Keep) -> bool:
    return holds_with({**others, stream: rule})


def _enough(rule: Keep, holds: Callable[[Keep], bool]) -> Keep | None:
    """Return the shortest rule of the same kind with which the law holds, up to sixteen times as long; None if there is none."""
    reach = next((rule.n * times for times in (2, 4, 8, 16) if holds(replace(rule, n=rule.n * times))), None)
    if reach is None:
        return None
    too_short = reach // 2
    while reach - too_short > 1:
        middle = (reach + too_short) // 2
        reach, too_short = (middle, too_short) if holds(replace(rule, n=middle)) else (reach, middle)
    return replace(rule, n=reach)
