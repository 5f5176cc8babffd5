"""Sorted codes of (key, seq): find the rows of many keys at once with numpy."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEVER = np.int64(1) << 62
"""A seq that is larger than every seq of a trace."""


@dataclass(frozen=True)
class KeyedSeqs:
    """The seqs of a stream by key. `codes` are key * span + seq - base, ascending; seqs lie in [base, base + span)."""

    codes: Ints
    span: int
    base: int = 0

    @classmethod
    def of(cls, keys: Ints, seqs: Ints, *, span: int, base: int = 0) -> "KeyedSeqs":
        return cls(np.sort(keys * span + (seqs - base)), span, base)

    def seqs_at(self, indices: Ints) -> Ints:
        """Return the seqs of the rows at these indices of `codes`."""
        return self.codes[indices] % self.span + self.base

    def nth_after(self, keys: Ints, seqs: Ints, n: int) -> Ints:
        """Return for each key the seq of its n-th row after the given seq, or NEVER if there is no such row.

        >>> rows = KeyedSeqs.of(np.array([0, 0, 1, 0]), np.array([1, 3, 4, 6]), span=10)
        >>> rows.nth_after(np.array([0, 0]), np.array([1, 3]), 2).tolist() == [6, int(NEVER)]
        True
        """
        at = np.searchsorted(self.codes, self._code(keys, seqs, least=-1), side="right") + n - 1
        valid = (seqs < self.base + self.span) & (at < len(self.codes))
        codes = self.codes[np.minimum(at, len(self.codes) - 1)] if len(self.codes) else np.zeros(len(at), np.int64)
        return np.where(valid & (codes // self.span == keys), codes % self.span + self.base, NEVER)

    def nth_before(self, keys: Ints, seqs: Ints, n: int) -> Ints:
        """Return for each key the seq of its n-th row before the given seq, or 0 if there are fewer rows.

        >>> rows = KeyedSeqs.of(np.array([0, 0, 1, 0]), np.array([1, 3, 4, 6]), span=10)
        >>> rows.nth_before(np.array([0, 0, 1]), np.array([6, 3, 4]), 2).tolist()
        [1, 0, 0]
        """
        at = np.searchsorted(self.codes, self._code(keys, seqs)) - n
        codes = self.codes[np.maximum(at, 0)] if len(self.codes) else np.zeros(len(at), np.int64)
        return np.where((at >= 0) & (codes // self.span == keys), codes % self.span + self.base, 0)

    def ranges(self, keys: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints]:
        """Return for each key the half-open range of indices of its rows with seqs from `first` to `last`, both included."""
        begin = np.searchsorted(self.codes, self._code(keys, first))
        end = np.searchsorted(self.codes, self._code(keys, last, least=-1), side="right")
        return begin, np.maximum(begin, end)

    def counts(self, keys: Ints, first: Ints, last: Ints) -> Ints:
        """Return for each key its number of rows from `first` to `last`."""
        begin, end = self.ranges(keys, first, last)
        return end - begin

    def selected(self, keys: Ints, first: Ints, last: Ints) -> Ints:
        """Return the indices of all rows in the ranges.

        >>> rows = KeyedSeqs.of(np.array([0, 0, 1, 0]), np.array([1, 3, 4, 6]), span=10)
        >>> rows.selected(np.array([0, 1]), np.array([2, 0]), np.array([9, 9])).tolist()
        [1, 2, 3]
        """
        begin, end = self.ranges(keys, first, last)
        return spread_out(begin, end)

    def _code(self, keys: Ints, seqs: Ints, *, least: int = 0) -> Ints:
        """Return the codes of seqs. Seqs outside the stream are clipped to its first (or, with `least` -1, one before) and last."""
        codes: Ints = keys * self.span + np.clip(seqs - self.base, least, self.span - 1)
        return codes


def spread_out(begin: Ints, end: Ints) -> Ints:
    """Return the numbers in all half-open ranges, one range after the other.

    >>> spread_out(np.array([1, 5]), np.array([3, 6])).tolist()
    [1, 2, 5]
    """
    lengths = end - begin
    total = int(lengths.sum())
    offsets = np.repeat(begin - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.arange(total, dtype=np.int64) + offsets
