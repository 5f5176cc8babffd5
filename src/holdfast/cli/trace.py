"""holdfast trace: write generated traces."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from holdfast.cli.command_group import CommandGroup
from holdfast.terminal import progress_bar
from holdfast.trace import TraceSummary, write_market, write_servers

KINDS = {
    "market": ("holdfast.cli.trace:market", "Trades and quotes of a stock exchange, as one file."),
    "servers": ("holdfast.cli.trace:servers", "Reports of a datacenter's servers, as one file."),
}

Command = Callable[..., None]


@click.command(cls=CommandGroup, locations=KINDS, entry_point_group="holdfast.traces")
def trace() -> None:
    """Write a generated trace as Parquet, with the statistics of real ones.

    The same seed gives the same rows, and the first rows of a long trace are those of a short one. Packages may add kinds.

    \b
    Example:
      holdfast trace market --events 5000000 --seed 1 --out market.parquet
    """


def trace_options(command: Command) -> Command:
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


@click.command()
@trace_options
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
    write_trace(write_market, **options)


@click.command()
@trace_options
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
    write_trace(write_servers, **options)


def write_trace(write: Callable[..., TraceSummary], *, events: int, out: Path, as_json: bool, **options: Any) -> None:
    """Write a trace with `write`, show the progress, and print the summary."""
    with progress_bar("rows") as progress:
        summary = write(out, events=events, progress=lambda rows: progress(rows, events), **options)
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
