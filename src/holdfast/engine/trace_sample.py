"""A small part of a trace, held in memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engine.schema import to_frame


@dataclass(frozen=True)
class Sample:
    """The rows of a trace up to a seq: how many, and the first and the last seq among them."""

    sources: Mapping[str, DataFrame]
    rows: int
    first: int
    last: int


def take_sample(spark: SparkSession, sources: Mapping[str, DataFrame], *, rows: int) -> Sample:
    """The first `rows` tuples of a trace in the order of seq, over all of its sources."""
    seqs = None
    for frame in sources.values():
        mine = frame.select("seq").orderBy("seq").limit(rows)
        seqs = mine if seqs is None else seqs.union(mine)
    assert seqs is not None
    first, last = seqs.orderBy("seq").limit(rows).agg(F.min("seq"), F.max("seq")).first() or (0, 0)
    tables = {name: frame.where(F.col("seq") <= last).orderBy("seq").toArrow() for name, frame in sources.items()}
    held = {name: to_frame(spark, table).coalesce(1) for name, table in tables.items()}
    return Sample(held, sum(table.num_rows for table in tables.values()), first, last)
