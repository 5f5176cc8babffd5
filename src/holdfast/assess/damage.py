"""What a failure costs a user: seconds of wrong output, and how much output is lost or wrong, each with a confidence interval.

The metrics of DEBS'11 have no unit, and errors relative to a nearly empty section can be huge. These figures add up differences of
the score instead, so that an empty section counts little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from holdfast.assess.keyed_seqs import Floats

CONFIDENCE = 0.95
METHOD = "Student's t over the offsets"
CRITICAL = 1 / 3
"""A loss of at least this share of the largest is critical, unless it only comes from missing output during the outage."""
SMALL = 0.05
"""A loss of output for less than this share of the longest outage is small: even a failure of that length hardly shows."""
CERTAIN = 0.95
"""The probability from which on one case counts as worse than another."""


@dataclass(frozen=True)
class Interval:
    """A mean over offsets, with the bounds of its confidence interval. With one offset the bounds are unknown (nan)."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float] | Floats) -> "Interval":
        """Return the mean of values that cannot be negative, and its 95 % confidence interval.

        >>> Interval.of([2.0, 2.0, 2.0])
        Interval(mean=2.0, low=2.0, high=2.0)
        """
        each = np.asarray(values, np.float64)
        mean = float(each.mean())
        if len(each) < 2:
            return cls(mean, float("nan"), float("nan"))
        half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(each) - 1) * each.std(ddof=1) / np.sqrt(len(each)))
        return cls(mean, max(0.0, mean - half), mean + half)

    def __str__(self) -> str:
        if np.isnan(self.low):
            return f"{self.mean:,.3g}"
        return f"{self.mean:,.3g} ({self.low:,.3g} to {self.high:,.3g})"


@dataclass(frozen=True)
class Damage:
    """What the longest outage of a case costs at each offset, in seconds.

    `affected_s` is how long the output is wrong by more than the threshold. `output_s` is the size of the difference: as much score
    as the golden output has in that many seconds. `recovery_s` is the recovery time.
    """

    affected_s: tuple[float, ...]
    output_s: tuple[float, ...]
    recovery_s: tuple[float, ...]

    @property
    def affected(self) -> Interval:
        return Interval.of(self.affected_s)

    @property
    def output(self) -> Interval:
        return Interval.of(self.output_s)

    @property
    def recovery(self) -> Interval:
        return Interval.of(self.recovery_s)


def output_lost(faulty: Floats, golden: Floats, errors: Floats, *, threshold: float, section_s: float) -> float:
    """Return the difference of the scores in wrong sections, as seconds of golden output.

    >>> ones = np.ones(4)
    >>> output_lost(np.array([1.0, 0.0, 0.5, 1.0]), ones, np.array([0.0, 1.0, 0.5, 0.0]), threshold=0.03, section_s=2.0)
    3.0
    """
    usual = float(np.abs(np.nan_to_num(golden)).mean()) if len(golden) else 0.0
    wrong = errors > threshold
    apart = float(np.abs(np.nan_to_num(faulty) - np.nan_to_num(golden))[wrong].sum())
    return apart / usual * section_s if usual else float(wrong.sum()) * section_s


def certainty(worse: Sequence[float], other: Sequence[float]) -> float:
    """Return how likely one case loses more than another: one minus the p-value of a paired one-sided t-test over offsets.

    If all differences are equal, it is 1 for a larger loss and 0.5 for the same. With one offset it is unknown (nan).

    >>> certainty((5.0, 6.0, 7.0), (1.0, 2.0, 3.5)) > 0.95
    True
    """
    difference = np.array(worse) - np.array(other)
    if len(difference) < 2:
        return float("nan")
    if np.ptp(difference) <= 1e-9 * max(1.0, float(np.abs(difference).max())):
        return float(np.clip(0.5 + 0.5 * np.sign(np.round(difference[0], 9)), 0, 1))
    return float(1 - stats.ttest_1samp(difference, 0.0, alternative="greater").pvalue)
