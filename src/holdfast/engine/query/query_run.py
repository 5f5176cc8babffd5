"""A running Structured Streaming query that is given one epoch at a time."""

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.app import Operator
from holdfast.engine.analysis import Schemas
from holdfast.engine.connector import register_data_source
from holdfast.engine.connector.feeds import EpochFiles, hand_over_batch
from holdfast.engine.operator_call import SPARK_ERRORS, failure_text
from holdfast.engine.query.query_folder import committed_batch, drop_plan, fork, name_query
from holdfast.engine.query.query_function import call_query, input_schema, query_session
from holdfast.engine.query.watermarks import Watermarks
from holdfast.engine.schema import arrow_schema
from holdfast.errors import OperatorError
from holdfast.log import Store
from holdfast.log.row_files import number_rows
from holdfast.log.stored_rows import StoredRows, load_rows

POLL_S = 0.004
CHECK_POLLS = 25
"""How many polls pass between two checks of whether the query still runs."""

KEPT_BATCHES = 3
"""How many handed-over batches stay in the folder. Spark reads the last one again when it restarts."""


class QueryRun:
    """A query on a folder of this machine, which holds its checkpoint and the batches that pass through it.

    `process` gives it the next batches and returns their rows. The query starts when it is first needed and runs until `stop`. It
    continues after the last batch that its checkpoint has committed.
    """

    def __init__(self, spark: SparkSession, operator: Operator, schemas: Schemas, folder: Path) -> None:
        self._spark, self._operator, self._schemas, self.folder = spark, operator, schemas, folder
        self.checkpoint = folder / "checkpoint"
        self._schema = arrow_schema(input_schema(schemas[operator.name]))
        self._query: StreamingQuery | None = None
        self._watermarks: Watermarks | None = None
        self._starts = 0
        for name in ("batches", "outputs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not (self.checkpoint / "metadata").exists():
            name_query(self.checkpoint)
        self.batch = committed_batch(self.checkpoint)

    def process(self, batches: Sequence[Mapping[str, EpochFiles]]) -> Iterator[pa.Table]:
        """Give the query its next batches, and yield the rows of each. Raises OperatorError if the query fails.

        After a failure, the query continues after the last batch that succeeded (`batch`).
        """
        try:
            self.start()
            numbers = range(self.batch + 1, self.batch + 1 + len(batches))
            for number, inputs in zip(numbers, batches, strict=True):
                hand_over_batch(self.folder / "batches", number, dict(inputs))
            for number in numbers:
                yield self._await(number)
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Start the query, unless it runs."""
        if self._query is not None:
            return
        self._starts += 1
        for path in (self.folder / "batches").iterdir():
            path.unlink()
        drop_plan(self.checkpoint, after=self.batch)
        session = query_session(self._spark, self._operator)
        register_data_source(session)
        options = {"batches": str(self.folder / "batches"), "group": str(self.folder / f"group-{self._starts}")}
        inputs = [
            session.readStream.format("holdfast")
            .schema(input_schema(self._schemas[stream]))
            .options(stream=stream, **options)
            .load()
            for stream in self._operator.inputs
        ]
        result = call_query(self._operator, inputs)
        writer = result.writeStream.format("holdfast").outputMode(str(self._operator.output_mode))
        writer = writer.options(log=str(self.folder), folder="rows", outputs=str(self.folder / "outputs"), sync="false")
        try:
            self._query = writer.option("checkpointLocation", str(self.checkpoint)).queryName(self._operator.name).start()
            self._watermarks = self._restored_watermarks()
        except SPARK_ERRORS as error:
            raise OperatorError(failure_text(self._operator, error)) from error

    def fork(self, folder: Path) -> "QueryRun":
        """Return a query in another folder that continues after the same batch. This one keeps running."""
        fork(self.checkpoint, folder / "checkpoint", batch=self.batch)
        return QueryRun(self._spark, self._operator, self._schemas, folder)

    def stop(self) -> None:
        """Stop the query. `process` starts it again."""
        query, self._query = self._query, None
        if query is not None:
            with suppress(*SPARK_ERRORS):
                query.stop()

    def remove(self) -> None:
        """Stop the query and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await(self, number: int) -> pa.Table:
        """Return the rows of a batch once the query has committed it."""
        output, commit = self.folder / "outputs" / f"{number}.json", self.checkpoint / "commits" / str(number)
        polls = 0
        while not (commit.exists() and output.exists()):
            polls += 1
            if polls % CHECK_POLLS == 0:
                self._require_running()
            time.sleep(POLL_S)
        self._note_watermarks(number)
        self.batch = number
        written: dict[str, Any] = json.loads(output.read_text())
        store = Store(self.folder, sync=False)
        stored = StoredRows(**{**written, "files": tuple(written["files"])})
        rows = load_rows(store, stored) if stored.files else self._schema.empty_table()
        store.remove(list(stored.files))
        output.unlink()
        (self.folder / "batches" / f"{number - KEPT_BATCHES}.json").unlink(missing_ok=True)
        return rows.cast(self._schema)

    def _require_running(self) -> None:
        assert self._query is not None
        error = self._query.exception()
        if error is not None:
            raise OperatorError(failure_text(self._operator, error)) from error
        if not self._query.isActive:
            raise OperatorError(f"{self._operator} has stopped without an error; something outside holdfast stopped it")

    def _restored_watermarks(self) -> Watermarks | None:
        """Return the watermarks to note after each batch, set to those after the last batch; None if Spark notes them itself."""
        assert self._query is not None
        while not Watermarks.started(self._query):
            self._require_running()
            time.sleep(POLL_S)
        watermarks = Watermarks(self._query)
        if not watermarks.are_incomplete:
            return None
        path = self.checkpoint / "watermarks" / str(self.batch)
        if path.exists():
            watermarks.restore(json.loads(path.read_text()), self._spark._jvm)
        return watermarks

    def _note_watermarks(self, number: int) -> None:
        if self._watermarks is None:
            return
        folder = self.checkpoint / "watermarks"
        folder.mkdir(exist_ok=True)
        (folder / str(number)).write_text(json.dumps(self._watermarks.read()))
        (folder / str(number - KEPT_BATCHES)).unlink(missing_ok=True)


def in_stream(rows: pa.Table, epoch: int, *, first_epoch: int) -> pa.Table:
    """Return the rows of a query's epoch with the columns `seq` and `epoch`."""
    numbered = number_rows(rows, epochs_before=epoch - first_epoch)
    return numbered.append_column("epoch", pa.array([epoch] * rows.num_rows, pa.int64()))
