"""Checks the second law: the newest output of a run equals a replay of the whole trace, row for row."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from holdfast.app import App
from holdfast.engine.analysis import analyse
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.row_comparison import Difference, first_difference
from holdfast.engine.schema import arrow_schema
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.log import Store
from holdfast.log.output_files import read_output
from holdfast.log.timeline import Timeline
from holdfast.plural import counted
from holdfast.trial.checkers import Verdict


def differences(
    spark: SparkSession, app: App, sources: Mapping[str, DataFrame], *, out: Store, timeline: Timeline
) -> dict[str, Difference | None]:
    """Return, for each sink, the first difference between its newest output and the whole-trace replay, or None.

    Sinks with a writer are left out, because only the writer knows where its rows are.
    """
    graph = app.graph()
    sinks = [sink for sink in graph.sinks if sink.writer is None]
    if not sinks:
        return {}
    schemas = analyse(graph, spark, name=app.name)
    assert timeline.last is not None
    frames = build_whole_trace(graph, with_epochs(sources, ByTime(timeline.epoch_s)), epochs=(timeline.first, timeline.last))
    with naming_failed_operator(graph, "the whole-trace run"):
        whole = collect_together({sink.name: frames[sink.input] for sink in sinks})
    difference_at: dict[str, Difference | None] = {}
    for sink in sinks:
        schema = arrow_schema(schemas[sink.input])
        output = read_output(out, sink.name)
        rows = output.select(schema.names).cast(schema) if output.num_rows else schema.empty_table()
        difference_at[sink.name] = first_difference(whole[sink.name].select(schema.names).cast(schema), rows)
    return difference_at


def second_law(sink: str, difference: Difference | None, *, uncorrected: int = 0) -> Verdict:
    """Return whether the law holds at a sink. With a difference it is broken, or unknown if the contract left results inexact."""
    name = f"second law at '{sink}'"
    if difference is None:
        return Verdict(name, True, f"the newest output of '{sink}' equals the whole-trace replay, row for row")
    reason = f"'{sink}' differs at seq {difference.seq}: in the replay {difference.left}, in the run {difference.right}"
    if uncorrected:
        return Verdict(name, None, f"{counted(uncorrected, 'result')} stayed inexact, as the contract allows; {reason}")
    return Verdict(name, False, reason)


def unknown_second_law(sink: str, error: Exception) -> Verdict:
    """Return the verdict for a sink if the replay failed, for example because the trace was deleted."""
    return Verdict(f"second law at '{sink}'", None, f"the whole trace could not be replayed: {error}")


def uncompared_second_law(sink: str) -> Verdict:
    """Return the verdict for a sink with a writer."""
    reason = f"what the writer of '{sink}' wrote was not compared with the whole-trace replay: only Parquet output can be read"
    return Verdict(f"second law at '{sink}'", None, reason)
