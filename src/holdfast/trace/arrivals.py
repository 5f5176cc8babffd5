"""Arrival times of tuples: a rate that varies slowly, has bursts, and never exceeds a peak."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from holdfast.errors import TraceError
from holdfast.trace.popularity import Floats, Ints
from holdfast.trace.seeds import child

SLOTS = 10  # parts of a second with different rates: tuples come in clumps
CLUMPING = 0.8  # shape of the gamma weights of those tenths; smaller is clumpier
CHUNK_S = 256
CHUNK_ROWS = 262_144


def steady(time_s: Floats) -> Floats:
    """Return a constant relative rate."""
    return np.ones_like(time_s)


@dataclass(frozen=True)
class Pace:
    """The rate of a stream over time.

    `rate` is the mean in tuples per second, `peak` the most in one second. `rhythm` returns the relative rate at a time of day in
    seconds; its mean over the day is 1.
    """

    rate: float
    peak: float
    swell_s: float = 60.0
    burst_every_s: float = 60.0
    burst_s: float = 4.0
    rhythm: Callable[[Floats], Floats] = steady

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise TraceError(f"a trace's rate is a positive number of tuples per second, not {self.rate:g}")
        least = math.ceil(max(1.1 * self.rate, self.rate + 3 * math.sqrt(self.rate)))  # random variation needs some room
        if not (math.isfinite(self.peak) and self.peak >= least):
            raise TraceError(
                f"the peak of a trace with a rate of {self.rate:g} tuples per second is at least {least}, not {self.peak:g}"
            )

    @property
    def swell(self) -> float:
        """The standard deviation of the log of the slow variation, which is small if the peak is close to the rate."""
        return min(0.15, math.log(self.peak / self.rate) / 5)

    @property
    def burst_decay(self) -> float:
        return math.exp(-1 / self.burst_s)

    @property
    def burst_size(self) -> float:
        """The mean height of a burst as a multiple of the rate: so high that some bursts reach the peak."""
        return 0.45 * (self.peak / self.rate - 1)

    @property
    def burst_chance(self) -> float:
        """The probability that a burst starts in a second. All bursts together have at most three tenths of the tuples."""
        return min(1 / self.burst_every_s, 0.3 * (1 - self.burst_decay) / self.burst_size)

    @property
    def burst_share(self) -> float:
        return self.burst_chance * self.burst_size / (1 - self.burst_decay)


@dataclass(frozen=True)
class Arrived:
    """Tuples in order of arrival.

    `time_us` counts from 1970. `clock` is the time by which prices move evenly: it runs faster in an active market. `burst` is the
    number of the burst that a tuple belongs to, or -1.
    """

    time_us: Ints
    clock: Floats
    burst: Ints

    def __len__(self) -> int:
        return len(self.time_us)

    def part(self, rows: slice) -> "Arrived":
        return Arrived(self.time_us[rows], self.clock[rows], self.burst[rows])


def arrivals(pace: Pace, *, seed: int, start_us: int, size: int) -> Iterator[Arrived]:
    """Yield an endless sequence of blocks of exactly `size` tuples. The tuples do not depend on the size."""
    waiting: list[Arrived] = []
    for chunk in _chunks(pace, seed, start_us):
        waiting.append(chunk)
        while sum(map(len, waiting)) >= size:
            joined = _concatenate(waiting)
            yield joined.part(slice(0, size))
            waiting = [joined.part(slice(size, None))]


def _concatenate(parts: list[Arrived]) -> Arrived:
    if len(parts) == 1:
        return parts[0]
    return Arrived(
        np.concatenate([p.time_us for p in parts]),
        np.concatenate([p.clock for p in parts]),
        np.concatenate([p.burst for p in parts]),
    )


def _chunks(pace: Pace, seed: int, start_us: int) -> Iterator[Arrived]:
    seconds = int(max(1, min(CHUNK_S, CHUNK_ROWS // pace.rate)))
    swell = _RandomFactor(pace.swell, pace.swell_s)
    heat = _RandomFactor(0.6, 60.0)
    excess, clock, last_burst, number = 0.0, 0.0, -1, 0
    while True:
        rng = child(seed, "arrivals", number)
        at_s = np.arange(number * seconds, (number + 1) * seconds)
        day_s: Floats = np.mod(at_s + start_us / 1e6, 86_400.0)
        starts = rng.random(seconds) < pace.burst_chance
        jumps = np.where(starts, rng.exponential(pace.burst_size, seconds), 0.0)
        bursting, final = lfilter([1.0], [1.0, -pace.burst_decay], jumps, zi=[pace.burst_decay * excess])
        excess = float(final[0]) / pace.burst_decay
        calm = pace.rhythm(day_s) * (1 - pace.burst_share) * swell.path(rng, seconds)
        counts = np.minimum(rng.poisson(pace.rate * (calm + bursting)), math.floor(pace.peak)).astype(np.int64)

        clocks = clock + np.concatenate(([0.0], np.cumsum(heat.path(rng, seconds) * (1 + calm + bursting) / 2)))
        burst_of = np.maximum.accumulate(np.where(starts, at_s, last_burst))
        second = np.repeat(np.arange(seconds), counts)
        offset_s = _offsets(rng, counts)
        in_burst = rng.random(len(second)) < (bursting / (calm + bursting))[second]
        yield Arrived(
            start_us + number * seconds * 1_000_000 + (offset_s * 1e6).astype(np.int64),
            np.interp(offset_s, np.arange(seconds + 1), clocks),
            np.where(in_burst, burst_of[second], -1),
        )
        clock, last_burst, number = float(clocks[-1]), int(burst_of[-1]), number + 1


def _offsets(rng: np.random.Generator, counts: Ints) -> Floats:
    """Return ascending arrival times in seconds, with counts[s] of them in second s."""
    weights = rng.gamma(CLUMPING, size=(len(counts), SLOTS)) + 1e-9
    per_slot = rng.multinomial(counts, weights / weights.sum(axis=1, keepdims=True)).ravel()
    slot = np.repeat(np.arange(len(per_slot)), per_slot)
    return np.asarray(np.sort((slot + rng.random(len(slot))) / SLOTS), dtype=np.float64)


class _RandomFactor:
    """A random positive factor with mean 1, whose log reverts to its mean over `memory_s` seconds."""

    def __init__(self, deviation: float, memory_s: float) -> None:
        self.deviation, self.keep, self.level = deviation, math.exp(-1 / memory_s), 0.0

    def path(self, rng: np.random.Generator, seconds: int) -> npt.NDArray[np.float64]:
        noise = rng.normal(0.0, self.deviation * math.sqrt(1 - self.keep**2), seconds)
        path, _ = lfilter([1.0], [1.0, -self.keep], noise, zi=[self.keep * self.level])
        self.level = float(path[-1])
        return np.asarray(np.exp(path - self.deviation**2 / 2), dtype=np.float64)
