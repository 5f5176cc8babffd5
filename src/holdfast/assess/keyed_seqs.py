"""Composite codes of (key, seq): the rows of every key in order, answered for many keys at once. No Spark."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEVER = np.int64(1) << 62
"""A seq after every seq of a trace."""


@dataclass(frozen=True)
class KeyedSeqs:
    """The seqs of a stream by key: `codes` are key * span + seq - base, ascending; seqs lie from the base on, below base + span."""

    codes: Ints
    span: int
    base: int = 0

    @classmethod
    def of(cls, keys: Ints, seqs: Ints, *, span: int, base: int = 0) -> "KeyedSeqs":
        return cls(np.sort(keys * span + (seqs - base)), span, base)

    def seqs_at(self, places: Ints) -> Ints:
        """The seqs of the rows at these places among the codes."""
        return self.codes[places] % self.span + self.base

    def nth_after(self, keys: Ints, seqs: Ints, n: int) -> Ints:
        """For each key the seq of its n-th row after the given seq; NEVER where it has no such row.

        >>> rows = KeyedSeqs.of(np.array([0, 0, 1, 0]), np.array([1, 3, 4, 6]), span=10)
        >>> rows.nth_after(np.array([0, 0]), np.array([1, 3]), 2).tolist() == [6, int(NEVER)]
        True
        """
        at = np.searchsorted(self.codes, self._code(keys, seqs, least=-1), side="right") + n - 1
        there = (seqs < self.base + self.span) & (at < len(self.codes))
        found = self.codes[np.minimum(at, len(self.codes) - 1)] if len(self.codes) else np.zeros(len(at), np.int64)
        return np.where(there & (found // self.span == keys), found % self.span + self.base, NEVER)

    def nth_before(self, keys: Ints, seqs: Ints, n: int) -> Ints:
        """For each key the seq of its n-th row before the given seq; 0, the beginning, where it has fewer.

        >>> rows = KeyedSeqs.of(np.array([0, 0, 1, 0]), np.array([1, 3, 4, 6]), span=10)
        >>> rows.nth_before(np.array([0, 0, 1]), np.array([6, 3, 4]), 2).tolist()
        [1, 0, 0]
        """
        at = np.searchsorted(self.codes, self._code(keys, seqs)) - n
        found = self.codes[np.maximum(at, 0)] if len(self.codes) else np.zeros(len(at), np.int64)
        return np.where((at >= 0) & (found // self.span == keys), found % self.span + self.base, 0)

    def ranges(self, keys: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """For each key where its rows from `first` to `last`, both included, begin and end among the codes."""
        begin = np.searchsorted(self.codes, self._code(keys, first))
        end = np.searchsorted(self.codes, self._code(keys, last, least=-1), side="right")
        return begin, np.maximum(begin, end)

    def counts(self, keys: Ints, first: Ints, last: Ints) -> Ints:
        """For each key how many rows it has from `first` to `last`."""
        begin, end = self.ranges(keys, first, last)
        return end - begin

    def selected(self, keys: Ints, first: Ints, last: Ints) -> Ints:
        """The places among the codes of all rows in the ranges.

        >>> rows = KeyedSeqs.of(np.array([0, 0, 1, 0]), np.array([1, 3, 4, 6]), span=10)
        >>> rows.selected(np.array([0, 1]), np.array([2, 0]), np.array([9, 9])).tolist()
        [1, 2, 3]
        """
        begin, end = self.ranges(keys, first, last)
        return spread_out(begin, end)

    def _code(self, keys: Ints, seqs: Ints, *, least: int = 0) -> Ints:
        """The codes of seqs; one beyond the stream's own counts as the nearest of them, or as the one before (`least` -1)."""
        codes: Ints = keys * self.span + np.clip(seqs - self.base, least, self.span - 1)
        return codes


def spread_out(begin: Ints, end: Ints) -> Ints:
    """The numbers of all half-open ranges, one after the other.

    >>> spread_out(np.array([1, 5]), np.array([3, 6])).tolist()
    [1, 2, 5]
    """
    lengths = end - begin
    total = int(lengths.sum())
    offsets = np.repeat(begin - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.arange(total, dtype=np.int64) + offsets
