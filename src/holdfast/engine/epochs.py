"""Cut streams into epochs. A row's epoch follows from the row alone, so all sources, replicas and restarts agree on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isinf

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.errors import HoldfastError, TraceError


@dataclass(frozen=True)
class ByTime:
    """Epochs of a fixed duration, counted from 1970 by the source's `time` column."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise HoldfastError(f"an epoch must last more than 0 seconds, got {self.seconds}")
        if isinf(self.seconds):
            raise HoldfastError(f"an epoch must have a finite length, got {self.seconds} seconds")
        if round(self.seconds * 1e6) < 1:
            raise HoldfastError(f"an epoch must last at least a microsecond, got {self.seconds} s")

    def column(self) -> Column:
        return F.floor(F.unix_micros("time") / F.lit(round(self.seconds * 1e6))).cast("long")


@dataclass(frozen=True)
class ByCount:
    """Epochs of a fixed number of seqs, for sources without a `time` column."""

    rows: int

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise HoldfastError(f"an epoch must have at least 1 row, got {self.rows}")

    def column(self) -> Column:
        return F.expr(f"(seq - 1) div {self.rows}")


@dataclass(frozen=True)
class ByBounds:
    """Epochs that end at the given seqs: epoch 0 ends with the first of them. One more epoch holds the rows after the last."""

    bounds: tuple[int, ...]

    def __post_init__(self) -> None:
        for before, after in pairwise(self.bounds):
            if after < before:
                raise HoldfastError(f"the bounds of epochs must not descend, got {before} before {after}")

    def column(self) -> Column:
        if not self.bounds:
            return F.lit(0).cast("long")
        return F.size(F.filter(F.lit(list(self.bounds)), lambda bound: bound < F.col("seq"))).cast("long")


Cut = ByTime | ByCount | ByBounds


@dataclass(frozen=True)
class Span:
    """Consecutive epochs that are processed together: `first` to `last`, inclusive. Their rows have seqs above `after` and up to
    `until`."""

    first: int
    last: int
    after: int
    until: int

    @property
    def empty(self) -> bool:
        return self.after == self.until


def with_epochs(sources: Mapping[str, DataFrame], cut: Cut) -> dict[str, DataFrame]:
    """Return the sources with a column `epoch`."""
    for name, rows in sources.items():
        if isinstance(cut, ByTime) and "time" not in rows.columns:
            raise TraceError(
                f"source '{name}' has no column 'time' to cut it into epochs by; it has {', '.join(rows.columns)}; "
                "without a time, epochs can be cut by seq (--epoch-rows)"
            )
    return {name: rows.withColumn("epoch", cut.column()) for name, rows in sources.items()}


MAX_EPOCHS = 10_000_000


def spans_of(sources: Mapping[str, DataFrame], *, lull: int | None = None) -> Sequence[Span]:
    """Return one span per epoch, from the first epoch that has rows to the last, including those without rows.

    With `lull`, at most that many empty epochs are listed after an epoch with rows; later ones cannot have output. Raises
    TraceError if a row of a later epoch has a smaller seq.
    """
    parts = [rows.groupBy("epoch").agg(F.min("seq").alias("low"), F.max("seq").alias("high")) for rows in sources.values()]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.unionByName(part)
    ends = merged.groupBy("epoch").agg(F.min("low").alias("low"), F.max("high").alias("high")).orderBy("epoch").collect()
    spans: list[Span] = []
    after = last = 0
    for epoch, low, high in ends:
        if low is None or epoch is None:
            raise TraceError("the trace has rows without a seq or a time; every row needs both to belong to an epoch")
        if spans and low <= after:
            raise TraceError(
                f"seq and time disagree: a row of epoch {epoch} has seq {low}, but an earlier epoch reaches seq {after}; "
                "across all sources, seq must ascend with time"
            )
        start = last + 1 if spans else epoch
        after = after if spans else low - 1
        empty_until = epoch if lull is None else min(epoch, start + lull)
        if len(spans) + empty_until - start > MAX_EPOCHS:
            raise TraceError(
                f"the trace would be cut into more than {MAX_EPOCHS:,} epochs: there is nothing between epoch {start - 1} and "
                f"epoch {epoch}; look for rows with a wrong time or seq there, or use longer epochs"
            )
        spans += [Span(empty, empty, after, after) for empty in range(start, empty_until)]
        spans.append(Span(epoch, epoch, after, high))
        after, last = high, epoch
    return spans


def join_spans(spans: Sequence[Span]) -> Span:
    """Return consecutive spans as one span, which one Spark job processes."""
    return Span(spans[0].first, spans[-1].last, spans[0].after, spans[-1].until)
