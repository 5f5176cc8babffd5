"""Assign rows to the tasks of an operator."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from holdfast.engine.schema import quoted


def task_of(key: tuple[str, ...], tasks: int) -> Column:
    """Return the number of the task, from 0, for a row's key. It is the same on every machine and in every run."""
    return F.pmod(F.xxhash64(*map(quoted, key)), F.lit(tasks)).cast("int")
