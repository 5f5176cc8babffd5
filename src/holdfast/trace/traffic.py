"""Locations and incident reports of drivers, made as PPA, section VI-B, makes them for its second query."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.errors import TraceError
from holdfast.trace.block_stream import check_events, schema_of, time_column
from holdfast.trace.popularity import Floats, Ints, Popularity, zipf_weights
from holdfast.trace.roads import Roads
from holdfast.trace.seeds import check_seed, child
from holdfast.trace.trace_account import Progress, RateMeter, Written, silent
from holdfast.trace.trace_files import RowGroups, fresh_folder

START_US = 1_330_585_200_000_000  # 2012-03-01 07:00 UTC
FILES = ("locations.parquet", "incidents.parquet")
DWELL_S = 120.0  # mean time a driver stays on a segment
REPORT_S = 1.5  # mean time until a driver on the segment reports an incident; all have done so after REPORT_LIMIT_S
REPORT_LIMIT_S = 8.0

_WHERE = (pa.field("user", pa.int64(), nullable=False), pa.field("segment", pa.int32(), nullable=False))
LOCATIONS = schema_of((*_WHERE, pa.field("speed", pa.float64(), nullable=False)))
INCIDENTS = schema_of(_WHERE)


@dataclass(frozen=True)
class Traffic:
    """`users` drivers on `segments` segments, by a Zipf law; `rate` locations per second, an incident every `every_s`."""

    users: int = 100_000
    segments: int = 1000
    exponent: float = 0.5
    rate: float = 20_000.0
    every_s: float = 2.0

    def __post_init__(self) -> None:
        if not 1 <= self.segments <= 1_000_000:
            raise TraceError(f"traffic has 1 to 1000000 segments, not {self.segments}")
        if not 1 <= self.users <= 100_000_000:
            raise TraceError(f"traffic has 1 to 100000000 users, not {self.users}")
        if not 0 <= self.exponent <= 5:
            raise TraceError(f"the Zipf exponent of the segments lies between 0 and 5, not {self.exponent:g}")
        if not 0 < self.rate <= 1e7:
            raise TraceError(f"the rate of locations is above 0 and at most 10000000 per second, not {self.rate:g}")
        if not 0.01 <= self.every_s <= 3600:
            raise TraceError(f"an incident happens every 0.01 to 3600 seconds, not every {self.every_s:g}")


@dataclass(frozen=True)
class Step:
    """What is reported between one incident and the next, each stream in order of time."""

    location_us: Ints
    location_user: Ints
    location_segment: Ints
    speed: Floats
    report_us: Ints
    report_user: Ints
    report_segment: Ints


def steps(traffic: Traffic, seed: int) -> Iterator[Step]:
    """The trace without end, one step per incident."""
    setup = child(seed, "roads")
    order = setup.permutation(traffic.segments)  # so that a segment's number says nothing of its rank
    weights = np.empty(traffic.segments)
    weights[order] = zipf_weights(traffic.segments, traffic.exponent)
    place = Popularity(weights)
    where = place.draw(setup, traffic.users)
    turn = setup.permutation(traffic.users)
    roads = Roads(setup, segments=traffic.segments, users=traffic.users)
    said, late = 0.0, (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    for number in range(2**62):
        rng = child(seed, "traffic", number)
        begin_us = START_US + round(number * traffic.every_s * 1e6)
        span_us = round((number + 1) * traffic.every_s * 1e6) - round(number * traffic.every_s * 1e6)
        moving = np.flatnonzero(rng.random(traffic.users) < -np.expm1(-traffic.every_s / DWELL_S))
        where[moving] = place.draw(rng, len(moving))

        segment = int(where[rng.integers(traffic.users)])  # a random driver's: in proportion to the drivers on it
        roads.strike(rng, segment, at_s=number * traffic.every_s)
        witnesses = np.flatnonzero(where == segment)
        delay_us = (np.minimum(rng.exponential(REPORT_S, len(witnesses)), REPORT_LIMIT_S) * 1e6).astype(np.int64)
        reports = tuple(
            np.concatenate(pair)
            for pair in zip(late, (begin_us + delay_us, witnesses, np.full(len(witnesses), segment)), strict=True)
        )
        due = reports[0] < begin_us + span_us
        sequence = np.argsort(reports[0][due], kind="stable")
        late = (reports[0][~due], reports[1][~due], reports[2][~due])

        until = traffic.rate * traffic.every_s * (number + 1)
        count = int(until) - int(said)
        who = turn[np.arange(int(said), int(until)) % traffic.users]
        said = until
        at_us = begin_us + np.sort(rng.integers(span_us, size=count))
        on = where[who]
        speed = roads.speed(rng, who, on, at_s=number * traffic.every_s)
        yield Step(at_us, who, on, speed, *(column[due][sequence] for column in reports))


def write_traffic(
    path: str | Path,
    *,
    events: int,
    seed: int,
    users: int = 100_000,
    segments: int = 1000,
    exponent: float = 0.5,
    rate: float = 20_000.0,
    every_s: float = 2.0,
    force: bool = False,
    progress: Progress = silent,
) -> Written:
    """Writes a traffic trace as a folder of two Parquet files with `events` rows in all; returns the account of it.

    locations.parquet and incidents.parquet share one count `seq`, by time over both.
    """
    traffic = Traffic(users=users, segments=segments, exponent=exponent, rate=rate, every_s=every_s)
    check_events(events)
    check_seed(seed)
    began, rows, incidents, rate_meter = time.perf_counter(), 0, 0, RateMeter()
    with fresh_folder(Path(path), holds=FILES, force=force) as folder:
        with RowGroups(folder / FILES[0], LOCATIONS) as locations, RowGroups(folder / FILES[1], INCIDENTS) as reports:
            for step in steps(traffic, seed):
                both = np.concatenate((step.location_us, step.report_us))
                order = np.argsort(both, kind="stable")
                seq = np.empty(len(both), dtype=np.int64)
                seq[order] = np.arange(rows + 1, rows + 1 + len(both))
                kept = seq <= events
                here, there = kept[: len(step.location_us)], kept[len(step.location_us) :]
                locations.add(
                    pa.table(
                        {
                            "seq": seq[: len(here)][here],
                            "time": time_column(step.location_us[here]),
                            "user": step.location_user[here],
                            "segment": step.location_segment[here],
                            "speed": step.speed[here],
                        }
                    ).cast(LOCATIONS)
                )
                reports.add(
                    pa.table(
                        {
                            "seq": seq[len(here) :][there],
                            "time": time_column(step.report_us[there]),
                            "user": step.report_user[there],
                            "segment": step.report_segment[there],
                        }
                    ).cast(INCIDENTS)
                )
                rate_meter.add(both[order][: int(kept.sum())])
                incidents += 1
                rows = min(events, rows + len(both))
                progress(rows)
                if rows == events:
                    break
        size_bytes = sum((folder / name).stat().st_size for name in FILES)
    statistics = rate_meter.statistics() | {"incidents": incidents}
    return Written("traffic", Path(path), seed, rows, time.perf_counter() - began, size_bytes, statistics)
