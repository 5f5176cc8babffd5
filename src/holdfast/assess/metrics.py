"""The four metrics of DEBS'11, section 5.2, as pure functions of scores.

Each function names its equation: Eq. 1 mean_score, Eq. 2 quality_score, Eq. 3 outage_impact, Eq. 4 data_dependency, Eq. 5
local_errors, Eq. 6 and 7 recovery_index, Eq. 8 squared_errors. Where the paper leaves a case undefined, the docstring states the
choice. As in the paper, offsets are indexed by i, outages by j, repetitions by k, golden runs by l and sections by t.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]

ALPHA = 0.05
THRESHOLD = 0.03
PERCENTILE = 0.90
THIN = 0.1
"""A section with a golden score below this share of the mean is nearly empty."""
ROUNDING = 1e-12
"""Quality scores that differ by less than this are equal: the difference comes from the order of floating-point sums."""


@dataclass(frozen=True)
class Dependency:
    """Data dependency D^oq: the standard deviation over offsets, and whether the analysis of variance accepts the hypothesis that
    the offset has no effect. `p` is its p-value; 1 if all scores are equal."""

    deviation: float
    accepted: bool
    p: float

    def __str__(self) -> str:
        return f"({self.deviation:.2f}, {'A' if self.accepted else 'R'})"


def mean_score(scores: Sequence[float] | Floats) -> float:
    """Return the average output score over repetitions (Eq. 1).

    >>> mean_score([1.0, 2.0, 6.0])
    3.0
    """
    return float(np.mean(scores))


def quality_score(faulty: Sequence[float] | Floats, golden: Sequence[float] | Floats) -> float:
    """Return the mean faulty score divided by the mean golden score (Eq. 2). If golden is zero: 1 if faulty is zero too, else nan.

    >>> quality_score([2.0, 4.0], [6.0, 6.0])
    0.5
    """
    above, below = mean_score(faulty), mean_score(golden)
    if below == 0.0:
        return 1.0 if above == 0.0 else float("nan")
    return above / below


def correlation(outages: Sequence[float] | Floats, quality: Sequence[float] | Floats) -> float:
    """Return Spearman's rank correlation of outages and quality scores; ties have their mean rank.

    It is zero where undefined: fewer than two points, only one outage, or constant quality. Points without a quality (nan) are
    ignored. Qualities that are equal up to rounding are ties.

    >>> correlation([1, 2, 4, 8], [0.9, 0.7, 0.4, 0.0])
    -1.0
    """
    x, y = np.asarray(outages, np.float64), np.asarray(quality, np.float64)
    valid = ~np.isnan(y)
    x, y = stats.rankdata(x[valid]), stats.rankdata(_levels(y[valid]))
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x @ y) / np.sqrt((x @ x) * (y @ y)), -1.0, 1.0))


def _levels(values: Floats) -> Floats:
    """Replace each value by the smallest of its group, where a group has no gap wider than rounding."""
    ordered = np.sort(values)
    apart = np.diff(ordered, prepend=-np.inf) > ROUNDING * np.maximum(np.abs(ordered), 1.0)
    levels: Floats = ordered[apart][np.searchsorted(ordered[apart], values, side="right") - 1]
    return levels


def outage_impact(outages: Sequence[float] | Floats, quality: Sequence[Sequence[float]] | Floats) -> float:
    """Return the outage duration impact C^oq: the mean over offsets of the correlation of outage and quality (Eq. 3).

    >>> outage_impact([1, 2, 3], [[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]])
    0.0
    """
    return float(np.mean([correlation(outages, of_offset) for of_offset in quality]))


def data_dependency(quality: Sequence[Sequence[float]] | Floats, *, alpha: float = ALPHA) -> Dependency:
    """Return the data dependency D^oq of the quality scores QS_{i,k} of one outage (Eq. 4).

    `quality` has offsets in rows and repetitions in columns. The deviation is the sample standard deviation of the offsets' means;
    0 for one offset. The test accepts if there is one offset, or if all scores are equal up to rounding. It rejects if
    repetitions agree but offsets differ, also with one repetition. Repetitions without a quality (nan) are ignored, and so are
    offsets that have none.

    >>> str(data_dependency([[0.0, 0.0], [0.0, 0.0]]))
    '(0.00, A)'
    >>> str(data_dependency([[1.0, 1.1], [3.0, 3.1]]))
    '(1.41, R)'
    """
    groups = [np.asarray(group, np.float64) for group in quality]
    groups = [group[~np.isnan(group)] for group in groups]
    groups = [group for group in groups if len(group)]
    if len(groups) < 2:
        return Dependency(0.0, True, 1.0)
    means = np.array([group.mean() for group in groups])
    deviation = float(np.std(means, ddof=1))
    everything = np.concatenate(groups)
    scale = max(float(np.abs(everything).max()), 1e-300)
    if np.ptp(everything) <= ROUNDING * max(scale, 1.0):
        return Dependency(0.0 if deviation < ROUNDING else deviation, True, 1.0)
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    freedom = len(everything) - len(groups)
    if freedom == 0 or within <= (ROUNDING * scale) ** 2 * len(everything):
        return Dependency(deviation, False, 0.0)
    between = sum(len(group) * float((group.mean() - everything.mean()) ** 2) for group in groups)
    ratio = (between / (len(groups) - 1)) / (within / freedom)
    p = float(stats.f.sf(ratio, len(groups) - 1, freedom))
    return Dependency(deviation, p >= alpha, p)


def local_errors(faulty: Sequence[float] | Floats, golden: Sequence[float] | Floats) -> Floats:
    """Return the error array EQ (Eq. 5): the relative difference of each section's mean faulty score from its mean golden score.

    The difference is relative to the absolute golden score. Where that is below THIN of the mean absolute golden score of all
    sections, it is relative to that share of the mean, or to the mean if there is no score at all. So a nearly empty section does
    not outweigh all others. If the mean is zero too, any difference counts as 1.

    >>> local_errors([1.0, 3.0, 0.0, 2.0], [2.0, 2.0, 0.0, 0.0]).tolist()
    [0.5, 0.5, 0.0, 2.0]
    >>> local_errors([1.0, 1.0, 1.0], [1e-9, 1.0, 2.0]).round(6).tolist()
    [10.0, 0.0, 0.5]
    """
    local, expected = np.asarray(faulty, np.float64), np.asarray(golden, np.float64)
    size = np.abs(expected)
    mean = float(size.mean()) if len(size) else 0.0
    scale = np.where(size > 0, np.maximum(size, THIN * mean), mean)
    difference = np.abs(local - expected)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = difference / scale
    return np.where(difference == 0, 0.0, np.where(scale > 0, relative, 1.0))


def recovery_index(errors: Sequence[float] | Floats, *, threshold: float = THRESHOLD, percentile: float = PERCENTILE) -> int:
    """Return R_i^lq (Eq. 6, 7): the section up to which `percentile` of the erroneous sections lie, counted from 1 at the fault.

    It is 0 if no section is erroneous.

    >>> recovery_index([1.0, 1.0, 0.0, 0.5, 0.01], percentile=0.9)
    4
    >>> recovery_index([1.0] * 9 + [0.0] * 90 + [1.0], percentile=0.9)
    9
    """
    wrong = np.cumsum(np.asarray(errors, np.float64) > threshold)
    if len(wrong) == 0 or wrong[-1] == 0:
        return 0
    least = percentile * wrong[-1] - 1e-9  # 0.9 * 10 is 9, despite rounding
    return int(np.argmax(wrong >= least)) + 1


def squared_errors(errors: Sequence[float] | Floats, *, threshold: float = THRESHOLD, percentile: float = PERCENTILE) -> float:
    """Return I_i^lq (Eq. 8): the sum of the squared errors above the threshold, up to the recovery index.

    >>> squared_errors([1.0, 2.0, 0.01, 0.5])
    5.25
    """
    index = recovery_index(errors, threshold=threshold, percentile=percentile)
    head = np.asarray(errors, np.float64)[:index]
    return float((head[head > threshold] ** 2).sum())


def recovery_time(
    errors: Sequence[Sequence[float] | Floats], *, threshold: float = THRESHOLD, percentile: float = PERCENTILE
) -> int:
    """Return the recovery time R^lq: the largest recovery index of any offset, in sections.

    >>> recovery_time([[1.0, 0.0], [1.0, 1.0]])
    2
    """
    return max((recovery_index(of_offset, threshold=threshold, percentile=percentile) for of_offset in errors), default=0)


def quality_impact(
    errors: Sequence[Sequence[float] | Floats], *, threshold: float = THRESHOLD, percentile: float = PERCENTILE
) -> float:
    """Return the quality impact I^lq: the largest sum of squared errors of any offset.

    >>> quality_impact([[1.0, 0.0], [1.0, 1.0]])
    2.0
    """
    return max((squared_errors(of_offset, threshold=threshold, percentile=percentile) for of_offset in errors), default=0.0)


def fitted_line(outages: Sequence[float] | Floats, quality: Sequence[float] | Floats) -> tuple[float, float]:
    """Return slope and intercept of the least-squares line through (outage, quality), as in Figure 8; slope 0 for one outage.

    >>> slope, intercept = fitted_line([0, 1, 2], [1.0, 0.5, 0.0])
    >>> round(slope, 12), round(intercept, 12)
    (-0.5, 1.0)
    """
    x, y = np.asarray(outages, np.float64), np.asarray(quality, np.float64)
    valid = ~np.isnan(y)
    x, y = x[valid], y[valid]
    if len(x) == 0:
        return 0.0, float("nan")
    if np.ptp(x) == 0:
        return 0.0, float(y.mean())
    centred = x - x.mean()
    slope = float((centred @ (y - y.mean())) / (centred @ centred))
    return slope, float(y.mean() - slope * x.mean())


def spread(golden: Sequence[float] | Floats) -> float:
    """Return the spread of golden runs: the standard deviation of their scores divided by their absolute mean; 0 for one run.

    >>> spread([1.0, 1.0, 1.0])
    0.0
    """
    scores = np.asarray(golden, np.float64)
    if len(scores) < 2 or np.ptp(scores) == 0:
        return 0.0
    mean = abs(float(scores.mean()))
    return float(np.std(scores, ddof=1)) / mean if mean else float("inf")
