"""Schemas in the forms that Spark and Arrow want them in."""

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.model import Source


def source_schema(source: Source) -> StructType:
    """The columns that a source declares."""
    schema = StructType.fromDDL(source.schema)
    assert isinstance(schema, StructType)
    return schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow form in which Spark hands out rows of a schema."""
    return to_arrow_schema(schema, timezone="UTC")
