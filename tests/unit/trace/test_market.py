"""The market trace has the statistics of DEBS'11, section 6.2, and losses have the effects of section 6.3."""

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from holdfast.trace import write_market

EVENTS, SECTION = 2_000_000, 5000
OFFSETS = (500_000, 1_000_000, 1_500_000)
OFFSET = OFFSETS[1]
PEAK = 35_200  # tuples in 16 seconds at the peak rate


class Bargains:
    """Bargain Discovery over one market trace, with the tuples of one operator lost from `offset` on."""

    def __init__(self, path):
        table = pq.read_table(path)
        self.trade = table["price"].is_valid().to_numpy()
        self.code = table["ticker"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        self.trades = np.flatnonzero(self.trade)
        self.quotes = np.flatnonzero(~self.trade)
        self.volume = table["volume"].drop_null().to_numpy()
        self.money = table["price"].drop_null().to_numpy() * self.volume
        self.ask = table["ask_price"].drop_null().to_numpy()
        self.size = table["ask_size"].drop_null().to_numpy()
        self.golden = self.gains()

    def averages(self, received):
        """Return row, ticker and average of the five most recent trades at each received trade, by ticker."""
        order = np.argsort(self.code[self.trades[received]], kind="stable")
        rows, money, volume = (column[received][order] for column in (self.trades, self.money, self.volume))
        code = self.code[rows]
        at = np.arange(len(rows))
        first = np.flatnonzero(np.diff(code, prepend=-1))
        low = np.maximum(np.repeat(first, np.diff(first, append=len(rows))), at - 4)
        money, volume = (np.concatenate(([0], np.cumsum(column))) for column in (money, volume))
        return rows, code, (money[at + 1] - money[low]) / (volume[at + 1] - volume[low])

    def gains(self, operator=None, lost=0, offset=OFFSET):
        """Return the gain of every quote."""

        def hit(rows):
            return (rows >= offset) & (rows < offset + lost)

        before = operator in ("source", "trade_filter")
        rows, code, average = self.averages(~hit(self.trades) if before else np.ones(len(self.trades), bool))
        if operator in ("vwap", "bargain_index"):
            received = ~hit(rows)
            rows, code, average = rows[received], code[received], average[received]
        wide = len(self.trade)
        asked = self.code[self.quotes]
        latest = np.searchsorted(code * wide + rows, asked * wide + self.quotes) - 1
        known = (latest >= 0) & (code[latest] == asked)
        gain = np.where(known, self.size * np.maximum(average[latest] - self.ask, 0), 0.0)
        blind = operator in ("source", "quote_filter", "bargain_index")
        return np.where(hit(self.quotes), 0.0, gain) if blind else gain

    def sections(self, gains):
        return np.bincount(self.quotes // SECTION, weights=gains)

    def errors(self, operator, offset):
        """Return the relative errors of the sections since the fault (DEBS'11, equation 5)."""
        golden = self.sections(self.golden)[offset // SECTION :]
        return np.abs(self.sections(self.gains(operator, PEAK, offset))[offset // SECTION :] - golden) / golden

    def recovery_and_impact(self, operator):
        """Sections until nine tenths of the errors above 3 % are past, and the sum of their squares until then, each the
        greatest over the offsets (equations 6 to 8)."""
        outcomes = []
        for offset in OFFSETS:
            errors = self.errors(operator, offset)
            wrong = np.cumsum(errors > 0.03)
            until = int(np.argmax(wrong >= 0.9 * wrong[-1])) + 1
            outcomes.append((until, float((errors[:until][errors[:until] > 0.03] ** 2).sum())))
        return tuple(max(column) for column in zip(*outcomes, strict=True))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "market.parquet"
    write_market(path, events=EVENTS, seed=1)
    return path


@pytest.fixture(scope="module")
def bargains(path):
    return Bargains(path)


def test_rates_are_the_papers(tmp_path):
    account = write_market(tmp_path / "m", events=EVENTS, seed=2)
    assert account.statistics["rate_mean"] == pytest.approx(500, rel=0.06)
    assert account.statistics["rate_peak"] == 2200
    assert account.statistics["quote_share"] == pytest.approx(0.8, abs=0.002)


def test_tuple_is_either_a_trade_or_a_quote(path):
    table = pq.read_table(path)
    trade = pc.equal(table["kind"], "trade").to_numpy()
    assert (trade | pc.equal(table["kind"], "quote").to_numpy()).all()
    for name in ("price", "volume"):
        assert (table[name].is_valid().to_numpy() == trade).all()
    for name in ("ask_price", "ask_size"):
        assert (table[name].is_valid().to_numpy() == ~trade).all()


def test_prices_are_in_cents_and_sizes_in_lots(path):
    table = pq.read_table(path)
    for name in ("price", "ask_price"):
        values = table[name].drop_null().to_numpy()
        assert values.min() >= 0.01
        assert np.abs(values * 100 - np.round(values * 100)).max() < 1e-6
    for name in ("volume", "ask_size"):
        values = table[name].drop_null().to_numpy()
        assert values.min() >= 100
        assert not (values % 100).any()


def test_options_change_the_trace(tmp_path):
    account = write_market(tmp_path / "m", events=200_000, seed=1, rate=50, peak=90, tickers=7, quotes=0.3)
    assert account.statistics["rate_mean"] == pytest.approx(50, rel=0.15)
    assert account.statistics["rate_peak"] <= 90
    assert account.statistics["quote_share"] == pytest.approx(0.3, abs=0.01)
    assert len(pq.read_table(tmp_path / "m", columns=["ticker"])["ticker"].unique()) == 7


def test_some_tickers_take_long_to_reach_five_trades(bargains):
    traded = np.bincount(bargains.code[bargains.trades], minlength=bargains.code.max() + 1)
    assert 0.05 < (traded < 12).mean() < 0.5  # five of them take more than 800,000 tuples
    head = np.sort(traded)[::-1][: len(traded) // 20].sum() / traded.sum()
    assert head > 0.5


def test_rarely_traded_tickers_are_quoted_too(bargains):
    count = bargains.code.max() + 1
    traded, quoted = (np.bincount(bargains.code[rows], minlength=count) for rows in (bargains.trades, bargains.quotes))
    rare = np.argsort(traded)[: count // 2]
    assert quoted[rare].sum() / quoted.sum() > 1.5 * traded[rare].sum() / traded.sum()


def test_bargains_are_a_modest_share_of_quotes(bargains):
    assert 0.05 < (bargains.golden > 0).mean() < 0.4


def test_ask_sizes_are_smaller_for_rarely_traded_tickers(bargains):
    traded = np.bincount(bargains.code[bargains.trades], minlength=bargains.code.max() + 1)
    often = traded[bargains.code[bargains.quotes]] > np.median(traded)
    assert bargains.size[~often].mean() < 0.6 * bargains.size[often].mean()


def test_volatility_is_clustered(bargains):
    """The size of a move of a busy ticker correlates with the size of the next."""
    traded = bargains.code[bargains.trades]
    correlations = []
    for busy in np.argsort(np.bincount(traded))[-20:]:
        mine = traded == busy
        price = bargains.money[mine] / bargains.volume[mine]
        moves = np.abs(np.diff(np.log(price[::20])))
        correlations.append(np.corrcoef(moves[1:], moves[:-1])[0, 1])
    assert np.mean(correlations) > 0.04


def test_longer_loss_of_trades_overestimates_more(bargains):
    after = slice(OFFSET // SECTION, None)
    golden = bargains.sections(bargains.golden)[after].sum()
    over = [bargains.sections(bargains.gains("trade_filter", lost))[after].sum() - golden for lost in (4400, 17_600, PEAK)]
    assert 0 < over[0] < over[1] < over[2]
    during = slice(OFFSET // SECTION, OFFSET // SECTION + PEAK // SECTION)
    faulty = bargains.sections(bargains.gains("trade_filter", PEAK))[during]
    assert faulty.max() / bargains.sections(bargains.golden)[during][faulty.argmax()] > 1.5


@pytest.fixture(scope="module")
def outcomes(bargains):
    names = ("quote_filter", "bargain_index", "source", "vwap", "trade_filter")
    return {name: bargains.recovery_and_impact(name) for name in names}


def test_operators_rank_by_impact_as_in_the_paper(outcomes):
    """DEBS'11, table 2, from the quote filter up: 6.00, 7.89, 21.23, 30.87, 48.70."""
    impact = {name: impact for name, (_, impact) in outcomes.items()}
    assert sorted(impact, key=impact.__getitem__) == list(impact), impact


def test_operators_before_the_aggregator_recover_slowly(outcomes):
    """DEBS'11, table 2: 340 sections for the source and the trade filter, 6 for the quote filter.

    How much sooner the average recovers (73 in the paper) is a matter of the few tickers that the outage hits, and no law.
    """
    recovery = {name: sections for name, (sections, _) in outcomes.items()}
    assert recovery["source"] == recovery["trade_filter"] > 50
    assert recovery["quote_filter"] <= 8
    assert min(recovery["vwap"], recovery["bargain_index"]) > recovery["quote_filter"]
