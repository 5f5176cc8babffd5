"""The summary of a generated trace, and the meter of its rate."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.trace.popularity import Ints

Progress = Callable[[int], None]
"""Called with the number of rows written so far, after every block."""


def silent(rows: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True)
class TraceSummary:
    """A generated trace: its path and size, the time it took to write, and its statistics."""

    kind: str
    path: Path
    seed: int
    rows: int
    seconds: float
    size_bytes: int
    statistics: Mapping[str, float]

    def document(self) -> dict[str, object]:
        """Return the summary as plain values, for JSON."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "seed": self.seed,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "bytes": self.size_bytes,
            "statistics": {name: round(value, 6) for name, value in self.statistics.items()},
        }


class RateMeter:
    """Measures the mean and peak number of tuples per second from blocks of ascending times.

    The peak is the most in any whole second. The mean is never above the peak, however short the trace is.

    >>> meter = RateMeter()
    >>> meter.add(np.array([0, 400_000, 900_000, 1_000_000]))
    >>> meter.add(np.array([1_500_000, 1_600_000, 1_700_000, 2_000_000]))
    >>> meter.statistics()
    {'rate_mean': 4.0, 'rate_peak': 4, 'span_s': 2.0}
    """

    def __init__(self) -> None:
        self.rows, self.peak = 0, 0
        self._first_us, self._last_us, self._open_s, self._open_rows = 0, 0, -1, 0

    def add(self, time_us: Ints) -> None:
        if not len(time_us):
            return
        if not self.rows:
            self._first_us = int(time_us[0])
        seconds, counts = np.unique(time_us // 1_000_000, return_counts=True)
        if seconds[0] == self._open_s:
            counts[0] += self._open_rows
        self.peak = max(self.peak, int(counts.max()))
        self._open_s, self._open_rows = int(seconds[-1]), int(counts[-1])
        self._last_us, self.rows = int(time_us[-1]), self.rows + len(time_us)

    def statistics(self) -> dict[str, float]:
        span_s = (self._last_us - self._first_us) / 1e6
        mean = min(self.rows / span_s, float(self.peak)) if span_s else float(self.rows)
        return {"rate_mean": mean, "rate_peak": self.peak, "span_s": span_s}
