"""Calls the function of a query, and turns its mistakes into errors that name its file and line."""

import inspect
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

from holdfast.app import Operator, Origin
from holdfast.engine.operator_call import first_line
from holdfast.errors import HoldfastError, OperatorError

ADDED = ("seq", "epoch")
"""The columns that holdfast numbers rows with. A query does not see them; its output receives them."""

FIXED_SETTINGS = {
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # else there would be more batches than epochs
    "spark.sql.adaptive.enabled": "false",  # all replicas divide rows alike
}
DEFAULT_SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.minBatchesToRetain": "5"}


def query_session(spark: SparkSession, operator: Operator) -> SparkSession:
    """Return a new session with the settings of a query."""
    session = spark.newSession()
    for key, value in {**DEFAULT_SETTINGS, **operator.settings, **FIXED_SETTINGS}.items():
        try:
            session.conf.set(key, str(value))
        except PySparkException as error:
            raise OperatorError(f"{operator} has the setting '{key}', which Spark refuses: {first_line(error)}") from error
    return session


def input_schema(schema: StructType) -> StructType:
    """Return the columns of a stream that a query sees."""
    return StructType([field for field in schema if field.name not in ADDED])


def output_schema(schema: StructType) -> StructType:
    """Return the columns of a query's stream: those of its result, and the added ones."""
    for name in ADDED:
        schema = schema.add(name, LongType())
    return schema


def examine_query(operator: Operator, spark: SparkSession, schemas: Mapping[str, StructType]) -> StructType:
    """Return the schema of a query's stream. Raises OperatorError if Spark would not run the query. No data is read."""
    session = query_session(spark, operator)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        inputs = [session.readStream.schema(input_schema(schemas[stream])).parquet(folder) for stream in operator.inputs]
        result = call_query(operator, inputs)
        mode = session._jvm.org.apache.spark.sql.streaming.OutputMode  # type: ignore[union-attr]
        checker: Any = session._jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker  # type: ignore[union-attr]
        try:
            checker.checkForStreaming(
                result._jdf.queryExecution().analyzed(), getattr(mode, str(operator.output_mode).capitalize())()
            )
        except PySparkException as error:
            text = f"{operator} cannot run with the output mode '{operator.output_mode}': {first_line(error)}"
            raise OperatorError(text) from error
        _require_own_inputs(operator, result, folder)
    return output_schema(result.schema)


def call_query(operator: Operator, inputs: Sequence[DataFrame]) -> DataFrame:
    """Return the streaming DataFrame of a query's function. Raises OperatorError if the function fails or returns anything else."""
    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the command's result
            result = operator.function(*inputs)
    except HoldfastError:
        raise
    except (Exception, SystemExit) as error:
        where = _line_of(operator, error)
        text = first_line(error)
        if "writeStream.start" in text:
            raise OperatorError(
                f"query '{operator.name}' ({where}) runs an action such as count(), collect() or show(); the function of a "
                "query only builds a streaming DataFrame and returns it, and holdfast runs it"
            ) from error
        raise OperatorError(f"query '{operator.name}' ({where}) raised {type(error).__name__}: {text}") from error
    started = inputs[0].sparkSession.streams.active
    for query in started:
        query.stop()
    if started or type(result).__name__ in ("StreamingQuery", "DataStreamWriter"):
        raise OperatorError(
            f"{operator} writes its result itself; remove writeStream, return the streaming DataFrame, and declare a sink with "
            "app.sink(name, query)"
        )
    if not isinstance(result, DataFrame):
        text = "nothing (None)" if result is None else f"a {type(result).__name__}"
        raise OperatorError(f"{operator} must return a streaming DataFrame, got {text}")
    if not result.isStreaming:
        raise OperatorError(
            f"{operator} returns a batch DataFrame; a query must build its result from its inputs, which are streaming DataFrames "
            "(a function of batch DataFrames is an @app.operator)"
        )
    lower = [name.lower() for name in result.columns]
    for name in (*ADDED, *lower):
        if lower.count(name) > (name not in ADDED):
            reason = "a name that holdfast adds; rename it" if name in ADDED else "more than once; select the one you mean"
            raise OperatorError(f"{operator} returns the column '{name}', {reason}")
    return result


def _require_own_inputs(operator: Operator, result: DataFrame, folder: str) -> None:
    """Raise OperatorError if the query reads a stream that is not one of its inputs."""
    leaves = result._jdf.queryExecution().analyzed().collectLeaves()
    leaves = [leaves.apply(number) for number in range(leaves.size())]
    if any(leaf.isStreaming() and folder not in leaf.toString() for leaf in leaves):
        raise OperatorError(
            f"{operator} reads a streaming source itself (spark.readStream); declare it with app.source(..., reader=...) and take "
            "it as an input, so that holdfast can replay its rows"
        )


def _line_of(operator: Operator, error: BaseException) -> Origin:
    """Return the line of the user's file at which an exception was raised."""
    file = (
        inspect.unwrap(operator.function).__code__.co_filename if hasattr(operator.function, "__code__") else operator.origin.file
    )
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file and frame.lineno]
    return Origin(file, lines[-1]) if lines else operator.origin
