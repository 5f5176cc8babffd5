"""Sections: stretches of equally many seqs, for which local scores are computed (DEBS'11, section 5.2)."""

from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from holdfast.assess.keyed_seqs import Ints
from holdfast.errors import HoldfastError

MOST = 10_000_000
"""The largest number of sections. Each golden run stores a number per section, so this bounds memory."""
Seqs = TypeVar("Seqs", int, Ints)


@dataclass(frozen=True)
class Sections:
    """Maps seqs to sections of `length` seqs each. Section 0 begins at seq `origin`."""

    length: int
    origin: int
    count: int

    @classmethod
    def over(cls, first: int, last: int, *, length: int) -> "Sections":
        """Return the sections for the seqs from `first` to `last`. Each begins at a multiple of the length.

        >>> Sections.over(1_700_000_000_013, 1_700_000_000_042, length=10)
        Sections(length=10, origin=1700000000010, count=4)
        """
        origin = first // length * length
        count = (last - origin) // length + 1
        if count > MOST:
            raise HoldfastError(
                f"{count:,} sections of {length:,} seqs cover the seqs from {first:,} to {last:,}, but there may be at most "
                f"{MOST:,}; give longer ones with --section, such as {-(-(last - first + 1) // 1000):,}"
            )
        return cls(length, origin, count)

    def of(self, seqs: Seqs) -> Seqs:
        """Return the section of each seq.

        >>> Sections(10, 20, 5).of(42)
        2
        """
        return (seqs - self.origin) // self.length

    def column(self, seq: Column) -> Column:
        """Return the section of each seq as a Spark column."""
        return F.floor((seq - F.lit(self.origin)) / F.lit(self.length)).cast("long")
