"""Take a small sample of a trace into memory: stretches at several positions, and the epochs that the keep rules need."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.schema import to_frame

MOST = 200_000
"""The most tuples of a sample, even if the keep rules need more epochs."""


@dataclass(frozen=True)
class Sample:
    """Some rows of a trace, with their seqs in ascending order. `stretches` are the first and last seq of each part."""

    sources: Mapping[str, DataFrame]
    seqs: tuple[int, ...]
    stretches: tuple[tuple[int, int], ...]
    is_whole: bool


def take_sample(
    spark: SparkSession, sources: Mapping[str, DataFrame], *, rows: int, epochs: int, cut: ByTime | None, seed: int
) -> Sample:
    """Return about `rows` tuples: from the start and from two random positions of a trace.

    With `cut`, the second stretch is as long as `epochs` epochs at least, if the trace is.
    """
    numbered = with_epochs(sources, cut) if cut else {name: frame.withColumn("epoch", F.lit(0)) for name, frame in sources.items()}
    index = reduce(DataFrame.union, [frame.select("seq", "epoch") for frame in numbered.values()])
    count, first, last, last_epoch = index.agg(F.count("*"), F.min("seq"), F.max("seq"), F.max("epoch")).first() or (0, 0, 0, 0)
    if count <= rows:
        stretches = [(first, last)]
    else:
        rng = random.Random(seed)
        long = epochs if cut else 0
        latest = (index.where(F.col("epoch") <= last_epoch - long).agg(F.max("seq")).first() or [None])[0]
        starts = [(first, 0), (rng.randint(first, first if latest is None else latest), long), (rng.randint(first, last), 0)]
        stretches = [(start, _end_of(index, start, rows // len(starts), within)) for start, within in starts]
    chosen = reduce(lambda one, other: one | other, [F.col("seq").between(*stretch) for stretch in stretches])
    tables = {name: frame.where(chosen).orderBy("seq").toArrow() for name, frame in sources.items()}
    seqs = sorted(seq for table in tables.values() for seq in table["seq"].to_pylist())
    frames = {name: to_frame(spark, table).coalesce(1) for name, table in tables.items()}
    return Sample(frames, tuple(seqs), tuple(sorted(stretches)), len(seqs) == count)


def _end_of(index: DataFrame, start: int, rows: int, epochs: int) -> int:
    """Return the last seq of a stretch of so many rows, or of so many epochs if these have more rows, up to `MOST`."""
    rest = index.where(F.col("seq") >= start)
    end = _last_of(rest, rows)
    if not epochs:
        return end
    begin = (rest.agg(F.min("epoch")).first() or [0])[0]
    return max(end, _last_of(rest.where(F.col("epoch") <= begin + epochs), MOST))


def _last_of(index: DataFrame, rows: int) -> int:
    return int((index.orderBy("seq").limit(max(rows, 1)).agg(F.max("seq")).first() or [0])[0])
