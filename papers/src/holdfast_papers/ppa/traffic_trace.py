"""The traffic trace: locations and incident reports of drivers, generated as in PPA, section VI-B, for its second query."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.errors import TraceError
from holdfast.trace import (
    Floats,
    Ints,
    Popularity,
    Progress,
    RateMeter,
    RowGroups,
    TraceSummary,
    check_events,
    check_free,
    check_seed,
    child,
    explain_errors,
    flush,
    schema_of,
    silent,
    time_column,
    zipf_weights,
)
from holdfast_papers.ppa.roads import Roads

START_US = 1_330_585_200_000_000  # 2012-03-01 07:00 UTC
FILES = ("locations.parquet", "incidents.parquet")
DWELL_S = 120.0  # mean time a driver stays on a segment
REPORT_S = 1.5  # mean time until a driver on the segment reports an incident, at most REPORT_LIMIT_S
REPORT_LIMIT_S = 8.0

_USER_AND_SEGMENT = (pa.field("user", pa.int64(), nullable=False), pa.field("segment", pa.int32(), nullable=False))
LOCATIONS = schema_of((*_USER_AND_SEGMENT, pa.field("speed", pa.float64(), nullable=False)))
INCIDENTS = schema_of(_USER_AND_SEGMENT)


@dataclass(frozen=True)
class Traffic:
    """`users` drivers on `segments` segments with Zipf popularity, `rate` locations per second, an incident every `every_s`."""

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
    """The reports between one incident and the next, each stream sorted by time."""

    location_us: Ints
    location_user: Ints
    location_segment: Ints
    speed: Floats
    report_us: Ints
    report_user: Ints
    report_segment: Ints


def steps(traffic: Traffic, seed: int) -> Iterator[Step]:
    """Yield the endless trace, one step per incident."""
    setup = child(seed, "roads")
    order = setup.permutation(traffic.segments)  # so that a segment's number does not depend on its rank
    weights = np.empty(traffic.segments)
    weights[order] = zipf_weights(traffic.segments, traffic.exponent)
    segments = Popularity(weights)
    segment_of_user = segments.draw(setup, traffic.users)
    reporting_order = setup.permutation(traffic.users)
    roads = Roads(setup, segments=traffic.segments, users=traffic.users)
    reported, late = 0.0, (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))
    for number in range(2**62):
        rng = child(seed, "traffic", number)
        begin_us = START_US + round(number * traffic.every_s * 1e6)
        span_us = round((number + 1) * traffic.every_s * 1e6) - round(number * traffic.every_s * 1e6)
        moving = np.flatnonzero(rng.random(traffic.users) < -np.expm1(-traffic.every_s / DWELL_S))
        segment_of_user[moving] = segments.draw(rng, len(moving))

        segment = int(segment_of_user[rng.integers(traffic.users)])  # of a random driver: in proportion to the drivers on it
        roads.add_incident(rng, segment, at_s=number * traffic.every_s)
        witnesses = np.flatnonzero(segment_of_user == segment)
        delay_us = (np.minimum(rng.exponential(REPORT_S, len(witnesses)), REPORT_LIMIT_S) * 1e6).astype(np.int64)
        reports = tuple(
            np.concatenate(pair)
            for pair in zip(late, (begin_us + delay_us, witnesses, np.full(len(witnesses), segment)), strict=True)
        )
        due = reports[0] < begin_us + span_us
        sequence = np.argsort(reports[0][due], kind="stable")
        late = (reports[0][~due], reports[1][~due], reports[2][~due])

        until = traffic.rate * traffic.every_s * (number + 1)
        count = int(until) - int(reported)
        who = reporting_order[np.arange(int(reported), int(until)) % traffic.users]
        reported = until
        at_us = begin_us + np.sort(rng.integers(span_us, size=count))
        reported_segment = segment_of_user[who]
        speed = roads.speed(rng, who, reported_segment, at_s=number * traffic.every_s)
        yield Step(at_us, who, reported_segment, speed, *(column[due][sequence] for column in reports))


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
) -> TraceSummary:
    """Write a traffic trace of `events` rows as a folder of two Parquet files and return its summary.

    The seq ascends by time over both locations.parquet and incidents.parquet.
    """
    traffic = Traffic(users=users, segments=segments, exponent=exponent, rate=rate, every_s=every_s)
    check_events(events)
    check_seed(seed)
    began, rows, incidents, rate_meter = time.perf_counter(), 0, 0, RateMeter()
    with _fresh_folder(Path(path), holds=FILES, force=force) as folder:
        with RowGroups(folder / FILES[0], LOCATIONS) as locations, RowGroups(folder / FILES[1], INCIDENTS) as reports:
            for step in steps(traffic, seed):
                both = np.concatenate((step.location_us, step.report_us))
                order = np.argsort(both, kind="stable")
                seq = np.empty(len(both), dtype=np.int64)
                seq[order] = np.arange(rows + 1, rows + 1 + len(both))
                wanted_rows = seq <= events
                location_rows, report_rows = wanted_rows[: len(step.location_us)], wanted_rows[len(step.location_us) :]
                locations.add(
                    pa.table(
                        {
                            "seq": seq[: len(location_rows)][location_rows],
                            "time": time_column(step.location_us[location_rows]),
                            "user": step.location_user[location_rows],
                            "segment": step.location_segment[location_rows],
                            "speed": step.speed[location_rows],
                        }
                    ).cast(LOCATIONS)
                )
                reports.add(
                    pa.table(
                        {
                            "seq": seq[len(location_rows) :][report_rows],
                            "time": time_column(step.report_us[report_rows]),
                            "user": step.report_user[report_rows],
                            "segment": step.report_segment[report_rows],
                        }
                    ).cast(INCIDENTS)
                )
                rate_meter.add(both[order][: int(wanted_rows.sum())])
                incidents += 1
                rows = min(events, rows + len(both))
                progress(rows)
                if rows == events:
                    break
        size_bytes = sum((folder / name).stat().st_size for name in FILES)
    statistics = rate_meter.statistics() | {"incidents": incidents}
    return TraceSummary("traffic", Path(path), seed, rows, time.perf_counter() - began, size_bytes, statistics)


@contextmanager
def _fresh_folder(path: Path, *, holds: Sequence[str], force: bool) -> Iterator[Path]:
    """Yield a hidden folder next to `path`, for the files named in `holds`. It becomes `path` when the block succeeds.

    With `force` it replaces an older trace, but never a folder with other files.
    """
    if path.exists() and not path.is_dir():
        raise TraceError(f"{path} is a file, and this trace is a folder with {' and '.join(holds)}: give another path")
    other_files = sorted(p.name for p in path.iterdir() if p.name not in holds) if path.is_dir() else []
    if other_files:
        raise TraceError(f"{path} has other files than those of a trace ({', '.join(other_files[:3])}): name a new folder")
    if not (path.is_dir() and not any(path.iterdir())):
        check_free(path, force)
    with explain_errors(path):
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        with explain_errors(path):
            new = part / "new"
            new.mkdir()
            yield new
            for name in holds:
                flush(new / name)
            flush(new)
            if path.exists():
                path.rename(part / "old")
            new.rename(path)
            flush(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)
