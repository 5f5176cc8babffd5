"""The page trace: Zipf, drift, uneven servers, a day's rhythm, flash crowds."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast_papers.ppa.page_trace import match_day, write_pages


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "pages.parquet"
    write_pages(path, events=1_500_000, seed=1)
    return pq.read_table(path)


def codes(table):
    return table["page"].combine_chunks().dictionary_encode().indices.to_numpy()


def test_popularity_is_zipf_over_a_short_time(table):
    counts = np.sort(np.bincount(codes(table)[:200_000]))[::-1]
    slope = np.polyfit(np.log(np.arange(5, 101)), np.log(counts[4:100]), 1)[0]
    assert -slope == pytest.approx(1.0, abs=0.15)


def test_exponent_is_met(tmp_path):
    write_pages(tmp_path / "p", events=300_000, seed=1, exponent=0.6)
    counts = np.sort(np.bincount(codes(pq.read_table(tmp_path / "p"))))[::-1]
    slope = np.polyfit(np.log(np.arange(5, 301)), np.log(counts[4:300]), 1)[0]
    assert -slope == pytest.approx(0.6, abs=0.1)


def test_ranking_drifts_slowly(table):
    page = codes(table)

    def hottest(rows):
        return set(np.argsort(np.bincount(page[rows], minlength=page.max() + 1))[-100:].tolist())

    start, soon, late = (hottest(slice(at, at + 150_000)) for at in (0, 150_000, 1_350_000))
    assert len(start & late) < len(start & soon)
    assert len(start & late) < 90
    assert len(start & soon) > 60


def test_servers_have_uneven_shares(table):
    share = np.bincount(table["server"].to_numpy()) / table.num_rows
    assert len(share) == 30
    assert share.max() > 2 * share.min() > 0


def test_flash_crowd_requests_one_page(table):
    page, second = codes(table), table["time"].cast(pa.int64()).to_numpy() // 1_000_000
    second -= second[0]
    shares = [np.bincount(page[second // 20 == slot]).max() / (second // 20 == slot).sum() for slot in range(second[-1] // 20)]
    assert max(shares) > 2 * np.median(shares)


def test_page_has_one_size_and_a_fifth_of_requests_send_nothing(table):
    page, sent = codes(table), table["bytes"].to_numpy()
    assert (sent == 0).mean() == pytest.approx(0.2, abs=0.01)
    rows = (page == np.bincount(page).argmax()) & (sent > 0)
    assert len(set(sent[rows].tolist())) == 1


def test_rhythm_has_mean_one_and_a_quiet_night():
    day = match_day(np.arange(86_400.0))
    assert day.mean() == pytest.approx(1.0, abs=0.01)
    assert day[4 * 3600] < 0.4
    assert day.max() > 3


def test_requests_follow_the_rhythm(tmp_path):
    write_pages(tmp_path / "p", events=200_000, seed=1, rate=4, peak=40)
    time_s = pq.read_table(tmp_path / "p", columns=["time"])["time"].cast(pa.int64()).to_numpy() / 1e6
    hours = (time_s // 3600).astype(int)
    counts = np.bincount(hours - hours[0])[1:-1]
    expected = match_day((np.arange(hours[0] + 1, hours[0] + 1 + len(counts)) % 24 * 3600 + 1800).astype(float))
    assert np.corrcoef(counts, expected)[0, 1] > 0.9
