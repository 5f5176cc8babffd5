"""Check the first law: processing a whole trace as one plan and epoch by epoch give the same rows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import Graph, Operator
from holdfast.engine.analysis import Schemas
from holdfast.engine.breach_cause import LawBreach, explain_breach
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import Span
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.operator_check import OperatorCheck, StrayRow, built_alone
from holdfast.engine.row_comparison import first_difference
from holdfast.engine.schema import to_frame
from holdfast.engine.whole_trace import build_whole_trace


@dataclass(frozen=True)
class LawRun:
    """The streams of a whole-trace run, and the epochs in which each operator is run again."""

    spark: SparkSession
    graph: Graph
    schemas: Schemas
    whole: Mapping[str, pa.Table]
    spans: Sequence[Span]

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        graph: Graph,
        sources: Mapping[str, DataFrame],
        spans: Sequence[Span],
        schemas: Schemas,
    ) -> "LawRun":
        """Run the whole trace."""
        frames = build_whole_trace(graph, sources, epochs=(spans[0].first, spans[-1].last))
        with naming_failed_operator(graph, "the whole-trace run"):
            whole = collect_together(frames)
        return cls(spark, graph, schemas, whole, spans)

    def broken(
        self, *, only: Collection[str] | None = None, progress: Callable[[str], None] = lambda operator: None
    ) -> list[LawBreach | StrayRow]:
        """Return the operators among `only` that break the law."""
        operators = [operator for operator in self.graph.operators if only is None or operator.name in only]
        shuffled = self._shuffled(operators)
        broken = []
        for operator in operators:
            progress(operator.name)
            check = OperatorCheck(self.spark, self.graph, self.schemas, operator, self.whole, self.spans)
            order = first_difference(self.whole[operator.name], shuffled[operator.name])
            verdict = check.verdict()
            if verdict or order:
                broken.append(explain_breach(check, verdict, order))
        return broken

    def _shuffled(self, operators: Sequence[Operator]) -> dict[str, pa.Table]:
        """Return the operators' output for their input rows in another order."""
        rng = np.random.default_rng(0)
        streams = {stream for operator in operators for stream in operator.inputs}
        inputs = {name: self.whole[name].take(rng.permutation(self.whole[name].num_rows)) for name in sorted(streams)}
        frames = {name: to_frame(self.spark, table) for name, table in inputs.items()}
        outputs: dict[str, DataFrame] = {}
        for operator in operators:
            outputs |= built_alone(self.graph, operator, frames, self.spans)
        with naming_failed_operator(self.graph, "the run with rows in another order"):
            return collect_together(outputs)
