"""Runs a query over recorded rows, one batch per epoch, as the running application does."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.app import Graph, Operator
from holdfast.engine.analysis import Schemas
from holdfast.engine.connector.feeds import EpochFile, EpochFiles
from holdfast.engine.epochs import Span
from holdfast.engine.query.query_function import examine_query
from holdfast.engine.query.query_run import QueryRun, in_stream
from holdfast.engine.schema import to_frame
from holdfast.log import Store
from holdfast.log.stored_rows import store_rows

AHEAD = 50
"""How many batches a query is given at a time."""

QUIET_BATCHES = 3
"""After this many batches without input, further ones have no output: the watermark has reached all operators."""


class QueryPe:
    """A query that is given its epochs as tables, like the operators of a `Pe`. Use it in a `with` block.

    With `fork_at`, the query is stopped after this many epochs and a fork of it continues, as after a failure.
    """

    def __init__(
        self, spark: SparkSession, graph: Graph, name: str, schemas: Schemas, *, first_epoch: int, fork_at: int | None = None
    ) -> None:
        self.part = self.makes = (name,)
        self.reads = graph.streams_into([name])
        self._temporary = tempfile.TemporaryDirectory(prefix="holdfast-query-")
        self._folder = Path(self._temporary.name)
        self._run = QueryRun(spark, graph.operator(name), schemas, self._folder / "query")
        self._first_epoch, self._fork_at = first_epoch, fork_at

    def __enter__(self) -> "QueryPe":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run.stop()
        self._temporary.cleanup()

    def run(self, new: Mapping[str, pa.Table], span: Span) -> dict[str, pa.Table]:
        """Return the rows that an epoch adds to the query's stream."""
        root = self._folder / "rows"
        store = Store(root, sync=False)
        stored = {stream: store_rows(store, new[stream], folder="new") for stream in self.reads}
        files = {
            stream: EpochFiles(tuple(EpochFile(str(root), name, span.last, "exact") for name in rows.files), rows.rows)
            for stream, rows in stored.items()
        }
        (rows,) = self._run.process([files])
        store.remove([name for part in stored.values() for name in part.files])
        if self._run.batch + 1 == self._fork_at:
            self._run.stop()
            self._run = self._run.fork(self._folder / "fork")
        return {self.part[0]: in_stream(rows, span.last, first_epoch=self._first_epoch)}


def replay_query(operator: Operator, inputs: Sequence[DataFrame], epochs: tuple[int, int] | None) -> DataFrame:
    """Return the stream of a query over all rows of its inputs, as the running application produces it. The query runs now.

    `epochs` are the first and last epoch; None: those of the rows.
    """
    spark = inputs[0].sparkSession
    schemas = {name: frame.schema for name, frame in zip(operator.inputs, inputs, strict=True)}
    schemas[operator.name] = examine_query(operator, spark, schemas)
    with tempfile.TemporaryDirectory(prefix="holdfast-query-") as name:
        folder = Path(name)
        files = {stream: _by_epoch(frame, folder / stream) for stream, frame in zip(operator.inputs, inputs, strict=True)}
        known = {epoch for parts in files.values() for epoch in parts}
        first, last = epochs or (min(known, default=0), max(known, default=-1))
        numbers = [
            epoch
            for epoch in range(first, last + 1)
            if operator.output_mode == "complete" or any(epoch - back in known for back in range(QUIET_BATCHES + 1))
        ]
        run = QueryRun(spark, operator, schemas, folder / "query")
        tables: list[pa.Table] = []
        try:
            for start in range(0, len(numbers), AHEAD):
                some = numbers[start : start + AHEAD]
                batches = [{stream: parts.get(epoch, EpochFiles((), 0)) for stream, parts in files.items()} for epoch in some]
                rows = zip(some, run.process(batches), strict=True)
                tables += [in_stream(part, epoch, first_epoch=first) for epoch, part in rows]
        finally:
            run.stop()
    return to_frame(spark, pa.concat_tables(tables)) if tables else spark.createDataFrame([], schemas[operator.name])


def _by_epoch(frame: DataFrame, folder: Path) -> dict[int, EpochFiles]:
    """Write the rows of a stream as one file per epoch."""
    frame.withColumn("_epoch", F.col("epoch")).repartition("_epoch").write.partitionBy("_epoch").parquet(str(folder))
    parts: dict[int, EpochFiles] = {}
    for path in folder.glob("_epoch=*/*.parquet"):
        epoch = int(path.parent.name.split("=")[1])
        rows = pq.ParquetFile(path).metadata.num_rows
        parts[epoch] = EpochFiles((EpochFile(str(folder), str(path.relative_to(folder)), epoch, "exact"),), rows)
    return parts
