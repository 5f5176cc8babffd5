"""Evaluate several DataFrames in one Spark job."""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from holdfast.engine.schema import quoted


class CombinedFrame:
    """Several DataFrames as one: their union, in which each has its own columns. With `parts`, it has that many partitions."""

    def __init__(self, frames: Mapping[str, DataFrame], *, parts: int | None = None) -> None:
        self._names = list(frames)
        self._columns = [
            (number, place, field)
            for number, frame in enumerate(frames.values())
            for place, field in enumerate(frame.schema.fields)
        ]
        self.frame = self._united(list(frames.values())) if frames else None
        if self.frame is not None and parts is not None:
            self.frame = self.frame.coalesce(parts)

    def collect(self) -> dict[str, pa.Table]:
        """Run the job and return the rows of each DataFrame."""
        if self.frame is None:
            return {}
        table = self.frame.toArrow()
        if len(self._names) == 1:
            return {self._names[0]: table}
        tables = {}
        for mine, name in enumerate(self._names):
            rows = table.filter(pc.equal(table["part"], mine))
            own = [(f"c{number}_{place}", field.name) for number, place, field in self._columns if number == mine]
            tables[name] = rows.select([column for column, _ in own]).rename_columns([field for _, field in own])
        return tables

    def _united(self, frames: list[DataFrame]) -> DataFrame:
        if len(frames) == 1:
            return frames[0].select(*(_column(field).alias(field.name) for _, _, field in self._columns))
        parts = [
            frame.select(
                F.lit(mine).alias("part"),
                *(
                    (_column(field) if number == mine else F.lit(None).cast(_type(field))).alias(f"c{number}_{place}")
                    for number, place, field in self._columns
                ),
            )
            for mine, frame in enumerate(frames)
        ]
        return reduce(DataFrame.union, parts)


def _type(field: StructField) -> DataType:
    """Return the field's type with everything nullable; see `arrow_schema`."""
    return StructType([field]).toNullable()[0].dataType


def _column(field: StructField) -> Column:
    column = F.col(quoted(field.name))
    return column if _type(field) == field.dataType else column.cast(_type(field))


def collect_together(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """Return the rows of several DataFrames, computed by one Spark job."""
    return CombinedFrame(frames).collect()
