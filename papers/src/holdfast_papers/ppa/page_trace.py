"""The page trace: requests to the servers of a web site, like the World Cup 98 log that PPA's first query reads."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import TraceError
from holdfast.trace import (
    BLOCK,
    Floats,
    Ints,
    Pace,
    Popularity,
    Progress,
    TraceSummary,
    arrivals,
    child,
    silent,
    strings,
    time_column,
    write_stream,
    zipf_weights,
)

START_US = 899_215_800_000_000  # 1998-06-30 14:10 UTC: the day's mean rate, rising towards the first match
CROWD_EVERY_S, CROWD_S = 1200.0, 60.0
SHUFFLES_PER_S = 2.0
UNCHANGED = 0.2  # share of requests that the browser's cache answers: no bytes are sent


def match_day(time_s: Floats) -> Floats:
    """Return the relative rate at a time of day in seconds, UTC: a quiet night, and matches in the afternoon and evening."""
    hour = np.asarray(time_s) / 3600
    bumps = 2.1 * np.exp(-(((hour - 15.8) / 1.1) ** 2)) + 2.9 * np.exp(-(((hour - 20.4) / 1.1) ** 2))
    day = 0.18 * (1 - np.cos((hour - 4) / 24 * 2 * np.pi))
    return np.asarray((0.22 + day + bumps) / (0.22 + 0.18 + 5.0 * 1.1 * np.sqrt(np.pi) / 24), dtype=np.float64)


@dataclass(frozen=True)
class Pages:
    """A site of `pages` pages on `servers` servers. `rate` is the mean over a day, `peak` the most in a second."""

    rate: float = 870.0
    peak: float = 4500.0
    pages: int = 20_000
    servers: int = 30
    exponent: float = 1.0
    kind: str = field(default="pages", init=False)
    columns: tuple[pa.Field, ...] = field(
        default=(
            pa.field("page", pa.string(), nullable=False),
            pa.field("server", pa.int32(), nullable=False),
            pa.field("bytes", pa.int64(), nullable=False),
        ),
        init=False,
        repr=False,
    )

    def __post_init__(self) -> None:
        self.pace()
        if not 1 <= self.pages <= 10_000_000:
            raise TraceError(f"a site has 1 to 10000000 pages, not {self.pages}")
        if not 1 <= self.servers <= 100_000:
            raise TraceError(f"a site has 1 to 100000 servers, not {self.servers}")
        if not 0 <= self.exponent <= 5:
            raise TraceError(f"the Zipf exponent of the pages lies between 0 and 5, not {self.exponent:g}")

    def pace(self) -> Pace:
        return Pace(self.rate, self.peak, burst_every_s=CROWD_EVERY_S, burst_s=CROWD_S, rhythm=match_day)

    def blocks(self, seed: int) -> Iterator[pa.Table]:
        setup = child(seed, "site")
        names = pa.array([f"/page/{k:05d}.html" for k in range(self.pages)])
        ranking = setup.permutation(self.pages)
        sizes = np.ceil(np.exp(setup.normal(np.log(4000), 1.3, self.pages))).astype(np.int64)
        page_ranks = Popularity(zipf_weights(self.pages, self.exponent))
        server_shares = Popularity(setup.permutation(np.exp(setup.normal(0.0, 0.5, self.servers))))
        for number, arrived in enumerate(arrivals(self.pace(), seed=seed, start_us=START_US, size=BLOCK)):
            rng = child(seed, "pages", number)
            page = ranking[page_ranks.draw(rng, BLOCK)]
            crowd = arrived.burst >= 0
            page[crowd] = _crowd_pages(seed, arrived.burst[crowd], self.pages)
            size_bytes = np.where(rng.random(BLOCK) < UNCHANGED, 0, sizes[page])
            yield pa.table(
                {
                    "time": time_column(arrived.time_us),
                    "page": strings(page, names),
                    "server": pa.array(server_shares.draw(rng, BLOCK).astype(np.int32)),
                    "bytes": pa.array(size_bytes),
                }
            )
            span_s = (arrived.time_us[-1] - arrived.time_us[0]) / 1e6
            _shuffle(rng, ranking, rng.poisson(SHUFFLES_PER_S * span_s))

    def count(self, table: pa.Table) -> dict[str, int]:
        return {"unsent": pc.sum(pc.equal(table["bytes"], 0)).as_py()}


def write_pages(
    path: str | Path,
    *,
    events: int,
    seed: int,
    rate: float = 870.0,
    peak: float = 4500.0,
    pages: int = 20_000,
    servers: int = 30,
    exponent: float = 1.0,
    force: bool = False,
    progress: Progress = silent,
) -> TraceSummary:
    """Write a trace of `events` page requests as one Parquet file and return its summary."""
    site = Pages(rate=rate, peak=peak, pages=pages, servers=servers, exponent=exponent)
    return write_stream(site, Path(path), events=events, seed=seed, force=force, progress=progress)


def _crowd_pages(seed: int, burst: Ints, pages: int) -> Ints:
    """Return the page that each flash crowd requests: one random page per burst."""
    crowds, which = np.unique(burst, return_inverse=True)
    target = [child(seed, "crowd", int(crowd)).integers(pages) for crowd in crowds]
    return np.asarray(target, dtype=np.int64)[which]


def _shuffle(rng: np.random.Generator, ranking: Ints, swaps: int) -> None:
    """Swap pages of similar ranks, in place. The distance is about a third of the rank, so that new pages reach the top too."""
    count = len(ranking)
    rank = np.exp(rng.random(swaps) * np.log(count)).astype(np.int64).clip(1, count) - 1
    other = ((rank + 1) * np.exp(rng.normal(0.0, 0.3, swaps))).round().astype(np.int64).clip(1, count) - 1
    for a, b in zip(rank.tolist(), other.tolist(), strict=True):
        ranking[a], ranking[b] = ranking[b], ranking[a]
