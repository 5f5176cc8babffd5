"""Which task of an operator a row belongs to."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from holdfast.engine.schema import quoted


def task_of(key: tuple[str, ...], tasks: int) -> Column:
    """The number of the task, from 0, that a row's key falls on: the same on every machine and in every run."""
    return F.pmod(F.xxhash64(*map(quoted, key)), F.lit(tasks)).cast("int")
