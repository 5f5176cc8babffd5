"""Reports of weather stations, with the attributes of ISORC'16, Table 2."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.signal import lfilter

from holdfast.errors import TraceError
from holdfast.trace.block_stream import BLOCK, strings, time_column, write_stream
from holdfast.trace.popularity import Floats, Ints
from holdfast.trace.seeds import child
from holdfast.trace.trace_account import Progress, Written, silent

START_US = 1_357_020_000_000_000  # 2013-01-01 06:00 UTC
FRONT_S, SHOWER_S, DRY_S, GUST_S = 2 * 86_400.0, 2_400.0, 60_000.0, 900.0
ATTRIBUTES = ("pressure", "rainfall", "wind_direction", "temperature", "humidity", "battery")


@dataclass(frozen=True)
class Weather:
    """`stations` weather stations, each reporting every `interval_s` seconds.

    Pressure and temperature drift with fronts, temperature and humidity with the day; it rains in showers; the wind turns
    slowly and gusts; a battery is charged by day and holds its voltage.
    """

    stations: int = 20
    interval_s: float = 600.0
    kind: str = field(default="weather", init=False)
    columns: tuple[pa.Field, ...] = field(
        default=(
            pa.field("station", pa.string(), nullable=False),
            *(pa.field(name, pa.float64(), nullable=False) for name in ATTRIBUTES),
        ),
        init=False,
        repr=False,
    )

    def __post_init__(self) -> None:
        if not 1 <= self.stations <= 100_000:
            raise TraceError(f"a weather service has 1 to 100000 stations, not {self.stations}")
        if not 1 <= self.interval_s <= 86_400:
            raise TraceError(f"weather stations report every 1 to 86400 seconds, not every {self.interval_s:g}")

    def blocks(self, seed: int) -> Iterator[pa.Table]:
        names = pa.array([f"station-{k:04d}" for k in range(self.stations)])
        sky = _Sky(child(seed, "stations"), self)
        rounds = max(1, BLOCK // self.stations)
        for number, first in enumerate(range(0, 2**62, rounds)):
            turn = np.arange(first, first + rounds)[:, np.newaxis]
            # stations report in their order, a moment after one another
            time_us = START_US + ((turn + np.arange(self.stations) / self.stations) * self.interval_s * 1e6).astype(np.int64)
            seen = sky.observe(child(seed, "weather", number), time_us)
            station = np.tile(np.arange(self.stations), rounds)
            yield pa.table(
                {
                    "time": time_column(time_us.ravel()),
                    "station": strings(station, names),
                    **{name: pa.array(values.ravel()) for name, values in seen.items()},
                }
            )

    def count(self, table: pa.Table) -> dict[str, int]:
        return {"dry": pc.sum(pc.equal(table["rainfall"], 0.0)).as_py()}


class _Sky:
    """The weather at all stations. `observe` must be called for consecutive rounds of reports."""

    def __init__(self, rng: np.random.Generator, weather: Weather) -> None:
        size = self._size = weather.stations
        self._interval_s = weather.interval_s
        self._warmth, self._swing = rng.normal(14.0, 6.0, size), rng.uniform(2.0, 7.0, size)
        self._height = rng.uniform(-15.0, 5.0, size)
        self._damp = rng.uniform(45.0, 75.0, size)
        self._volt = rng.uniform(12.4, 13.2, size)
        self._turned = rng.uniform(0.0, 360.0, size)
        self._states = {name: np.zeros(size) for name in ("front", "heat", "moist", "gust")}
        self._wet = np.zeros(size, dtype=np.bool_)

    def observe(self, rng: np.random.Generator, time_us: Ints) -> dict[str, Floats]:
        """The attributes of every station at the given times; one row per round, one column per station."""
        shape = time_us.shape
        hour = (time_us / 3.6e9) % 24
        day = np.cos((hour - 15.0) / 24 * 2 * np.pi)
        front = self._drift(rng, shape, "front", FRONT_S)
        heat = self._drift(rng, shape, "heat", FRONT_S / 4)
        moist = self._drift(rng, shape, "moist", FRONT_S / 8)
        wet = self._rain(rng, shape)
        self._turned, turned = _walked(self._turned, rng.normal(0.0, 40.0 * np.sqrt(self._interval_s / 3600), shape))
        gust = self._drift(rng, shape, "gust", GUST_S)
        return {
            "pressure": np.round(1013.0 + self._height + 9.0 * front, 1),
            "rainfall": np.where(wet, np.round(rng.gamma(1.5, 0.4, shape) / 0.2) * 0.2, 0.0),
            "wind_direction": np.round(np.mod(turned + 25.0 * gust + rng.normal(0.0, 12.0, shape), 360.0) / 10) * 10 % 360,
            "temperature": np.round(self._warmth + self._swing * day + 3.0 * heat - 1.5 * wet, 1),
            "humidity": np.round(np.clip(self._damp - 14.0 * day + 9.0 * moist + 12.0 * wet, 5.0, 100.0)),
            "battery": np.round(self._volt + 0.1 * np.clip(day, 0.0, 1.0), 1),
        }

    def _drift(self, rng: np.random.Generator, shape: tuple[int, ...], name: str, memory_s: float) -> Floats:
        """A level around zero with deviation 1 that forgets itself within `memory_s`."""
        keep = float(np.exp(-self._interval_s / memory_s))
        shocks = rng.normal(0.0, np.sqrt(1 - keep**2), shape)
        path, _ = lfilter([1.0], [1.0, -keep], shocks, axis=0, zi=keep * self._states[name][np.newaxis, :])
        self._states[name] = path[-1]
        return np.asarray(path, dtype=np.float64)

    def _rain(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        draw = rng.random(shape)
        starts, stops = (min(1.0, self._interval_s / mean_s) for mean_s in (DRY_S, SHOWER_S))
        wet = np.empty(shape, dtype=np.bool_)
        now = self._wet
        for round_ in range(shape[0]):
            now = np.where(now, draw[round_] >= stops, draw[round_] < starts)
            wet[round_] = now
        self._wet = now
        return wet


def _walked(at: Floats, steps: Floats) -> tuple[Floats, Floats]:
    """The last place and all places of a walk."""
    path = at + np.cumsum(steps, axis=0)
    return path[-1], path


def write_weather(
    path: str | Path,
    *,
    events: int,
    seed: int,
    stations: int = 20,
    interval_s: float = 600.0,
    force: bool = False,
    progress: Progress = silent,
) -> Written:
    """Writes a trace of `events` station reports as one Parquet file; returns the account of it."""
    weather = Weather(stations=stations, interval_s=interval_s)
    return write_stream(weather, Path(path), events=events, seed=seed, force=force, progress=progress)
