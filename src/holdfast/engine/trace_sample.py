"""Take a small sample of a trace into memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engine.schema import to_frame


@dataclass(frozen=True)
class Sample:
    """The first rows of a trace: their number, and their first and last seq."""

    sources: Mapping[str, DataFrame]
    rows: int
    first: int
    last: int


def take_sample(spark: SparkSession, sources: Mapping[str, DataFrame], *, rows: int) -> Sample:
    """Return the first `rows` tuples of a trace in the order of seq, over all sources."""
    seqs = None
    for frame in sources.values():
        mine = frame.select("seq").orderBy("seq").limit(rows)
        seqs = mine if seqs is None else seqs.union(mine)
    assert seqs is not None
    first, last = seqs.orderBy("seq").limit(rows).agg(F.min("seq"), F.max("seq")).first() or (0, 0)
    tables = {name: frame.where(F.col("seq") <= last).orderBy("seq").toArrow() for name, frame in sources.items()}
    frames = {name: to_frame(spark, table).coalesce(1) for name, table in tables.items()}
    return Sample(frames, sum(table.num_rows for table in tables.values()), first, last)
