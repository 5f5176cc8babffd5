"""SlotCode: how many trials flow through one Spark plan without meeting.

A trial's rows carry its slot in their seq, so that every operator hands it on: an output carries the seq of the tuple that
triggered it. Order within a slot is the order of the original seqs. A row also carries its phase there: rows that only rebuild
what operators keep come before those whose outputs count, and rows that only complete their surroundings come after.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

BEFORE, COUNTED, AFTER = 0, 1, 2
PHASES = 4


@dataclass(frozen=True)
class SlotCode:
    """The code of a seq for trials side by side: original seqs lie from `base` on, below base + `span`."""

    span: int
    base: int = 0

    unit: int = PHASES
    """How far apart the codes of two neighbouring seqs are."""

    @classmethod
    def over(cls, first_seq: int, last_seq: int) -> "SlotCode":
        """SlotCode wide enough for seqs from `first_seq` to `last_seq`.

        Base and width are multiples of a highly composite number: an operator that looks at seq modulo something small sees what
        it would see without slots.
        """
        unit = 720_720
        base = unit * (first_seq // unit)
        return cls(unit * ((last_seq - base) // unit + 2), base)

    def code(self, seq: Column, slot: Column, phase: Column) -> Column:
        return (slot.cast("long") * F.lit(self.span) + seq - F.lit(self.base)) * F.lit(PHASES) + phase

    def seq(self, code: Column) -> Column:
        """The original seq."""
        return F.pmod(F.shiftright(code, 2), F.lit(self.span)) + F.lit(self.base)

    def slot(self, code: Column) -> Column:
        return F.floor(F.shiftright(code, 2) / F.lit(self.span)).cast("int")

    def phase(self, code: Column) -> Column:
        return code.bitwiseAND(F.lit(PHASES - 1))


@dataclass(frozen=True)
class NoSlots:
    """A trial that has the plan to itself: seqs are what they are."""

    unit: int = 1

    def seq(self, code: Column) -> Column:
        return code

    def slot(self, code: Column) -> Column:
        return F.lit(0)


Code = SlotCode | NoSlots


def per_slot(values: list[int], slot: Column) -> Column:
    """The value that belongs to a row's slot."""
    if len(values) == 1:
        return F.lit(values[0]).cast("long")
    return F.element_at(F.lit(values).cast("array<bigint>"), slot + 1)
