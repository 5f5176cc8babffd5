"""Schemas and tables in the forms that Spark and Arrow want them in."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.app import Source
from holdfast.engine.operator_call import first_line
from holdfast.errors import ApplicationError


def source_schema(source: Source) -> StructType:
    """The columns that a source declares; ApplicationError if Spark cannot read them."""
    try:
        schema = StructType.fromDDL(source.schema)
    except PySparkException as error:
        said = f"its schema, '{source.schema}', cannot be read by Spark: {first_line(error)}"
        raise ApplicationError(f"source '{source.name}' ({source.origin})", [said]) from error
    assert isinstance(schema, StructType)
    return schema


def quoted(name: str) -> str:
    """A column's name as SQL takes it, whatever characters it has.

    >>> quoted("price.ask")
    '`price.ask`'
    """
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow form in which Spark hands out rows of a schema.

    Anything may be null in it: Arrow takes a struct that is null for one whose fields are, which must not be where they cannot.
    """
    return to_arrow_schema(schema.toNullable(), timezone="UTC")


def to_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a DataFrame of the session.

    In one chunk: Spark 4.3 stops reading a partition at its second empty chunk and loses the rows behind it.
    """
    return spark.createDataFrame(table.combine_chunks())
