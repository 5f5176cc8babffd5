"""Sections: stretches of equally many seqs, over which local scores are taken (DEBS'11, section 5.2)."""

from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from holdfast.assess.keyed_seqs import Ints
from holdfast.errors import HoldfastError

MOST = 10_000_000
"""Sections of which every golden run has a number each: what bounds memory however far apart the seqs are."""
Seqs = TypeVar("Seqs", int, Ints)


@dataclass(frozen=True)
class Sections:
    """Which section each seq of a trace belongs to: they have `length` seqs each, and the first, number 0, begins at `origin`."""

    length: int
    origin: int
    count: int

    @classmethod
    def over(cls, first: int, last: int, *, length: int) -> "Sections":
        """The sections of the seqs from `first` to `last`; each begins at a multiple of its length, wherever the trace does.

        >>> Sections.over(1_700_000_000_013, 1_700_000_000_042, length=10)
        Sections(length=10, origin=1700000000010, count=4)
        """
        origin = first // length * length
        count = (last - origin) // length + 1
        if count > MOST:
            raise HoldfastError(
                f"sections of {length:,} keys cut the seqs from {first:,} to {last:,} into {count:,}, and there may be at most "
                f"{MOST:,}; give longer ones with --section, such as {-(-(last - first + 1) // 1000):,}"
            )
        return cls(length, origin, count)

    def of(self, seqs: Seqs) -> Seqs:
        """The section of each seq, counted from 0 at the origin.

        >>> Sections(10, 20, 5).of(42)
        2
        """
        return (seqs - self.origin) // self.length

    def column(self, seq: Column) -> Column:
        """The same in Spark."""
        return F.floor((seq - F.lit(self.origin)) / F.lit(self.length)).cast("long")
