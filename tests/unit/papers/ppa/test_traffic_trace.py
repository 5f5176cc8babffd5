"""The traffic trace has PPA's users, segments, rates and incidents, and jams that a join can find."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast_papers.ppa.traffic_trace import write_traffic


def read(path):
    """Return both tables with times in seconds since the first row."""
    tables = {name: pq.read_table(path / f"{name}.parquet") for name in ("locations", "incidents")}
    times = {name: table["time"].cast(pa.int64()).to_numpy() / 1e6 for name, table in tables.items()}
    start = min(time[0] for time in times.values())
    columns = {
        name: {column: table[column].to_numpy() for column in table.column_names if column != "time"}
        for name, table in tables.items()
    }
    for name, time in times.items():
        columns[name]["time"] = time - start
    return columns["locations"], columns["incidents"]


@pytest.fixture(scope="module")
def fast(tmp_path_factory):
    """Return half a minute of the paper's traffic."""
    path = tmp_path_factory.mktemp("traffic") / "fast"
    write_traffic(path, events=600_000, seed=1)
    return read(path)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Return an hour with fewer users, in which jams begin and end."""
    path = tmp_path_factory.mktemp("traffic") / "slow"
    write_traffic(path, events=1_000_000, seed=2, users=2000, segments=200, rate=250, every_s=8)
    return read(path)


def test_locations_come_at_the_papers_rate(fast):
    locations, _ = fast
    counts = np.bincount(locations["time"].astype(int))[1:-1]
    assert counts.mean() == pytest.approx(20_000, rel=0.005)
    assert locations["user"].max() == 99_999


def test_users_spread_over_segments_by_a_zipf_law(fast):
    locations, _ = fast
    first = locations["time"] < 5  # every user once
    counts = np.sort(np.bincount(locations["segment"][first], minlength=1000))[::-1]
    assert counts.sum() == pytest.approx(100_000, rel=0.01)
    slope = np.polyfit(np.log(np.arange(1, 501)), np.log(counts[:500]), 1)[0]
    assert -slope == pytest.approx(0.5, abs=0.05)


def test_all_users_on_the_segment_report_an_incident(fast):
    locations, incidents = fast
    starts = incidents["time"][np.unique(incidents["segment"], return_index=True)[1]]
    assert len(starts) == pytest.approx(locations["time"][-1] / 2, abs=3)
    segment = incidents["segment"][0]
    reports = incidents["segment"] == segment
    witnesses = np.unique(locations["user"][(locations["segment"] == segment) & (locations["time"] < 5)])
    assert reports.sum() == pytest.approx(len(witnesses), rel=0.2)
    assert len(set(incidents["user"][reports].tolist())) == reports.sum()


def test_incidents_are_proportional_to_users(slow):
    locations, incidents = slow
    starts = np.flatnonzero(np.diff(np.sort(incidents["time"])) > 0)
    assert len(starts) > 100
    users = np.bincount(locations["segment"], minlength=200)
    reports = np.bincount(incidents["segment"], minlength=200)
    busy = np.argsort(users)[-100:]
    assert reports[busy].sum() / reports.sum() > users[busy].sum() / users.sum()


def test_only_segments_with_incidents_are_slow(slow):
    locations, incidents = slow
    minute = (locations["time"] // 60).astype(int)
    cell = locations["segment"] * 100 + minute
    speed = np.bincount(cell, weights=locations["speed"], minlength=20_000) / np.maximum(np.bincount(cell, minlength=20_000), 1)
    speed = speed.reshape(200, 100)[:, 1 : minute.max()]
    free = np.nanquantile(np.where(speed > 0, speed, np.nan), 0.9, axis=1)
    jammed = (speed > 0) & (speed < 0.5 * free[:, np.newaxis])
    assert 0.01 < jammed.mean() < 0.4
    first_s = {segment: incidents["time"][incidents["segment"] == segment].min() for segment in set(incidents["segment"].tolist())}
    for segment in np.flatnonzero(jammed.any(axis=1)):
        assert first_s[segment] < (jammed[segment].argmax() + 2) * 60
    assert len(first_s) > jammed.any(axis=1).sum() > 0  # not every incident makes a jam


def test_speeds_are_those_of_cars(slow):
    locations, _ = slow
    assert 5 < locations["speed"].min() < 40
    assert 100 < locations["speed"].max() < 200
    assert np.median(locations["speed"]) == pytest.approx(103, abs=10)
