"""Requirements on every kind of trace."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.errors import TraceError
from holdfast.trace import write_market, write_servers
from holdfast_papers.ppa.page_trace import write_pages
from holdfast_papers.ppa.traffic_trace import write_traffic

WRITERS = {"market": write_market, "pages": write_pages, "servers": write_servers, "traffic": write_traffic}
TIME = pa.timestamp("us", tz="UTC")
COLUMNS = {
    "market": [
        ("ticker", pa.string()),
        ("kind", pa.string()),
        ("price", pa.float64()),
        ("volume", pa.int64()),
        ("ask_price", pa.float64()),
        ("ask_size", pa.int64()),
    ],
    "pages": [("page", pa.string()), ("server", pa.int32()), ("bytes", pa.int64())],
    "servers": [
        ("server", pa.string()),
        ("rack", pa.string()),
        ("cpu", pa.float64()),
        ("memory", pa.float64()),
        ("disk", pa.float64()),
        ("network", pa.float64()),
        ("requests", pa.int64()),
        ("errors", pa.int64()),
    ],
    "locations": [("user", pa.int64()), ("segment", pa.int32()), ("speed", pa.float64())],
    "incidents": [("user", pa.int64()), ("segment", pa.int32())],
}

every_kind = pytest.mark.parametrize("kind", WRITERS)


def files_of(path):
    """Return the tables of a trace by name."""
    if path.is_dir():
        return {file.stem: pq.read_table(file) for file in sorted(path.iterdir())}
    return {path.stem: pq.read_table(path)}


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a trace and returns its tables."""

    def write(kind, *, events, seed, name="trace", **options):
        path = tmp_path / name / kind
        path.parent.mkdir(exist_ok=True)
        WRITERS[kind](path, events=events, seed=seed, force=True, **options)
        return files_of(path)

    return write


@every_kind
def test_columns_have_documented_names_and_types(kind, written):
    for name, table in written(kind, events=500, seed=1).items():
        assert [(field.name, field.type) for field in table.schema] == [("seq", pa.int64()), ("time", TIME), *COLUMNS[name]]


@every_kind
@pytest.mark.parametrize("events", [1, 2, 65_536, 300_001])
def test_seq_counts_every_row_once_in_order_of_time(kind, events, written):
    tables = written(kind, events=events, seed=3).values()
    for table in tables:
        assert (np.diff(table["seq"].to_numpy()) > 0).all()
    seq = np.concatenate([table["seq"].to_numpy() for table in tables])
    time = np.concatenate([table["time"].cast(pa.int64()).to_numpy() for table in tables])
    order = np.argsort(seq)
    assert (seq[order] == np.arange(1, events + 1)).all()
    assert (np.diff(time[order]) >= 0).all()


@every_kind
def test_bytes_depend_on_the_seed_alone(kind, tmp_path):
    def digest(seed, name):
        WRITERS[kind](tmp_path / name, events=70_000, seed=seed)
        path = tmp_path / name
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]

    first, again, other = digest(7, "a"), digest(7, "b"), digest(8, "c")
    assert first == again
    assert all(one != two for one, two in zip(first, other, strict=True))


@every_kind
def test_long_trace_begins_with_the_rows_of_a_short_one(kind, written):
    long = written(kind, events=200_000, seed=5, name="long")
    for events in (1, 999, 65_536, 131_073):
        for name, table in written(kind, events=events, seed=5, name="short").items():
            assert table.equals(long[name].slice(0, table.num_rows))


