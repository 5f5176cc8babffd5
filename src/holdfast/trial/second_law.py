"""Checks the second law: the newest output of a run equals a replay of the whole trace, row for row.

The trace of a run with readers are the rows that its sources have committed to the log. `keep_ingested_rows` keeps them there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import App
from holdfast.documents.job import Job, Task
from holdfast.engine.analysis import analyse
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.row_comparison import Difference, first_difference
from holdfast.engine.schema import arrow_schema, source_schema
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Store
from holdfast.log.output_files import list_output_files, read_output
from holdfast.log.row_files import read_record_rows
from holdfast.log.timeline import Timeline
from holdfast.log.trimming import save_reader_position
from holdfast.plural import counted
from holdfast.trial.checkers import Verdict


def differences(
    spark: SparkSession, app: App, sources: Mapping[str, DataFrame], *, out: Store, timeline: Timeline
) -> dict[str, Difference | None]:
    """Return, for each sink, the first difference between its newest output and the whole-trace replay, or None.

    Both are compared up to the timeline's last epoch. Rows from a log have their epoch already. Sinks with a writer are left out,
    because only the writer knows where its rows are.
    """
    graph = app.graph()
    sinks = [sink for sink in graph.sinks if sink.writer is None]
    if not sinks:
        return {}
    schemas = analyse(graph, spark, name=app.name)
    assert timeline.last is not None
    has_epochs = all("epoch" in rows.columns for rows in sources.values())
    rows_of = sources if has_epochs else with_epochs(sources, ByTime(timeline.epoch_s))
    frames = build_whole_trace(graph, rows_of, epochs=(timeline.first, timeline.last))
    with naming_failed_operator(graph, "the whole-trace run"):
        whole = collect_together({sink.name: frames[sink.input] for sink in sinks})
    difference_at: dict[str, Difference | None] = {}
    for sink in sinks:
        schema = arrow_schema(schemas[sink.input])
        output = read_output(out, sink.name, until=timeline.last)
        rows = output.select(schema.names).cast(schema) if output.num_rows else schema.empty_table()
        difference_at[sink.name] = first_difference(whole[sink.name].select(schema.names).cast(schema), rows)
    return difference_at


def keep_ingested_rows(job: Job, tasks: Iterable[Task]) -> None:
    """Let the log of a job keep the rows of its sources, as if another job had yet to read them. Call it before the job begins."""
    assert job.log is not None
    for task in tasks:
        if task.kind == "source":
            save_reader_position(Store(job.log), f"{job.job}:second-law", stream=task.pe, task=task.task, epoch=0)


def completed_timeline(out: Store, sinks: Sequence[str], timeline: Timeline, *, correction: bool) -> Timeline:
    """Return the timeline up to the last epoch that every sink has completed: corrected, if the contract asks for that.

    Raises HoldfastError if there is none.
    """
    last = []
    for sink in sinks:
        epochs = {file.epoch for file in list_output_files(out, sink, which="exact" if correction else "newest")}
        last.append(next(epoch for epoch in count(timeline.first) if epoch not in epochs) - 1)
    if min(last, default=timeline.first) < timeline.first:
        raise HoldfastError("there is no epoch that every sink has completed")
    return replace(timeline, last=min(last, default=timeline.first - 1))


def ingested_rows(spark: SparkSession, app: App, log: Store, tasks: Iterable[Task], timeline: Timeline) -> dict[str, DataFrame]:
    """Return the rows that sources have committed up to the timeline's last epoch. Raises HoldfastError if one is not final."""
    assert timeline.last is not None
    records = EpochLog(log)
    tables: dict[str, list[pa.Table]] = {}
    for source in app.graph().sources:
        schema = arrow_schema(source_schema(source)).append(pa.field("epoch", pa.int64()))
        tables[source.name] = [schema.empty_table()]
    for task in (task for task in tasks if task.kind == "source"):
        for epoch in range(timeline.first, timeline.last + 1):
            record = records.final(task.pe, task.task, epoch=epoch)
            if record is None:
                raise HoldfastError(f"the log has no final record of epoch {epoch} of source '{task.name}'")
            tables[task.pe] += read_record_rows(log, record)
    return {name: spark.createDataFrame(pa.concat_tables(parts)) for name, parts in tables.items()}


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
