"""The commands `holdfast trace pages` and `holdfast trace traffic`: traces for PPA's two queries."""

from typing import Any

import click

from holdfast.cli import trace_options, write_trace
from holdfast_papers.ppa.page_trace import write_pages
from holdfast_papers.ppa.traffic_trace import write_traffic


@click.command()
@trace_options
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
    write_trace(write_pages, **options)


@click.command()
@trace_options
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
    write_trace(write_traffic, **options)
