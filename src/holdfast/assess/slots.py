"""Slots: run several trials in one Spark plan without mixing their rows.

Each trial of a shared plan has a slot number. The seq of each row is replaced by a code that contains the slot, the original seq
and a phase. Operators copy the seq of the triggering tuple to their output, so the slot reaches the sink. Within a slot, codes
have the order of the original seqs. The phase says what a row is for: BEFORE only rebuilds the operators' kept rows, COUNTED
produces the output that is scored, and AFTER only completes an epoch or window.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

BEFORE, COUNTED, AFTER = 0, 1, 2
PHASES = 4


@dataclass(frozen=True)
class SlotCode:
    """Encodes slot, seq and phase in one number. Original seqs lie in [base, base + span)."""

    span: int
    base: int = 0

    unit: int = PHASES
    """Difference between the codes of two neighbouring seqs."""

    @classmethod
    def over(cls, first_seq: int, last_seq: int) -> "SlotCode":
        """Return a code for seqs from `first_seq` to `last_seq`.

        Base and span are multiples of a highly composite number, so that an operator that computes seq modulo a small number
        gets the same result as without slots.
        """
        unit = 720_720
        base = unit * (first_seq // unit)
        return cls(unit * ((last_seq - base) // unit + 2), base)

    def code(self, seq: Column, slot: Column, phase: Column) -> Column:
        return (slot.cast("long") * F.lit(self.span) + seq - F.lit(self.base)) * F.lit(PHASES) + phase

    def seq(self, code: Column) -> Column:
        """Return the original seq."""
        return F.pmod(F.shiftright(code, 2), F.lit(self.span)) + F.lit(self.base)

    def slot(self, code: Column) -> Column:
        return F.floor(F.shiftright(code, 2) / F.lit(self.span)).cast("int")

    def phase(self, code: Column) -> Column:
        return code.bitwiseAND(F.lit(PHASES - 1))


@dataclass(frozen=True)
class NoSlots:
    """The code of a plan with one trial: seqs are unchanged."""

    unit: int = 1

    def seq(self, code: Column) -> Column:
        return code

    def slot(self, code: Column) -> Column:
        return F.lit(0)


Code = SlotCode | NoSlots


def per_slot(values: list[int], slot: Column) -> Column:
    """Return the value of the row's slot."""
    if len(values) == 1:
        return F.lit(values[0]).cast("long")
    return F.element_at(F.lit(values).cast("array<bigint>"), slot + 1)
