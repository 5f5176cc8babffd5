"""News in a market."""

import numpy as np

from holdfast.trace.news import BOUT, ECHOES, News

ROWS = 50_000


def broken(blocks, *, tickers=10, seed=1):
    """Return the tickers and jumps of blocks that without news are trades of ticker -1."""
    news, rng = News(tickers), np.random.default_rng(seed)
    for number in range(blocks):
        ticker = np.full(ROWS, -1)
        clock = np.linspace(number, number + 1, ROWS) * 1000
        jump = news.insert(rng, ticker, np.arange(ROWS), clock)
        yield ticker, jump


def test_price_jumps_where_a_bout_begins():
    ticker, jump = next(broken(1, tickers=1000))
    assert len(np.flatnonzero(jump)) > 0
    for row in np.flatnonzero(jump):
        assert ticker[row] >= 0
        soon = ticker[row : row + 500]
        assert (soon == ticker[row]).sum() >= BOUT - 1 or row > ROWS - 500


def test_each_news_makes_a_bout_and_its_echoes():
    blocks = list(broken(40, tickers=100_000))
    news = sum((jump != 0).sum() for _, jump in blocks)
    trades = sum((ticker >= 0).sum() for ticker, _ in blocks)
    assert 190 < news < 290  # 240 expected
    assert BOUT + ECHOES < trades / news < BOUT + ECHOES + 2


def test_block_without_trades_is_unchanged():
    ticker = np.full(100, 3)
    jump = News(5).insert(np.random.default_rng(1), ticker, np.empty(0, np.int64), np.linspace(0, 1000, 100))
    assert (ticker == 3).all()
    assert not jump.any()


def test_news_change_only_trades():
    ticker = np.full(ROWS, 3)
    trades = np.arange(0, ROWS, 5)
    News(5).insert(np.random.default_rng(1), ticker, trades, np.linspace(0, 1000, ROWS))
    quotes = np.delete(ticker, trades)
    assert (quotes == 3).all()
    assert (ticker[trades] != 3).any()
