"""Spark's query behind a source with a reader: every micro-batch is staged before Spark takes note that it is done."""

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
    """What a source needs of Spark's streaming query."""

    def exception(self) -> BaseException | None: ...
    def stop(self) -> None: ...


def query_checkpoint_path(job: Job, task: Task) -> str:
    """Where Spark keeps how far a source's reader has come: in the log, or where the job says, under the log's name. It belongs to
    what is staged in that log."""
    assert job.log is not None
    given = job.feed.checkpoints
    folder = f"{job.log.rstrip('/')}/streaming" if given is None else f"{given.rstrip('/')}/{quote(job.log, safe='')}"
    return f"{folder}/{quote(task.name, safe='')}"


def start_query(
    spark: SparkSession, source: Source, task: Task, *, store: Store, staged: StagedBatches, checkpoint: str, epoch_s: float
) -> Query:
    """Start a source's reader, one micro-batch an epoch at most, from where the query before it was. Raises HoldfastError."""
    if source.reader is None:
        raise HoldfastError(f"source '{source.name}' ({source.origin}) has no reader; give it one (reader=...), or run on a trace")
    try:
        frame = source.reader(spark)
    except (Exception, SystemExit) as error:
        raise HoldfastError(f"{describe_reader(source)} raised {type(error).__name__}: {first_line(error)}") from error
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise HoldfastError(f"{describe_reader(source)} must return a streaming DataFrame (spark.readStream...)")
    fields = {field.name: field.dataType for field in source_schema(source)}
    missing = sorted(set(fields) - set(frame.columns) - {"seq", "time"})
    if missing:
        raise HoldfastError(f"{describe_reader(source)} gives no column '{missing[0]}'; it gives: {', '.join(frame.columns)}")
    given = frame.select(*(F.col(quoted(name)).cast(kind) for name, kind in fields.items() if name in frame.columns))
    writer = given.writeStream.foreachBatch(lambda batch, number: staged.put(number, batch.toArrow()))
    name = f"{task.name} of {store.root}"
    for query in spark.streams.active:
        if query.name == name:
            query.stop()  # of an incarnation before this one, which did not end in time
    writer = writer.queryName(name).trigger(processingTime=f"{epoch_s} seconds")
    writer = writer.option("checkpointLocation", checkpoint)
    try:
        started: Query = writer.start()
    except SPARK_ERRORS as error:
        raise HoldfastError(f"{describe_reader(source)} cannot start: {first_line(error)}") from error
    return started


def describe_reader(source: Source) -> str:
    """A source's reader, as messages name it."""
    return f"the reader of source '{source.name}' ({source.origin})"
