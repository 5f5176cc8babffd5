"""Rates of tuples per second of the trace: mean, peak, and the few levels that describe a source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import HoldfastError


@dataclass(frozen=True)
class Flow:
    """Tuples per second of a stream, on average and at the peak."""

    average: float
    peak: float


@dataclass(frozen=True)
class Level:
    """One of a source's rates, with its name and the share of time it has."""

    name: str
    rate: float
    probability: float


NAMES = {1: ["only"], 2: ["low", "high"], 3: ["low", "medium", "high"], 4: ["low", "medium", "high", "peak"]}


def flow(counts: NDArray[np.int64], *, step_s: float) -> Flow:
    """Return the flow of a stream from its tuple counts in consecutive steps of time.

    >>> flow(np.array([400, 600]), step_s=1.0)
    Flow(average=500.0, peak=600.0)
    """
    return Flow(average=float(counts.mean() / step_s), peak=float(counts.max() / step_s))


def levels(rates: NDArray[np.float64], *, count: int) -> tuple[tuple[Level, ...], NDArray[np.int64]]:
    """Group measured rates into a few levels, and return the levels and the level number of each measurement.

    The groups have the least variance within them (natural breaks). The rate of a level is the highest of its group, so that it
    never understates the load (LAAR, section 4.6).

    >>> groups, _ = levels(np.array([400.0, 410.0, 405.0, 1500.0]), count=2)
    >>> [(level.name, level.rate, level.probability) for level in groups]
    [('low', 410.0, 0.75), ('high', 1500.0, 0.25)]
    """
    if not 1 <= count <= 4:
        raise HoldfastError(f"a source's rates can be grouped into 1 to 4 levels, got {count}")
    ordered = np.unique(rates)
    weights = np.array([(rates == rate).sum() for rate in ordered]) if len(ordered) <= 512 else None
    if weights is None:  # a few hundred quantiles suffice to find the breaks
        ordered = np.unique(np.quantile(rates, np.linspace(0, 1, 512), method="higher"))
        weights = np.histogram(rates, np.append(ordered, np.inf))[0]
    groups = _breaks(ordered, weights.astype(float), min(count, len(ordered)))
    tops = np.array([ordered[group[-1]] for group in groups])
    level_of_rate = np.searchsorted(tops, rates)
    shares = np.bincount(level_of_rate, minlength=len(tops)) / len(rates)
    names = NAMES[len(tops)]
    return tuple(Level(*level) for level in zip(names, map(float, tops), map(float, shares), strict=True)), level_of_rate


def joint(
    level_numbers: Mapping[str, NDArray[np.int64]], names: Mapping[str, Sequence[str]]
) -> dict[tuple[tuple[str, str], ...], float]:
    """Return the share of time of each combination of the sources' levels that occurred."""
    sources = sorted(level_numbers)
    rows, counts = np.unique(np.stack([level_numbers[source] for source in sources]), axis=1, return_counts=True)
    total = counts.sum()
    return {
        tuple((source, names[source][level]) for source, level in zip(sources, column, strict=True)): float(count / total)
        for column, count in zip(rows.T, counts, strict=True)
    }


def _breaks(values: NDArray[np.float64], weights: NDArray[np.float64], count: int) -> list[NDArray[np.int64]]:
    """Group ascending values so that their squared distance from the weighted group means is least, by dynamic programming."""
    n = len(values)
    w, s, q = (np.concatenate([[0.0], np.cumsum(x)]) for x in (weights, weights * values, weights * values**2))

    def spread(i: NDArray[np.int64], j: int) -> NDArray[np.float64]:
        result: NDArray[np.float64] = q[j] - q[i] - (s[j] - s[i]) ** 2 / (w[j] - w[i])
        return result

    best = np.full((count + 1, n + 1), np.inf)
    best_start = np.zeros((count + 1, n + 1), np.int64)
    best[0, 0] = 0.0
    for k in range(1, count + 1):
        for j in range(k, n + 1):
            starts = np.arange(k - 1, j)
            costs = best[k - 1, starts] + spread(starts, j)
            best_start[k, j] = starts[np.argmin(costs)]
            best[k, j] = costs.min()
    groups: list[NDArray[np.int64]] = []
    end = n
    for k in range(count, 0, -1):
        start = int(best_start[k, end])
        groups.append(np.arange(start, end))
        end = start
    return groups[::-1]
