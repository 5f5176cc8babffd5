"""Frames whose rows can be exchanged, so that a plan is built once and run epoch after epoch."""

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
"""What a partition holds at most, more or less: it goes out with its task, in one message, and those of a cluster are bounded."""


class Leaf:
    """A frame of a fixed number of partitions, of one or of at least `parts`: as many as the first rows need. `fill` exchanges its
    rows, also for every plan that was built on it.

    Spark copies rows into a plan, or reads them from files whose list it has settled when the plan is made. Only the rows of a
    parallelised collection stay outside: they lie in the RDD's partitions, as Arrow's bytes, and go out with the tasks of each
    job. So that is where they are exchanged, between two jobs.
    """

    def __init__(self, spark: SparkSession, schema: StructType, rows: pa.Table, *, parts: int = 1) -> None:
        self._schema = arrow_schema(schema)
        self._parts = parts if parts == 1 else max(parts, -(-rows.nbytes // PART_BYTES))
        jvm: Any = spark._jvm
        self._utils = jvm.PythonSQLUtils
        before = str(spark.conf.get(FEWEST_BYTES))
        spark.conf.set(FEWEST_BYTES, "0")  # up to so many bytes Spark copies them
        try:
            made = self._utils.toDataFrame(self._batches(rows).iterator(), schema.toNullable().json(), spark._jsparkSession)
        finally:
            spark.conf.set(FEWEST_BYTES, before)
        rdd = made.queryExecution().analyzed().rdd()
        self.rdd: int = rdd.id()
        self._places = list(rdd.dependencies().head().rdd().partitions())
        frame = DataFrame(made, spark)
        self.frame = frame.coalesce(1) if parts == 1 else frame

    def fill(self, rows: pa.Table) -> None:
        """Put these rows in place of the ones before."""
        batches = self._batches(rows)
        for part, place in enumerate(self._places):
            getattr(place, "values_$eq")(batches.slice(part, part + 1))

    def _batches(self, rows: pa.Table) -> Any:
        """The rows as bytes in the JVM, one batch for each partition.

        One, even if empty: Spark 4.3 stops reading a partition at its second empty batch and loses the rows behind it.
        """
        rows = rows.cast(self._schema)
        each = -(-rows.num_rows // self._parts)
        handle, path = tempfile.mkstemp(prefix="holdfast-leaf-")
        try:
            with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, self._schema) as stream:
                for part in range(self._parts):
                    batches = rows.slice(part * each, each).combine_chunks().to_batches()
                    (batch,) = batches or [pa.RecordBatch.from_pylist([], schema=self._schema)]
                    stream.write_batch(batch)
            return self._utils.readArrowStreamFromFile(path).toIndexedSeq()
        finally:
            Path(path).unlink()
