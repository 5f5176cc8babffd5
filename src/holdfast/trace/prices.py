"""Prices of many tickers at the times of their tuples: a common market factor, one random walk per ticker, and news."""

from dataclasses import dataclass

import numpy as np

from holdfast.trace.popularity import Floats, Ints

VOLATILITY = 4e-4  # per second, of a ticker that trades often
OFTEN_S = 5.0  # tickers with longer gaps between trades move less: by (OFTEN_S / gap)^CALM
CALM = 0.75
MARKET_VOLATILITY = 8e-5
WIDTH, WIDENING = 1.0, 0.42  # half-spread per move in a second: WIDTH * (seconds between trades)^WIDENING
TICK = 1e-4  # least half-spread
AVERAGE_LAG = 1.7  # lag of the mean of the last five trades, in trades: 0.5 since the last, 1.2 among the five


@dataclass(frozen=True)
class Listing:
    """The constants of the tickers, by rank: first price, volatility per clock second, exposure to the market, half-spread."""

    price: Floats
    volatility: Floats
    beta: Floats
    half_spread: Floats


def list_tickers(rng: np.random.Generator, between_s: Floats) -> Listing:
    """Return random tickers that trade every `between_s` seconds on average.

    A half-spread is about the price's move from trade to trade, by which sellers protect themselves from better informed buyers. So
    an ask is below the average of the last five trades only if the price has moved away from them, and an outdated average yields
    false bargains.
    """
    count = len(between_s)
    volatility = VOLATILITY * np.minimum(OFTEN_S / between_s, 1.0) ** CALM * np.exp(rng.normal(0.0, 0.3, count))
    moves = np.hypot(volatility, MARKET_VOLATILITY) * np.sqrt(AVERAGE_LAG)
    return Listing(
        price=np.exp(rng.normal(np.log(28.0), 0.7, count)).clip(1.0, 1000.0),
        volatility=volatility,
        beta=rng.normal(1.0, 0.3, count),
        half_spread=(WIDTH * moves * between_s**WIDENING + TICK) * np.exp(rng.normal(0.0, 0.2, count)),
    )


class Walks:
    """The log prices of all tickers, advanced to the time of each tuple. The time is the arrivals' clock."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._log_price = np.log(listing.price)
        self._at = np.zeros(len(listing.price))
        self._market, self._now = 0.0, 0.0

    def mid(self, rng: np.random.Generator, ticker: Ints, clock: Floats, jump: Floats) -> Floats:
        """Return the price of ticker[k] at clock[k]. The clock ascends and continues where the last call stopped.

        jump[k] is added to the log price of ticker[k] just before its k-th tuple.
        """
        steps = np.sqrt(np.diff(clock, prepend=self._now)) * MARKET_VOLATILITY
        market = self._market + np.cumsum(steps * rng.standard_normal(len(clock)))
        self._market, self._now = float(market[-1]), float(clock[-1])
        own = self._own(rng, ticker, clock, jump)
        return np.asarray(np.exp(own + self._listing.beta[ticker] * market), dtype=np.float64)

    def _own(self, rng: np.random.Generator, ticker: Ints, clock: Floats, jump: Floats) -> Floats:
        """Return each ticker's own walk: for each ticker, a running sum of steps as long as the time between its tuples."""
        order = np.argsort(ticker.astype(np.uint16 if len(self._at) <= 1 << 16 else np.int64), kind="stable")
        who, at = ticker[order], clock[order]
        first = np.flatnonzero(np.diff(who, prepend=-1))
        since = np.diff(at, prepend=0.0)
        since[first] = at[first] - self._at[who[first]]
        moved = np.cumsum(np.sqrt(since) * self._listing.volatility[who] * rng.standard_normal(len(who)) + jump[order])
        before = np.concatenate(([0.0], moved))[first]
        sizes = np.diff(first, append=len(who))
        level = moved + np.repeat(self._log_price[who[first]] - before, sizes)
        last = first + sizes - 1
        self._log_price[who[last]], self._at[who[last]] = level[last], at[last]
        own = np.empty(len(level))
        own[order] = level
        return own
