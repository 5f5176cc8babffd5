"""Rows in files of logs as DataFrames: executors read the files."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.engine.connector.epoch_reader import FilePartition, read_partition
from holdfast.engine.connector.feeds import EpochFile
from holdfast.log.row_files import partition_numbers


@dataclass(frozen=True)
class StoredInput:
    """The files of an input, and which of their rows a task reads: those of part `share` of `of` parts, divided by `key`.

    Files that are `foreign` were written by another job. Their columns may differ from those that this job declares.
    """

    files: tuple[EpochFile, ...]
    foreign: bool = False
    key: tuple[str, ...] = ()
    share: int = 0
    of: int = 1


def stored_frame(spark: SparkSession, rows: StoredInput, schema: StructType) -> DataFrame:
    """Return rows in files as a DataFrame.

    Spark's own reader is the fastest. It cannot read the object stores of logs, divide rows as the log does, or add columns that
    another job has not stored: executors then read the files as the log does.
    """
    if not rows.files:
        return spark.createDataFrame([], schema)
    if rows.of == 1 and not rows.foreign and not any("://" in file.root for file in rows.files):
        reader = spark.read.schema(schema).option("__globPaths__", "false")  # the path of a log may contain any character
        return reader.parquet(*(f"{file.root}/{file.name}" for file in rows.files))
    return spark.range(0, len(rows.files), 1, len(rows.files)).mapInArrow(_FileReader(rows, schema), schema)


@dataclass(frozen=True)
class _FileReader:
    """Runs on executors: it reads the files whose numbers it receives."""

    rows: StoredInput
    schema: StructType

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in [number for batch in numbers for number in batch.column(0).to_pylist()]:
            for batch in read_partition(FilePartition((self.rows.files[number],), False), self.schema):
                yield batch if self.rows.of == 1 else self._own(batch)

    def _own(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = partition_numbers(pa.table(batch), self.rows.key, parts=self.rows.of)
        return batch.filter(pa.array(numbers == self.rows.share))
