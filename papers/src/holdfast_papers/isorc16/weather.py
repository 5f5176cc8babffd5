"""Generated reports of weather stations, with the attributes of ISORC'16, Table 2."""

import zlib
from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa
from scipy.signal import lfilter

from holdfast.errors import TraceError
from holdfast_papers.arrays import Flags, Floats, Ints

START_US = 1_357_020_000_000_000  # 2013-01-01 06:00 UTC
FRONT_S, SHOWER_S, DRY_S, GUST_S = 2 * 86_400.0, 2_400.0, 60_000.0, 900.0
ATTRIBUTES = ("pressure", "rainfall", "wind_direction", "temperature", "humidity", "battery")
BLOCK_ROWS = 65_536
"""Rows that share one random stream. A shorter trace is therefore the beginning of a longer one."""


def generate_weather(*, events: int, seed: int, stations: int = 20, interval_s: float = 600.0) -> pa.Table:
    """Return `events` reports of `stations` weather stations, each of which reports every `interval_s` seconds.

    Pressure and temperature drift with fronts. Temperature and humidity follow the time of day. Rain falls in showers. The wind
    turns slowly, with gusts. A battery is charged by day and keeps its voltage. Raises TraceError for impossible numbers.
    """
    if events < 1 or seed < 0:
        raise TraceError(f"a weather trace needs at least 1 event and a seed of at least 0, got {events} and {seed}")
    if not 1 <= stations <= 100_000:
        raise TraceError(f"a weather service has 1 to 100000 stations, not {stations}")
    if not 1 <= interval_s <= 86_400:
        raise TraceError(f"weather stations report every 1 to 86400 seconds, not every {interval_s:g}")
    tables: list[pa.Table] = []
    for block in _blocks(seed, stations, interval_s):
        tables.append(block)
        if sum(table.num_rows for table in tables) >= events:
            break
    table = pa.concat_tables(tables).slice(0, events)
    return table.add_column(0, "seq", pa.array(np.arange(1, events + 1)))


def _blocks(seed: int, stations: int, interval_s: float) -> Iterator[pa.Table]:
    names = pa.array([f"station-{number:04d}" for number in range(stations)])
    simulator = _WeatherSimulator(_random_stream(seed, "stations"), stations, interval_s)
    rounds = max(1, BLOCK_ROWS // stations)
    for number in count():
        turn = np.arange(number * rounds, (number + 1) * rounds)[:, np.newaxis]
        # Stations report in their order, a moment after one another.
        time_us = START_US + ((turn + np.arange(stations) / stations) * interval_s * 1e6).astype(np.int64)
        attributes = simulator.observe(_random_stream(seed, "weather", number), time_us)
        yield pa.table(
            {
                "time": pa.array(time_us.ravel()).view(pa.timestamp("us", tz="UTC")),
                "station": names.take(pa.array(np.tile(np.arange(stations), rounds))),
                **{name: pa.array(values.ravel()) for name, values in attributes.items()},
            }
        )


def _random_stream(seed: int, part: str, block: int = 0) -> np.random.Generator:
    """Return a random stream that depends on nothing but the seed, the part of the generator and the block."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(part.encode()), block)))


class _WeatherSimulator:
    """The weather at all stations. `observe` must be called for consecutive rounds of reports."""

    def __init__(self, rng: np.random.Generator, stations: int, interval_s: float) -> None:
        self._interval_s = interval_s
        self._warmth, self._swing = rng.normal(14.0, 6.0, stations), rng.uniform(2.0, 7.0, stations)
        self._height = rng.uniform(-15.0, 5.0, stations)
        self._damp = rng.uniform(45.0, 75.0, stations)
        self._volt = rng.uniform(12.4, 13.2, stations)
        self._direction = rng.uniform(0.0, 360.0, stations)
        self._levels = {name: np.zeros(stations) for name in ("front", "heat", "moist", "gust")}
        self._wet = np.zeros(stations, dtype=np.bool_)

    def observe(self, rng: np.random.Generator, time_us: Ints) -> dict[str, Floats]:
        """Return the attributes of every station at the given times: one row per round, one column per station."""
        shape = time_us.shape
        hour = (time_us / 3.6e9) % 24
        day = np.cos((hour - 15.0) / 24 * 2 * np.pi)
        front = self._drift(rng, shape, "front", FRONT_S)
        heat = self._drift(rng, shape, "heat", FRONT_S / 4)
        moist = self._drift(rng, shape, "moist", FRONT_S / 8)
        wet = self._rain(rng, shape)
        turns = rng.normal(0.0, 40.0 * np.sqrt(self._interval_s / 3600), shape)
        direction = self._direction + np.cumsum(turns, axis=0)
        self._direction = direction[-1]
        gust = self._drift(rng, shape, "gust", GUST_S)
        return {
            "pressure": np.round(1013.0 + self._height + 9.0 * front, 1),
            "rainfall": np.where(wet, np.round(rng.gamma(1.5, 0.4, shape) / 0.2) * 0.2, 0.0),
            "wind_direction": np.round(np.mod(direction + 25.0 * gust + rng.normal(0.0, 12.0, shape), 360.0) / 10) * 10 % 360,
            "temperature": np.round(self._warmth + self._swing * day + 3.0 * heat - 1.5 * wet, 1),
            "humidity": np.round(np.clip(self._damp - 14.0 * day + 9.0 * moist + 12.0 * wet, 5.0, 100.0)),
            "battery": np.round(self._volt + 0.1 * np.clip(day, 0.0, 1.0), 1),
        }

    def _drift(self, rng: np.random.Generator, shape: tuple[int, ...], name: str, memory_s: float) -> Floats:
        """Return a level around zero with deviation 1 whose correlation decays within `memory_s`."""
        keep = float(np.exp(-self._interval_s / memory_s))
        shocks = rng.normal(0.0, np.sqrt(1 - keep**2), shape)
        path, _ = lfilter([1.0], [1.0, -keep], shocks, axis=0, zi=keep * self._levels[name][np.newaxis, :])
        self._levels[name] = path[-1]
        return np.asarray(path, dtype=np.float64)

    def _rain(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Flags:
        draw = rng.random(shape)
        starts, stops = (min(1.0, self._interval_s / mean_s) for mean_s in (DRY_S, SHOWER_S))
        wet = np.empty(shape, dtype=np.bool_)
        now = self._wet
        for round_ in range(shape[0]):
            now = np.where(now, draw[round_] >= stops, draw[round_] < starts)
            wet[round_] = now
        self._wet = now
        return wet
