"""A Structured Streaming reader as a source: its micro-batches are staged as they come, and cut into epochs by time of arrival.

A batch is on the log's storage before Spark takes note that it is done, and an epoch's record names the batches in it. So a source
that is killed at any moment finds every batch either staged or in a record: none is lost and none is taken twice.
"""

import time
from collections.abc import Callable
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.errors import HoldfastError
from holdfast.execute.call import SPARK_ERRORS, first_line
from holdfast.execute.schema import arrow_schema, quoted, source_schema
from holdfast.log import Quality, Store
from holdfast.model import Source
from holdfast.model.job import Contract, Task
from holdfast.run.checkpoint import Checkpoints
from holdfast.run.head import Head
from holdfast.run.outbox import Outbox
from holdfast.run.rows import parquet, part_of, read_rows
from holdfast.run.timeline import Timeline, agree

UP_TO = "batches up to "


def stream_timeline(store: Store, *, epoch_s: float) -> Timeline:
    """The job's timeline: it has no end, and its epochs are counted from 1970."""
    first = int(time.time() / epoch_s)
    return agree(store, Timeline(first, None, epoch_s, opened_s=first * epoch_s))


class StreamSource:
    """One task of a source with a reader. `place` is where it stands among all source tasks of the job, and how many there are:
    from it follow seqs that ascend over all of them."""

    quality = Quality.EXACT
    finished = False

    def __init__(
        self,
        task: Task,
        contract: Contract,
        *,
        spark: SparkSession,
        source: Source,
        store: Store,
        place: tuple[int, int],
        outbox: Outbox,
        checkpoints: Checkpoints,
        timeline: Timeline,
        checkpointed: Callable[[int], None] = lambda epoch: None,
    ) -> None:
        self.task, self.saves_every = task, contract.checkpoint_epochs
        self._source, self._store, self._place = source, store, place
        self._outbox, self._checkpoints, self._timeline, self._checkpointed = outbox, checkpoints, timeline, checkpointed
        self._schema = arrow_schema(source_schema(source)).append(pa.field("epoch", pa.int64()))
        self._staged = f"staged/{quote(task.pe, safe='')}/{task.task}"
        saved = checkpoints.latest(task.name) or Head(timeline.first - 1)
        self._saved = saved.epoch
        self.clean = self.live = Head(outbox.log.exact_head(task.pe, task.task, after=saved.epoch))
        self._missed = outbox.log.head(task.pe, task.task, after=saved.epoch)
        self._taken = self._last_taken(self._missed)
        self.rows_read = 0
        self._query = self._start(spark)

    def step(self) -> bool:
        """Commit the next epoch if it is over, with the batches that have come since the one before; whether there was one."""
        if self._query.exception() is not None:
            raise HoldfastError(f"{self._who()} stopped: {first_line(self._query.exception())}")
        epoch = self.clean.epoch + 1
        if self._timeline.closes_s(epoch) > time.time():
            return False
        # Where something stood in for this source, its rows are in later epochs: they are counted by arrival here.
        batches = sorted(self._batches()) if epoch > self._missed else []
        rows = self._rows(batches, epoch)
        taken = max([self._taken, *batches])
        self._outbox.publish(self.task.pe, epoch, rows=rows, quality=Quality.EXACT, lineage=(f"{UP_TO}{taken}",))
        self._taken = taken
        self._store.remove([f"{self._staged}/{number:020d}.parquet" for number in batches])
        self.rows_read += rows.num_rows
        self.clean = self.live = Head(epoch)
        if epoch - self._saved >= self.saves_every:
            self.save()
        return True

    def save(self) -> None:
        """Remember how far the source has come."""
        self._checkpoints.save(self.task.name, self.clean)
        self._saved = self.clean.epoch
        self._checkpointed(self._saved)

    def close(self) -> None:
        """Stop Spark's query: another incarnation may go on from its checkpoint."""
        self._query.stop()

    def _start(self, spark: SparkSession):  # type: ignore[no-untyped-def]  # StreamingQuery has two homes in PySpark 4
        read = self._source.reader
        if read is None:
            raise HoldfastError(
                f"source '{self._source.name}' ({self._source.origin}) has no reader; give it one (reader=...), or run on a trace"
            )
        try:
            frame = read(spark)
        except Exception as error:
            raise HoldfastError(f"{self._who()} raised {type(error).__name__}: {first_line(error)}") from error
        if not isinstance(frame, DataFrame) or not frame.isStreaming:
            raise HoldfastError(f"{self._who()} must return a streaming DataFrame (spark.readStream...)")
        fields = {field.name: field.dataType for field in source_schema(self._source)}
        missing = sorted(set(fields) - set(frame.columns) - {"seq", "time"})
        if missing:
            raise HoldfastError(f"{self._who()} gives no column '{missing[0]}'; it gives: {', '.join(frame.columns)}")
        given = frame.select(*(F.col(quoted(name)).cast(kind) for name, kind in fields.items() if name in frame.columns))
        writer = given.writeStream.foreachBatch(self._stage).queryName(f"{self.task.name} of {self._store.root}")
        writer = writer.option("checkpointLocation", f"{self._store.root.rstrip('/')}/streaming/{quote(self.task.name, safe='')}")
        try:
            return writer.trigger(processingTime=f"{self._timeline.epoch_s} seconds").start()
        except SPARK_ERRORS as error:
            raise HoldfastError(f"{self._who()} cannot start: {first_line(error)}") from error

    def _stage(self, batch: DataFrame, number: int) -> None:
        rows = batch.toArrow()
        if rows.num_rows:
            self._store.replace(f"{self._staged}/{number:020d}.parquet", parquet(rows))

    def _batches(self) -> list[int]:
        """The staged batches that no record names yet; those that one does are removed."""
        names = [name for name in self._store.names(f"{self._staged}/") if name.endswith(".parquet")]
        numbers = [int(name.rsplit("/", 1)[1].split(".")[0]) for name in names]
        self._store.remove([f"{self._staged}/{number:020d}.parquet" for number in numbers if number <= self._taken])
        return [number for number in numbers if number > self._taken]

    def _rows(self, batches: list[int], epoch: int) -> pa.Table:
        tables = [read_rows(self._store, f"{self._staged}/{number:020d}.parquet") for number in batches]
        rows = pa.concat_tables(tables) if tables else None
        if rows is not None and self._source.parallelism > 1:
            rows = rows.filter(pa.array(part_of(rows, self._source.key, parts=self._source.parallelism) == self.task.task))
        if rows is None or rows.num_rows == 0:
            return self._schema.empty_table()
        columns = {name: rows[name] for name in rows.column_names}
        place, places = self._place
        base = ((epoch - self._timeline.first) * places + place) << 32
        columns.setdefault("seq", pa.array(range(base + 1, base + 1 + rows.num_rows), pa.int64()))
        columns.setdefault("time", pa.array([int(self._timeline.closes_s(epoch) * 1e6)] * rows.num_rows, pa.timestamp("us", "UTC")))
        columns["epoch"] = pa.array([epoch] * rows.num_rows, pa.int64())
        made = pa.table({name: columns[name] for name in self._schema.names}).cast(self._schema)
        if pc.any(pc.is_null(made["seq"])).as_py():
            raise HoldfastError(f"{self._who()} gives rows without a seq; leave the column out to have them numbered on arrival")
        return made.sort_by("seq")

    def _last_taken(self, head: int) -> int:
        """The last batch that a record names: the newest record of this source's own making says it."""
        for epoch in range(head, self._timeline.first - 1, -1):
            record = self._outbox.log.newest(self.task.pe, self.task.task, epoch=epoch)
            for line in record.lineage if record else ():
                if line.startswith(UP_TO):
                    return int(line.removeprefix(UP_TO))
            if record is None:
                break
        return -1

    def _who(self) -> str:
        return f"the reader of source '{self._source.name}' ({self._source.origin})"
