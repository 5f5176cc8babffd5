"""Generated weather: stations that report in turn, slow drifts, showers, and a battery that hardly moves."""

import numpy as np
import pytest

from holdfast.errors import TraceError
from holdfast_papers.isorc16.weather import ATTRIBUTES, generate_weather

STATIONS, DAYS = 8, 40


@pytest.fixture(scope="module")
def weather():
    """Each attribute as an array: one row per round of reports, one column per station."""
    table = generate_weather(events=STATIONS * DAYS * 144, seed=1, stations=STATIONS)
    return {name: table[name].to_numpy().reshape(-1, STATIONS) for name in ATTRIBUTES}


def correlation(series, lag):
    return np.array([np.corrcoef(column[lag:], column[:-lag])[0, 1] for column in series.T])


def test_stations_report_in_turn_at_a_regular_interval():
    table = generate_weather(events=100, seed=1, stations=5)
    assert table["seq"].to_pylist() == list(range(1, 101))
    assert table["station"].to_pylist()[:6] == [f"station-{k:04d}" for k in (0, 1, 2, 3, 4, 0)]
    time_s = table["time"].cast("int64").to_numpy() / 1e6
    assert np.diff(time_s[::5]) == pytest.approx(600.0)
    assert (np.diff(time_s) > 0).all()


def test_pressure_temperature_and_humidity_drift_slowly(weather):
    for name in ("pressure", "temperature", "humidity"):
        assert (correlation(weather[name], 1) > 0.9).all(), name
    assert weather["humidity"].min() >= 5
    assert weather["humidity"].max() <= 100
    assert 960 < weather["pressure"].min() < weather["pressure"].max() < 1060


def test_days_are_warmer_than_nights(weather):
    by_hour = weather["temperature"].reshape(DAYS, 144, STATIONS).mean(axis=(0, 2))
    assert by_hour[54] > by_hour[126] + 3  # 15:00 and 03:00, the trace beginning at 6:00


def test_rain_is_rare_and_falls_in_showers(weather):
    wet = weather["rainfall"] > 0
    assert 0.005 < wet.mean() < 0.15
    assert (wet[1:] & wet[:-1]).sum() > 0.3 * wet.sum()


def test_wind_comes_from_anywhere_and_battery_hardly_moves(weather):
    assert weather["wind_direction"].min() >= 0
    assert weather["wind_direction"].max() < 360
    assert np.ptp(weather["battery"], axis=0).max() <= 0.3


def test_short_trace_is_the_beginning_of_a_long_one():
    assert generate_weather(events=500, seed=3).slice(0, 50).equals(generate_weather(events=50, seed=3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stations": 0}, "a weather service has 1 to 100000 stations, not 0"),
        ({"interval_s": 0.5}, "weather stations report every 1 to 86400 seconds, not every 0.5"),
        ({"events": 0}, "at least 1 event and a seed of at least 0, got 0 and 1"),
        ({"seed": -1}, "at least 1 event and a seed of at least 0, got 10 and -1"),
    ],
)
def test_impossible_weather_is_refused(settings, message):
    with pytest.raises(TraceError, match=message):
        generate_weather(**{"events": 10, "seed": 1} | settings)
