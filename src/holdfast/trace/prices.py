"""Prices of many tickers at the times of their tuples: one market factor, one random walk per ticker."""

from dataclasses import dataclass

import numpy as np

from holdfast.trace.popularity import Floats, Ints

YEAR_S = 252 * 23_400  # seconds of trading


@dataclass(frozen=True)
class Listing:
    """The tickers' constants, by rank: first price, volatility of one clock second, exposure to the market, half-spread."""

    price: Floats
    volatility: Floats
    beta: Floats
    half_spread: Floats


def list_tickers(rng: np.random.Generator, count: int) -> Listing:
    """Tickers whose constants have the spread of a real exchange's. Rarely traded ones have wider spreads."""
    rank = np.arange(count) / count
    annual = np.exp(rng.normal(np.log(0.45), 0.35, count))
    return Listing(
        price=np.exp(rng.normal(np.log(28.0), 0.7, count)).clip(1.0, 400.0),
        volatility=annual / np.sqrt(YEAR_S),
        beta=rng.normal(1.0, 0.3, count),
        half_spread=np.exp(rng.normal(np.log(4e-4), 0.4, count)) * (1 + 3 * rank),
    )


class Walks:
    """The log prices of all tickers, moved on to each tuple in turn. Time is the arrivals' clock."""

    def __init__(self, listing: Listing, *, market_volatility: float) -> None:
        self._listing, self._market_volatility = listing, market_volatility
        self._log_price = np.log(listing.price)
        self._at = np.zeros(len(listing.price))
        self._market, self._now = 0.0, 0.0

    def mid(self, rng: np.random.Generator, ticker: Ints, clock: Floats) -> Floats:
        """The price of ticker[k] at clock[k], for ascending clocks that go on where the last call stopped."""
        steps = np.sqrt(np.diff(clock, prepend=self._now)) * self._market_volatility
        market = self._market + np.cumsum(steps * rng.standard_normal(len(clock)))
        self._market, self._now = float(market[-1]), float(clock[-1])
        own = self._own(rng, ticker, clock)
        return np.asarray(np.exp(own + self._listing.beta[ticker] * market), dtype=np.float64)

    def _own(self, rng: np.random.Generator, ticker: Ints, clock: Floats) -> Floats:
        """Each ticker's own walk: grouped by ticker, a running sum of steps as long as the time between its tuples."""
        order = np.argsort(ticker.astype(np.uint16 if len(self._at) <= 1 << 16 else np.int64), kind="stable")
        who, at = ticker[order], clock[order]
        first = np.flatnonzero(np.diff(who, prepend=-1))
        since = np.diff(at, prepend=0.0)
        since[first] = at[first] - self._at[who[first]]
        moved = np.cumsum(np.sqrt(since) * self._listing.volatility[who] * rng.standard_normal(len(who)))
        before = np.concatenate(([0.0], moved))[first]
        sizes = np.diff(first, append=len(who))
        level = moved + np.repeat(self._log_price[who[first]] - before, sizes)
        last = first + sizes - 1
        self._log_price[who[last]], self._at[who[last]] = level[last], at[last]
        own = np.empty(len(level))
        own[order] = level
        return own
