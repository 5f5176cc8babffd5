"""News: a ticker's price jumps, and the ticker trades several times within seconds and a few times more within minutes."""

import heapq

import numpy as np

from holdfast.trace.popularity import Floats, Ints

PER_S = 0.006  # for all tickers together; a rarely traded ticker has news as often as any other
JUMP = 0.03  # standard deviation of the change of the log price
BOUT, BOUT_GAP = 5, 10  # at least BOUT trades at once, every BOUT_GAP trades of the market or so
ECHOES, ECHO_GAP = 1, 10_000  # then ECHOES trades, every ECHO_GAP trades of the market or so


class News:
    """The news of a market of `tickers` tickers, block by block.

    So a rarely traded ticker changes its price, trades five times and is then quiet for long. An application that loses those
    trades continues with the old price: until the next echo if only the average was lost, until five new trades otherwise.
    """

    def __init__(self, tickers: int) -> None:
        self._tickers, self._trades_done = tickers, 0
        self._echoes: list[tuple[int, int]] = []

    def insert(self, rng: np.random.Generator, ticker: Ints, trades: Ints, clock: Floats) -> Floats:
        """Change the tickers of some of the rows `trades`, and return what the news add to the log price at each row."""
        jump = np.zeros(len(ticker))
        for _ in range(rng.poisson(PER_S * (clock[-1] - clock[0])) if len(trades) else 0):
            subject, size, count = int(rng.integers(self._tickers)), rng.normal(0.0, JUMP), BOUT - 1 + rng.geometric(0.5)
            bout = rng.integers(len(trades)) + np.cumsum(rng.geometric(1 / BOUT_GAP, count)) - 1
            later = bout[-1] + np.cumsum(rng.geometric(1 / ECHO_GAP, ECHOES))
            for place in (self._trades_done + np.concatenate((bout[bout >= len(trades)], later))).tolist():
                heapq.heappush(self._echoes, (place, subject))
            rows = trades[bout[bout < len(trades)]]
            if len(rows):
                ticker[rows] = subject
                jump[rows[0]] += size
        self._insert_echoes(ticker, trades)
        self._trades_done += len(trades)
        return jump

    def _insert_echoes(self, ticker: Ints, trades: Ints) -> None:
        while self._echoes and self._echoes[0][0] < self._trades_done + len(trades):
            place, subject = heapq.heappop(self._echoes)
            ticker[trades[place - self._trades_done]] = subject
