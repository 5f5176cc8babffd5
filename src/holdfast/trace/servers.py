"""The server trace: reports of a datacenter's servers, which the application of ISORC'16, section V, monitors."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import TraceError
from holdfast.trace.block_stream import BLOCK, strings, time_column, write_stream
from holdfast.trace.seeds import child
from holdfast.trace.server_fleet import Fleet
from holdfast.trace.trace_summary import Progress, TraceSummary, silent

START_US = 1_397_088_000_000_000  # 2014-04-10 00:00 UTC
JITTER = 0.1  # of the interval, to either side


@dataclass(frozen=True)
class Servers:
    """A datacenter of `servers` servers in racks of `rack_size`, each reporting every `interval_s` seconds."""

    servers: int = 200
    rack_size: int = 20
    interval_s: float = 5.0
    kind: str = field(default="servers", init=False)
    columns: tuple[pa.Field, ...] = field(
        default=(
            pa.field("server", pa.string(), nullable=False),
            pa.field("rack", pa.string(), nullable=False),
            *(pa.field(name, pa.float64(), nullable=False) for name in ("cpu", "memory", "disk", "network")),
            *(pa.field(name, pa.int64(), nullable=False) for name in ("requests", "errors")),
        ),
        init=False,
        repr=False,
    )

    def __post_init__(self) -> None:
        if not 1 <= self.servers <= 1_000_000:
            raise TraceError(f"a datacenter has 1 to 1000000 servers, not {self.servers}")
        if self.rack_size < 1:
            raise TraceError(f"a rack holds at least 1 server, not {self.rack_size}")
        if not 0.001 <= self.interval_s <= 86_400:
            raise TraceError(f"servers report every 0.001 to 86400 seconds, not every {self.interval_s:g}")

    def blocks(self, seed: int) -> Iterator[pa.Table]:
        setup = child(seed, "datacenter")
        racks = -(-self.servers // self.rack_size)
        server_names = pa.array([f"server-{k:04d}" for k in range(self.servers)])
        rack_names = pa.array([f"rack-{k:03d}" for k in range(racks)])
        phase = setup.uniform(JITTER, 1 - JITTER, self.servers)
        fleet = Fleet(setup, servers=self.servers, interval_s=self.interval_s)
        rounds = max(1, BLOCK // self.servers)
        for number, first in enumerate(range(0, 2**62, rounds)):
            rng = child(seed, "servers", number)
            jitter = rng.uniform(-JITTER, JITTER, (rounds, self.servers))
            round_number = np.arange(first, first + rounds)[:, np.newaxis]
            time_us = START_US + ((round_number + phase + jitter) * self.interval_s * 1e6).astype(np.int64)
            metrics = fleet.observe(rng, time_us)
            order = np.argsort(time_us, axis=None, kind="stable")
            server = order % self.servers
            yield pa.table(
                {
                    "time": time_column(time_us.ravel()[order]),
                    "server": strings(server, server_names),
                    "rack": strings(server // self.rack_size, rack_names),
                    **{name: pa.array(values.ravel()[order]) for name, values in metrics.items()},
                }
            )

    def count(self, table: pa.Table) -> dict[str, int]:
        return {"quiet": pc.sum(pc.equal(table["errors"], 0)).as_py()}


def write_servers(
    path: str | Path,
    *,
    events: int,
    seed: int,
    servers: int = 200,
    rack_size: int = 20,
    interval_s: float = 5.0,
    force: bool = False,
    progress: Progress = silent,
) -> TraceSummary:
    """Write a trace of `events` server reports as one Parquet file and return its summary."""
    datacenter = Servers(servers=servers, rack_size=rack_size, interval_s=interval_s)
    return write_stream(datacenter, Path(path), events=events, seed=seed, force=force, progress=progress)
