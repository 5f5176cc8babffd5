"""Generates traces: `market` (a stock exchange) and `servers` (a datacenter), one module each.

A trace depends on its seed alone, and a long trace begins with the rows of a short one. Read `servers` first, it is the simplest,
then `block_stream`, which writes the rows. The package exports what a package needs to add a kind of trace.
"""

from holdfast.trace.arrivals import Pace, arrivals
from holdfast.trace.block_stream import BLOCK, check_events, schema_of, strings, time_column, write_stream
from holdfast.trace.market import Market, write_market
from holdfast.trace.popularity import Floats, Ints, Popularity, zipf_weights
from holdfast.trace.seeds import check_seed, child
from holdfast.trace.servers import Servers, write_servers
from holdfast.trace.trace_files import RowGroups, check_free, explain_errors, flush
from holdfast.trace.trace_summary import Progress, RateMeter, TraceSummary, silent
