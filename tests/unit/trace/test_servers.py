"""The server trace: regular reports with jitter, a day's rhythm, drift, spikes, shifts and quiet counters."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.trace import write_servers

SERVERS, DAY = 60, 288


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    """Return seven days of five-minute reports, like the public CloudWatch series: a row per report, a column per server."""
    path = tmp_path_factory.mktemp("servers") / "week"
    write_servers(path, events=SERVERS * DAY * 7, seed=1, servers=SERVERS, interval_s=300)
    table = pq.read_table(path)
    server = np.array([int(name.split("-")[1]) for name in table["server"].to_pylist()])
    order = np.lexsort((table["seq"].to_numpy(), server))
    names = ("cpu", "memory", "disk", "network", "requests", "errors")
    return {name: table[name].to_numpy()[order].reshape(SERVERS, -1).T for name in names}


def correlation(series, lag):
    return np.array([np.corrcoef(column[lag:], column[:-lag])[0, 1] for column in series.T if column.std()])


def test_every_server_reports_every_interval_with_some_jitter(tmp_path):
    write_servers(tmp_path / "s", events=20_000, seed=1, servers=50)
    table = pq.read_table(tmp_path / "s")
    time_s = table["time"].cast(pa.int64()).to_numpy() / 1e6
    for name in ("server-0000", "server-0049"):
        gaps = np.diff(time_s[np.array(table["server"].to_pylist()) == name])
        assert gaps.mean() == pytest.approx(5.0, abs=0.02)
        assert 0.1 < gaps.std() < 1.0
        assert gaps.min() > 3.9


def test_servers_are_divided_into_racks(tmp_path):
    write_servers(tmp_path / "s", events=100, seed=1, servers=50, rack_size=20)
    table = pq.read_table(tmp_path / "s", columns=["server", "rack"])
    racks = dict(zip(table["server"].to_pylist(), table["rack"].to_pylist(), strict=True))
    assert sorted(set(racks.values())) == ["rack-000", "rack-001", "rack-002"]
    assert racks["server-0019"] == "rack-000"
    assert racks["server-0020"] == "rack-001"


def test_percentages_and_counts_stay_in_range(week):
    for name in ("cpu", "memory", "disk"):
        assert week[name].min() >= 0
        assert week[name].max() <= 100
    assert week["network"].min() > 0
    assert (week["errors"] <= week["requests"]).all()
    assert week["requests"].min() >= 0


def test_servers_are_idle_serving_or_busy(week):
    level = np.median(week["cpu"], axis=0)
    assert (level < 5).any()
    assert ((level > 10) & (level < 50)).any()
    assert (level > 60).any()


def test_serving_servers_follow_the_day(week):
    daily = correlation(week["cpu"], DAY)
    assert (daily > 0.5).mean() > 0.15
    assert (daily < 0.3).mean() > 0.15


def test_memory_drifts_until_a_restart(week):
    steps = np.diff(week["memory"], axis=0)
    drift = np.median(steps, axis=0)
    assert (drift >= 0).mean() > 0.6
    assert steps.min() < -2
    assert (correlation(week["memory"], 1) > 0.9).mean() > 0.5


def test_cpu_has_spikes(week):
    idle = week["cpu"][:, np.median(week["cpu"], axis=0) < 5]
    assert idle.max() > 20 * np.median(idle)
    assert (idle > 10 * np.median(idle)).mean() < 0.05


def test_load_sometimes_shifts_to_another_level(week):
    days = week["cpu"].reshape(7, DAY, SERVERS).mean(axis=1)
    change = np.abs(np.diff(np.log(days), axis=0))
    assert change.max() > 0.2
    assert np.median(change) < 0.1


def test_quiet_counters_rarely_move(tmp_path):
    write_servers(tmp_path / "s", events=200_000, seed=1, servers=50)
    table = pq.read_table(tmp_path / "s", columns=["seq", "server", "disk", "errors"])
    assert (table["errors"].to_numpy() == 0).mean() > 0.95
    assert table["errors"].to_numpy().max() > 3
    one = table.filter(pa.compute.equal(table["server"], "server-0007"))["disk"].to_numpy()
    moved = (np.diff(one) != 0).mean()
    assert 0 < moved < 0.1
