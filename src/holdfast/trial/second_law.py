"""The second law, checked: what a run left at its sinks equals the whole trace run as one plan, row for row."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import App
from holdfast.engine.analysis import analyse
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.operator_call import running
from holdfast.engine.row_comparison import Difference, first_difference
from holdfast.engine.schema import arrow_schema
from holdfast.engine.whole_trace import run_batch
from holdfast.log import Store
from holdfast.log.timeline import Timeline
from holdfast.runtime.sinks.output_files import read_output
from holdfast.trial.checkers import Verdict


def differences(
    spark: SparkSession, app: App, sources: Mapping[str, DataFrame], *, out: Store, timeline: Timeline
) -> dict[str, Difference | None]:
    """For each sink the first row in which its newest output and the whole-trace run differ; None where they do not."""
    graph = app.graph()
    schemas = analyse(graph, spark, name=app.name)
    assert timeline.last is not None
    frames = run_batch(graph, with_epochs(sources, ByTime(timeline.epoch_s)), epochs=(timeline.first, timeline.last))
    with running(graph, "the whole-trace run"):
        whole = collect_together({sink.name: frames[sink.input] for sink in graph.sinks})
    found: dict[str, Difference | None] = {}
    for sink in graph.sinks:
        schema = arrow_schema(schemas[sink.input])
        written = read_output(out, sink.name)
        rows = written.select(schema.names).cast(schema) if written.num_rows else schema.empty_table()
        found[sink.name] = first_difference(_aligned(whole[sink.name], schema), rows)
    return found


def second_law(sink: str, difference: Difference | None, *, left_inexact: int = 0) -> Verdict:
    """Whether the law holds at a sink. Where results were left inexact by contract, it cannot: a difference then breaks nothing."""
    name = f"second law at '{sink}'"
    if difference is None:
        return Verdict(name, True, f"the newest output of '{sink}' equals the whole trace run as one plan, row for row")
    said = f"'{sink}' differs at seq {difference.seq}: in one plan {difference.left}, in the run {difference.right}"
    if left_inexact:
        return Verdict(name, None, f"{left_inexact} inexact results were left as they are, by contract; {said}")
    return Verdict(name, False, said)


def unknown_second_law(sink: str, why: Exception) -> Verdict:
    """That the law could not be checked at a sink: the trace may be gone, say. All else that is known of the run stands."""
    return Verdict(f"second law at '{sink}'", None, f"the whole trace could not be run as one plan: {why}")


def _aligned(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.select(schema.names).cast(schema)
