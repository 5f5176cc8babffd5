"""Generates traces with the statistics of the papers' traces: `market`, `pages`, `servers` and `traffic`, one module each.

A trace depends on its seed alone, and a long trace begins with the rows of a short one. Read `servers` first, it is the simplest,
then `block_stream`, which writes the rows.
"""

from holdfast.trace.market import Market, write_market
from holdfast.trace.pages import Pages, write_pages
from holdfast.trace.servers import Servers, write_servers
from holdfast.trace.trace_summary import TraceSummary
from holdfast.trace.traffic import Traffic, write_traffic

__all__ = [
    "Market",
    "Pages",
    "Servers",
    "TraceSummary",
    "Traffic",
    "write_market",
    "write_pages",
    "write_servers",
    "write_traffic",
]