@every_kind
def test_summary_matches_the_file(kind, tmp_path):
    account = WRITERS[kind](tmp_path / "t", events=90_000, seed=2)
    tables = list(files_of(tmp_path / "t").values())
    time_us = np.sort(np.concatenate([table["time"].cast(pa.int64()).to_numpy() for table in tables]))
    assert (account.kind, account.rows, account.seed, account.path) == (kind, 90_000, 2, tmp_path / "t")
    assert account.statistics["rate_peak"] == np.unique(time_us // 1_000_000, return_counts=True)[1].max()
    assert account.statistics["rate_mean"] == pytest.approx(90_000 / (time_us[-1] - time_us[0]) * 1e6)
    files = (tmp_path / "t").iterdir() if kind == "traffic" else [tmp_path / "t"]
    assert account.size_bytes == sum(file.stat().st_size for file in files)


@every_kind
def test_progress_rises_to_the_number_of_events(kind, tmp_path):
    row_counts = []
    WRITERS[kind](tmp_path / "t", events=150_000, seed=1, progress=row_counts.append)
    assert row_counts == sorted(set(row_counts))
    assert row_counts[-1] == 150_000
    assert len(row_counts) > 1


@every_kind
@pytest.mark.parametrize("events", [0, -5])
def test_trace_without_events_is_refused(kind, events, tmp_path):
    with pytest.raises(TraceError, match=f"a trace has at least 1 event, not {events}"):
        WRITERS[kind](tmp_path / "t", events=events, seed=1)
    assert not list(tmp_path.iterdir())


@every_kind
def test_negative_seed_is_refused(kind, tmp_path):
    with pytest.raises(TraceError, match="whole number from 0, not -1"):
        WRITERS[kind](tmp_path / "t", events=1, seed=-1)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("market", {"tickers": 0}, "a market has 1 to 456976 tickers, not 0"),
        ("market", {"quotes": 1.0}, "the share of quotes lies between 0 and 1, not 1"),
        ("market", {"rate": 0}, "rate is a positive number"),
        ("market", {"peak": 100}, "peak of a trace with a rate of 500 tuples per second is at least 568, not 100"),
        ("pages", {"pages": 0}, "a site has 1 to 10000000 pages, not 0"),
        ("pages", {"servers": 0}, "a site has 1 to 100000 servers, not 0"),
        ("pages", {"exponent": -1}, "Zipf exponent of the pages lies between 0 and 5, not -1"),
        ("traffic", {"users": 0}, "traffic has 1 to 100000000 users, not 0"),
        ("traffic", {"segments": 0}, "traffic has 1 to 1000000 segments, not 0"),
        ("traffic", {"exponent": 9}, "Zipf exponent of the segments lies between 0 and 5, not 9"),
        ("traffic", {"rate": 0}, "rate of locations is above 0 and at most 10000000 per second, not 0"),
        ("traffic", {"every_s": 0}, "an incident happens every 0.01 to 3600 seconds, not every 0"),
        ("servers", {"servers": 0}, "a datacenter has 1 to 1000000 servers, not 0"),
        ("servers", {"rack_size": 0}, "a rack holds at least 1 server, not 0"),
        ("servers", {"interval_s": 0}, "servers report every 0.001 to 86400 seconds, not every 0"),
    ],
)
def test_options_out_of_range_are_refused_by_name(kind, options, message, tmp_path):
    with pytest.raises(TraceError, match=message):
        WRITERS[kind](tmp_path / "t", events=1, seed=1, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("market", {"tickers": 1, "rate": 1, "peak": 5}),
        ("market", {"tickers": 20_000}),
        ("pages", {"pages": 1, "servers": 1}),
        ("traffic", {"users": 1, "segments": 1, "rate": 1}),
        ("traffic", {"users": 50, "segments": 5000, "rate": 100_000, "every_s": 0.5}),
        ("servers", {"servers": 1, "interval_s": 300}),
        ("servers", {"servers": 70_000}),
    ],
)
def test_small_and_large_settings_work(kind, options, written):
    assert sum(table.num_rows for table in written(kind, events=2000, seed=1, **options).values()) == 2000


@every_kind
def test_mean_rate_is_never_above_the_peak(kind, tmp_path):
    account = WRITERS[kind](tmp_path / kind, events=1000, seed=1)
    assert account.statistics["rate_mean"] <= account.statistics["rate_peak"]
