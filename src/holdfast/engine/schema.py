"""Convert schemas and tables between Spark and Arrow."""

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.app import Source
from holdfast.engine.operator_call import first_line
from holdfast.errors import ApplicationError


def source_schema(source: Source) -> StructType:
    """Return the columns that a source declares. Raises ApplicationError if Spark cannot read them."""
    try:
        schema = StructType.fromDDL(source.schema)
    except PySparkException as error:
        text = f"its schema, '{source.schema}', cannot be read by Spark: {first_line(error)}"
        raise ApplicationError(f"source '{source.name}' ({source.origin})", [text]) from error
    assert isinstance(schema, StructType)
    return schema


def quoted(name: str) -> str:
    """Return a column's name quoted for SQL.

    >>> quoted("price.ask")
    '`price.ask`'
    """
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the rows that Spark returns for a schema.

    Everything in it is nullable. Arrow treats a null struct as a struct of null fields, which is an error if they are not nullable.
    """
    return to_arrow_schema(schema.toNullable(), timezone="UTC")


def to_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return an Arrow table as a DataFrame of the session.

    The table is passed in one chunk: Spark 4.3 stops reading a partition at its second empty chunk and loses the rows after it.
    """
    return spark.createDataFrame(table.combine_chunks())
