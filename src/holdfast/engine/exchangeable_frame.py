"""DataFrames whose rows can be replaced, so that a plan is built once and runs for every epoch."""

import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.engine.schema import arrow_schema

FEWEST_BYTES = "spark.sql.execution.arrow.localRelationThreshold"
PART_BYTES = 32 * 2**20
"""The approximate limit of a partition. It is sent with its task in one message, and clusters limit the size of messages."""


class Leaf:
    """A DataFrame with a fixed number of partitions: one, or at least `parts` and as many as the first rows need.

    `fill` replaces its rows, also for every plan that was built on it. Usually Spark copies rows into the plan, or fixes the list
    of files when it creates the plan. Only the rows of a parallelised collection stay outside the plan: they are in the RDD's
    partitions, as Arrow bytes, and Spark sends them with the tasks of each job. So `fill` replaces them there, between two jobs.
    """

    def __init__(self, spark: SparkSession, schema: StructType, rows: pa.Table, *, parts: int = 1) -> None:
        self._schema = arrow_schema(schema)
        self._parts = parts if parts == 1 else max(parts, -(-rows.nbytes // PART_BYTES))
        jvm: Any = spark._jvm
        self._utils = jvm.PythonSQLUtils
        before = str(spark.conf.get(FEWEST_BYTES))
        spark.conf.set(FEWEST_BYTES, "0")  # below this size Spark would copy the rows into the plan
        try:
            java_frame = self._utils.toDataFrame(self._batches(rows).iterator(), schema.toNullable().json(), spark._jsparkSession)
        finally:
            spark.conf.set(FEWEST_BYTES, before)
        rdd = java_frame.queryExecution().analyzed().rdd()
        self.rdd: int = rdd.id()
        self._places = list(rdd.dependencies().head().rdd().partitions())
        frame = DataFrame(java_frame, spark)
        self.frame = frame.coalesce(1) if parts == 1 else frame

    def fill(self, rows: pa.Table) -> None:
        """Replace the rows."""
        batches = self._batches(rows)
        for part, place in enumerate(self._places):
            getattr(place, "values_$eq")(batches.slice(part, part + 1))

    def _batches(self, rows: pa.Table) -> Any:
        """Return the rows as bytes in the JVM, exactly one batch per partition, even if it is empty.

        With more batches, Spark 4.3 stops reading a partition at its second empty batch and loses the rows behind it.
        """
        rows = rows.cast(self._schema)
        batch_rows = -(-rows.num_rows // self._parts)
        handle, path = tempfile.mkstemp(prefix="holdfast-leaf-")
        try:
            with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, self._schema) as stream:
                for part in range(self._parts):
                    batches = rows.slice(part * batch_rows, batch_rows).combine_chunks().to_batches()
                    (batch,) = batches or [pa.RecordBatch.from_pylist([], schema=self._schema)]
                    stream.write_batch(batch)
            return self._utils.readArrowStreamFromFile(path).toIndexedSeq()
        finally:
            Path(path).unlink()
