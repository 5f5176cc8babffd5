"""The market trace: trades and quotes of a stock exchange, with the statistics of DEBS'11, section 6.2."""

import itertools
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import TraceError
from holdfast.trace.arrivals import Pace, arrivals
from holdfast.trace.block_stream import BLOCK, strings, time_column, write_stream
from holdfast.trace.news import News
from holdfast.trace.popularity import Floats, Ints, Popularity, zipf_weights
from holdfast.trace.prices import OFTEN_S, Walks, list_tickers
from holdfast.trace.seeds import child
from holdfast.trace.trace_summary import Progress, TraceSummary, silent

START_US = 1_133_447_400_000_000  # 2005-12-01 14:30 UTC, when the exchange opens
TRADE_EXPONENT, QUOTE_EXPONENT, SHIFT = 1.3, 1.1, 20.0  # quotes reach the rarely traded tickers more often than trades do
REPEAT = 0.3  # share of tuples with the same ticker as the one before: parts of one order
LOT, LOTS = 100, 1.8  # sizes are round lots; LOTS is the median number of lots
VOLUME_SPREAD, ASK_SPREAD = 1.4, 1.2  # standard deviations of the log sizes: a few trades outweigh the rest
DEPTH = 0.3  # exponent by which ask sizes shrink for tickers that trade more rarely than OFTEN_S


@dataclass(frozen=True)
class Market:
    """A market of `tickers` tickers. `rate` and `peak` are in tuples per second, and `quotes` is the share of quotes."""

    rate: float = 500.0
    peak: float = 2200.0
    tickers: int = 3000
    quotes: float = 0.8
    kind: str = field(default="market", init=False)
    columns: tuple[pa.Field, ...] = field(
        default=(
            pa.field("ticker", pa.string(), nullable=False),
            pa.field("kind", pa.string(), nullable=False),
            pa.field("price", pa.float64()),
            pa.field("volume", pa.int64()),
            pa.field("ask_price", pa.float64()),
            pa.field("ask_size", pa.int64()),
        ),
        init=False,
        repr=False,
    )

    def __post_init__(self) -> None:
        Pace(self.rate, self.peak)
        if not 1 <= self.tickers <= 26**4:
            raise TraceError(f"a market has 1 to {26**4} tickers, not {self.tickers}")
        if not 0 < self.quotes < 1:
            raise TraceError(f"the share of quotes lies between 0 and 1, not {self.quotes:g}")

    def blocks(self, seed: int) -> Iterator[pa.Table]:
        setup = child(seed, "listing")
        shares = zipf_weights(self.tickers, TRADE_EXPONENT, shift=SHIFT)
        between_s = 1 / (shares * self.rate * (1 - self.quotes))
        tickers = list_tickers(setup, between_s)
        depth = np.minimum(OFTEN_S / between_s, 1.0) ** DEPTH
        names, kinds = _symbols(setup, self.tickers), pa.array(["quote", "trade"])
        trade_popularity, quote_popularity = Popularity(shares), Popularity(zipf_weights(self.tickers, QUOTE_EXPONENT, shift=SHIFT))
        walks, news = Walks(tickers), News(self.tickers)
        pace = Pace(self.rate, self.peak)
        for number, arrival in enumerate(arrivals(pace, seed=seed, start_us=START_US, size=BLOCK)):
            rng = child(seed, "market", number)
            trade = rng.random(BLOCK) >= self.quotes
            ticker = np.empty(BLOCK, dtype=np.int64)
            ticker[trade] = _in_runs(rng, trade_popularity.draw(rng, int(trade.sum())))
            ticker[~trade] = _in_runs(rng, quote_popularity.draw(rng, int((~trade).sum())))
            jump = news.insert(rng, ticker, np.flatnonzero(trade), arrival.clock)
            mid, half = walks.mid(rng, ticker, arrival.clock, jump), tickers.half_spread[ticker]
            price = _cents(mid * (1 + half * rng.uniform(-0.5, 0.5, BLOCK)))
            ask = _cents(mid * (1 + half * rng.gamma(6.0, 1 / 6.0, BLOCK)))
            volume = _shares(rng, np.full(BLOCK, LOTS), VOLUME_SPREAD)
            size = _shares(rng, LOTS * depth[ticker], ASK_SPREAD)
            yield pa.table(
                {
                    "time": time_column(arrival.time_us),
                    "ticker": strings(ticker, names),
                    "kind": strings(trade.astype(np.int64), kinds),
                    "price": pa.array(price, mask=~trade),
                    "volume": pa.array(volume, mask=~trade),
                    "ask_price": pa.array(ask, mask=trade),
                    "ask_size": pa.array(size, mask=trade),
                }
            )

    def count(self, table: pa.Table) -> dict[str, int]:
        return {"quote": pc.sum(pc.equal(table["kind"], "quote")).as_py()}


def write_market(
    path: str | Path,
    *,
    events: int,
    seed: int,
    rate: float = 500.0,
    peak: float = 2200.0,
    tickers: int = 3000,
    quotes: float = 0.8,
    force: bool = False,
    progress: Progress = silent,
) -> TraceSummary:
    """Write a market trace of `events` rows as one Parquet file and return its summary."""
    market = Market(rate=rate, peak=peak, tickers=tickers, quotes=quotes)
    return write_stream(market, Path(path), events=events, seed=seed, force=force, progress=progress)


def _symbols(rng: np.random.Generator, count: int) -> pa.Array:
    """Return distinct symbols of three letters, or of four if three do not suffice, in random order."""
    letters = 3 if count <= 26**3 else 4
    symbols = ["".join(s) for s in itertools.product(string.ascii_uppercase, repeat=letters)]
    return pa.array([symbols[k] for k in rng.choice(len(symbols), size=count, replace=False)])


def _in_runs(rng: np.random.Generator, ticker: Ints) -> Ints:
    """Return the tickers, of which some repeat the ticker before them."""
    fresh = np.where(rng.random(len(ticker)) >= REPEAT, np.arange(len(ticker)), 0)
    return ticker[np.maximum.accumulate(fresh)]


def _cents(price: Floats) -> Floats:
    return np.asarray(np.maximum(np.round(price, 2), 0.01), dtype=np.float64)


def _shares(rng: np.random.Generator, lots: Floats, spread: float) -> Ints:
    """Return numbers of shares: round lots with the medians `lots`, most of them small, a few very large."""
    return LOT * np.ceil(lots * np.exp(rng.normal(0.0, spread, len(lots)))).astype(np.int64)
