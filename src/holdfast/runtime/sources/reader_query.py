"""Spark's query behind a reader source. It stages every micro-batch before Spark marks the batch as done."""

from typing import Protocol
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.app import Source
from holdfast.documents.job import Job, Task
from holdfast.engine.operator_call import SPARK_ERRORS, first_line
from holdfast.engine.schema import quoted, source_schema
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.runtime.sources.staged_batches import StagedBatches


class Query(Protocol):
    """The part of Spark's StreamingQuery that a source uses."""

    def exception(self) -> BaseException | None: ...
    def stop(self) -> None: ...


def query_checkpoint_path(job: Job, task: Task) -> str:
    """Return where Spark keeps the checkpoint of a source's query: in the log, or in the job's folder for checkpoints.

    In that folder the log's location names the checkpoint, because it belongs to the batches that are staged in that log.
    """
    assert job.log is not None
    checkpoints = job.feed.checkpoints
    folder = f"{job.log.rstrip('/')}/streaming" if checkpoints is None else f"{checkpoints.rstrip('/')}/{quote(job.log, safe='')}"
    return f"{folder}/{quote(task.name, safe='')}"


def start_query(
    spark: SparkSession, source: Source, task: Task, *, store: Store, batches: StagedBatches, checkpoint: str, epoch_s: float
) -> Query:
    """Start a source's reader from its checkpoint, with at most one micro-batch per epoch. Raises HoldfastError."""
    if source.reader is None:
        raise HoldfastError(f"source '{source.name}' ({source.origin}) has no reader; give it one (reader=...), or run on a trace")
    try:
        frame = source.reader(spark)
    except (Exception, SystemExit) as error:
        raise HoldfastError(f"{describe_reader(source)} raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise HoldfastError(f"{describe_reader(source)} must return a streaming DataFrame (spark.readStream...)")
    if "seq" in frame.columns:
        raise HoldfastError(
            f"{describe_reader(source)} returns a column 'seq', but holdfast numbers the rows itself, on arrival: numbers that do "
            "not ascend over all sources and their tasks would lose rows; rename the column, here and in the operators that use it"
        )
    fields = {field.name: field.dataType for field in source_schema(source)}
    missing = sorted(set(fields) - set(frame.columns) - {"seq", "time"})
    if missing:
        raise HoldfastError(
            f"{describe_reader(source)} returns no column '{missing[0]}'; its columns are: {', '.join(frame.columns)}"
        )
    columns = frame.select(*(F.col(quoted(name)).cast(kind) for name, kind in fields.items() if name in frame.columns))
    name = f"{task.name} of {store.root}"
    for query in spark.streams.active:
        if query.name == name:
            query.stop()  # it belongs to an earlier incarnation that did not end in time
    writer = columns.writeStream.foreachBatch(lambda batch, number: batches.put(number, batch.toArrow()))
    writer = writer.queryName(name).trigger(processingTime=f"{epoch_s} seconds").option("checkpointLocation", checkpoint)
    try:
        started: Query = writer.start()
    except SPARK_ERRORS as error:
        raise HoldfastError(f"{describe_reader(source)} cannot start: {first_line(error)}") from error
    return started


def describe_reader(source: Source) -> str:
    """Return how error messages name a source's reader."""
    return f"the reader of source '{source.name}' ({source.origin})"
