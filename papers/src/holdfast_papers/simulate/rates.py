"""Rate traces: the rates of sources over time, read from a file or generated from a descriptor's configurations."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.documents import Descriptor
from holdfast.errors import TraceError
from holdfast_papers.simulate.state import Floats

MAX_ROWS, MAX_RATE = 10_000_000, 1e12
SHOWN = 5
"""How many wrong values of a file an error message names; it only counts the others."""


@dataclass(frozen=True, slots=True, eq=False)
class RateTrace:
    """Tuples per second of each source, in intervals of `interval_s`: `rates[interval, source]`."""

    sources: tuple[str, ...]
    rates: Floats
    interval_s: float = 1.0

    def __post_init__(self) -> None:
        if self.rates.ndim != 2 or self.rates.shape[1] != len(self.sources) or not len(self.rates):
            raise TraceError(
                f"a rate trace of {len(self.sources)} sources wants rows of as many rates, got shape {self.rates.shape}"
            )
        if not ((self.rates >= 0) & (self.rates <= MAX_RATE)).all():
            raise TraceError(f"a rate is a number from 0 to {MAX_RATE:g}; the rate trace has others")
        if not 0 < self.interval_s < np.inf:
            raise TraceError(f"an interval of a rate trace is longer than 0 s and finite, got {self.interval_s:g}")

    @property
    def seconds(self) -> float:
        return len(self.rates) * self.interval_s

    def arrivals(
        self, step_s: float, *, drain_s: float = 0.0, rng: np.random.Generator | None = None, epoch_s: float = 0.0
    ) -> Floats:
        """Return the tuples of each step: evenly spread by the rates, or, with an rng, whole tuples at random (Poisson).

        With `epoch_s`, all tuples of an epoch arrive in its last step.
        """
        steps = round(self.seconds / step_s)
        at = np.minimum(((np.arange(steps) + 0.5) * step_s / self.interval_s).astype(np.int64), len(self.rates) - 1)
        expected = self.rates[at] * step_s
        tuples = rng.poisson(expected).astype(np.float64) if rng is not None else expected
        tuples = np.concatenate([tuples, np.zeros((round(drain_s / step_s), len(self.sources)))])
        return _by_epoch(tuples, max(1, round(epoch_s / step_s))) if epoch_s > 0 else tuples


def _by_epoch(tuples: Floats, length: int) -> Floats:
    """Move the tuples of each `length` steps to the last of them. Tuples of an incomplete last epoch are dropped."""
    whole = len(tuples) // length * length
    closed: Floats = np.zeros_like(tuples)
    closed[length - 1 : whole : length] = tuples[:whole].reshape(-1, length, tuples.shape[1]).sum(axis=1)
    return closed


def read_rates(path: str | Path, descriptor: Descriptor) -> RateTrace:
    """Read a CSV file with a column `time_s` and a column of rates for each source of the descriptor. Times ascend evenly."""
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte order mark
            reader = csv.DictReader(file, skipinitialspace=True)
            columns, rows = list(reader.fieldnames or ()), list(reader)
    except FileNotFoundError:
        raise TraceError(f"there is no rate trace '{path}'") from None
    except OSError as error:
        raise TraceError(f"rate trace '{path}' cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"rate trace '{path}' is not a CSV file: {error}") from None
    names = ["time_s", *descriptor.sources]
    _require_columns(path, columns, names)
    if not 0 < len(rows) <= MAX_ROWS:
        raise TraceError(f"rate trace '{path}' has {len(rows):,} rows below its header, wanted 1 to {MAX_ROWS:,}")
    values = np.array([[_rate(row[name]) for name in names] for row in rows])
    errors = [f"{names[c]} in row {n + 1} is {rows[n][names[c]] or ''!r}" for n, c in np.argwhere(np.isnan(values))]
    errors += [f"row {n + 1} has more than the {len(columns)} columns" for n, row in enumerate(rows) if None in row]
    if errors:
        more = f" and {len(errors) - SHOWN:,} more" if len(errors) > SHOWN else ""
        raise TraceError(f"rate trace '{path}' wants numbers from 0 to {MAX_RATE:g}; {', '.join(errors[:SHOWN])}{more}")
    steps = np.diff(values[:, 0])
    if len(steps) and not (steps[0] > 0 and np.allclose(steps, steps[0], rtol=1e-6)):
        raise TraceError(f"rate trace '{path}' wants times that ascend evenly, got steps from {steps.min():g} to {steps.max():g} s")
    return RateTrace(tuple(descriptor.sources), values[:, 1:], float(steps[0]) if len(steps) else 1.0)


def _require_columns(path: Path, columns: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in names if name not in columns]
    twice = [name for name in names if columns.count(name) > 1]
    if missing or twice:
        error = f"missing: {', '.join(missing)}" if missing else f"there twice: {', '.join(twice)}"
        raise TraceError(
            f"rate trace '{path}' wants the columns {', '.join(names)}, separated by commas; {error}; "
            f"its first line has: {', '.join(columns) or 'nothing'}"
        )


def _rate(text: str | None) -> float:
    """Parse a time or rate. Returns NaN if the text is not a number from 0 to MAX_RATE."""
    try:
        number = float(text or "")
    except ValueError:
        return np.nan
    return number if 0 <= number <= MAX_RATE else np.nan


def steady_rates(descriptor: Descriptor, configuration: str, *, seconds: float = 60.0) -> RateTrace:
    """Return a trace that stays in one configuration of the descriptor."""
    named = {c.name: c for c in descriptor.input_configurations}
    if configuration not in named:
        raise TraceError(f"'{descriptor.application}' has no configuration '{configuration}'; it has: {', '.join(sorted(named))}")
    row = [named[configuration].rates[source] for source in descriptor.sources]
    return RateTrace(tuple(descriptor.sources), np.tile(np.array(row), (max(1, round(seconds)), 1)))


def rates_by_probability(descriptor: Descriptor, *, seconds: float = 300.0, visits: int = 2) -> RateTrace:
    """Return a trace that spends in each configuration its probability's share of the time (LAAR section 5.2).

    Each configuration is visited `visits` times, in turn.
    """
    configurations = [c for c in descriptor.input_configurations if c.probability > 0]
    rows: list[Sequence[float]] = []
    for visit in range(visits):
        for configuration in configurations:
            share = configuration.probability * seconds
            length = round(share * (visit + 1) / visits) - round(share * visit / visits)
            rows += [[configuration.rates[source] for source in descriptor.sources]] * length
    rates = np.array(rows, dtype=np.float64).reshape(-1, len(descriptor.sources))
    return RateTrace(tuple(descriptor.sources), rates)
