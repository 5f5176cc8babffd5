"""Recorded streams: generators of traces with the statistics of the papers' traces."""

from holdfast.trace.market import Market, write_market
from holdfast.trace.pages import Pages, write_pages
from holdfast.trace.servers import Servers, write_servers
from holdfast.trace.trace_account import Written
from holdfast.trace.traffic import Traffic, write_traffic

__all__ = [
    "Market",
    "Pages",
    "Servers",
    "Traffic",
    "Written",
    "write_market",
    "write_pages",
    "write_servers",
    "write_traffic",
]
