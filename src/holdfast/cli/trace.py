"""holdfast trace: write generated traces."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.trace import TraceSummary, write_market, write_pages, write_servers, write_traffic

LINE_EVERY_S = 10.0

Command = Callable[..., None]


@click.group()
def trace() -> None:
    """Write a generated trace as Parquet, with the statistics of the papers' traces.

    The same seed gives the same rows, and the first rows of a long trace are those of a short one.

    \b
    Example:
      holdfast trace market --events 5000000 --seed 1 --out market.parquet
    """


def _common(command: Command) -> Command:
    """Add the options that every kind of trace takes."""
    for option in reversed(
        (
            click.option("--events", type=int, required=True, help="Number of rows to write, at least 1."),
            click.option("--seed", type=int, default=1, show_default=True, help="Seed of all random choices, from 0."),
            click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to write the trace."),
            click.option("--force", is_flag=True, help="Replace an existing trace."),
            click.option("--json", "as_json", is_flag=True, help="Print a summary as one JSON document on stdout."),
        )
    ):
        command = option(command)
    return command


@trace.command()
@_common
@click.option("--rate", type=float, default=500.0, show_default=True, help="Mean number of tuples per second.")
@click.option("--peak", type=float, default=2200.0, show_default=True, help="Most tuples in any second.")
@click.option("--tickers", type=int, default=3000, show_default=True, help="Number of tickers.")
@click.option("--quotes", type=float, default=0.8, show_default=True, help="Share of quotes; the rest are trades.")
def market(**options: Any) -> None:
    """Trades and quotes of a stock exchange, as one file.

    Columns: seq, time, ticker, kind (trade or quote), price, volume (of trades), ask_price, ask_size (of quotes).

    \b
    Example:
      holdfast trace market --events 5000000 --seed 1 --out market.parquet
    """
    _write(write_market, **options)


@trace.command()
@_common
@click.option("--rate", type=float, default=870.0, show_default=True, help="Mean number of requests per second of a day.")
@click.option("--peak", type=float, default=4500.0, show_default=True, help="Most requests in any second.")
@click.option("--pages", type=int, default=20_000, show_default=True, help="Number of pages.")
@click.option("--servers", type=int, default=30, show_default=True, help="Number of servers.")
@click.option("--exponent", type=float, default=1.0, show_default=True, help="Zipf exponent of the pages' popularity.")
def pages(**options: Any) -> None:
    """Page requests to the servers of a web site, as one file.

    Columns: seq, time, page, server, bytes.

    \b
    Example:
      holdfast trace pages --events 1000000 --seed 1 --out pages.parquet
    """
    _write(write_pages, **options)


@trace.command()
@_common
@click.option("--users", type=int, default=100_000, show_default=True, help="Number of drivers.")
@click.option("--segments", type=int, default=1000, show_default=True, help="Number of road segments.")
@click.option("--exponent", type=float, default=0.5, show_default=True, help="Zipf exponent of drivers per segment.")
@click.option("--rate", type=float, default=20_000.0, show_default=True, help="Locations per second.")
@click.option("--every", "every_s", type=float, default=2.0, show_default=True, help="Seconds between two incidents.")
def traffic(**options: Any) -> None:
    """Locations and incident reports of drivers, as a folder of two files.

    Columns of locations.parquet: seq, time, user, segment, speed (km/h); of incidents.parquet: seq, time, user, segment.
    Both share one seq, by time; --events counts the rows of both.

    \b
    Example:
      holdfast trace traffic --events 2000000 --seed 1 --out traffic
    """
    _write(write_traffic, **options)


@trace.command()
@_common
@click.option("--servers", type=int, default=200, show_default=True, help="Number of servers.")
@click.option("--rack-size", type=int, default=20, show_default=True, help="Servers per rack.")
@click.option("--interval", "interval_s", type=float, default=5.0, show_default=True, help="Seconds between two reports.")
def servers(**options: Any) -> None:
    """Reports of a datacenter's servers, as one file.

    Columns: seq, time, server, rack, cpu, memory, disk (percent), network (bytes per second), requests, errors (since the
    last report).

    \b
    Example:
      holdfast trace servers --events 1000000 --seed 1 --out servers.parquet
    """
    _write(write_servers, **options)


def _write(write: Callable[..., TraceSummary], *, events: int, out: Path, as_json: bool, **options: Any) -> None:
    with _show_progress(events) as progress:
        summary = write(out, events=events, progress=progress, **options)
    if as_json:
        click.echo(json.dumps(summary.document(), indent=2))
    else:
        click.echo(_sentence(summary), err=True)


def _sentence(summary: TraceSummary) -> str:
    """Return the summary as one line of text."""
    rate, peak = summary.statistics["rate_mean"], summary.statistics["rate_peak"]
    return (
        f"{summary.path}: {summary.rows:,} rows, {summary.size_bytes / 1e6:,.1f} MB, in {summary.seconds:.1f} s; "
        f"{rate:,.0f} tuples/s on average, {peak:,.0f} at the peak"
    )


@contextmanager
def _show_progress(events: int) -> Iterator[Callable[[int], None]]:
    """Show progress on stderr: a bar on a terminal, otherwise a line every LINE_EVERY_S."""
    if sys.stderr.isatty():
        columns = (TextColumn("writing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("rows", total=events)
            yield lambda rows: bar.update(task, completed=rows)
    else:
        yield _Lines(events, time.monotonic)


class _Lines:
    """Prints progress as lines with the time left."""

    def __init__(self, events: int, clock: Callable[[], float]) -> None:
        self._events, self._clock, self._began = events, clock, clock()
        self._next_s = LINE_EVERY_S

    def __call__(self, rows: int) -> None:
        spent_s = self._clock() - self._began
        if spent_s >= self._next_s and rows < self._events:
            left_s = spent_s * (self._events - rows) / rows
            click.echo(f"{rows:,} of {self._events:,} rows, about {left_s:,.0f} s left", err=True)
            self._next_s = spent_s + LINE_EVERY_S
