"""Assign rows to the tasks of an operator, in Spark. The runtime assigns them with the same function of the log."""

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType, IntegralType

from holdfast.engine.schema import quoted
from holdfast.log.row_files import partition_numbers


def task_of(key: tuple[str, ...], tasks: int) -> Column:
    """Return the number of the task, from 0, for a row's key. It is the task that processes the row at run time."""

    def task_numbers(*columns: pa.Array) -> pa.Array:
        return pa.array(partition_numbers(pa.table(list(columns), names=list(key)), key, parts=tasks), pa.int32())

    # PySpark finds the kind of UDF by the type hints; its own stubs know only the form that names the kind, which is deprecated.
    divide: Callable[..., Column] = arrow_udf(task_numbers, "int")  # type: ignore[call-overload]
    return divide(*map(quoted, key))


def divide_alike(left: DataType, right: DataType) -> bool:
    """Return whether equal keys of two types go to the same task: if the types are the same, or both are integers.

    Rows are divided by the text of their key, and the text of 1.00 is not that of 1.
    """
    return left == right or (isinstance(left, IntegralType) and isinstance(right, IntegralType))
