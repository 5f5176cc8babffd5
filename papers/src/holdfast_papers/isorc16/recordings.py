"""Streams for the algorithms: generated weather and servers, and recorded ones from files."""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import TraceError
from holdfast.trace import write_servers
from holdfast_papers.isorc16.algorithm_study import Recording
from holdfast_papers.isorc16.weather import ATTRIBUTES, generate_weather

EPOCH = pd.Timedelta(seconds=5)  # of examples/datacenter_monitor.py
SMOOTHED = 6  # readings that examples/datacenter_monitor.py smooths over
MINUTE = 12  # outputs of a rack that its `rise` is relative to
RACK_STATUS = ("cpu", "peak_cpu", "memory", "peak_memory", "network")
RACK_SINK = ("load", "rise")
"""The numbers of the operator rack_status, and those of the application's sink."""
WEATHER = {
    "pressure": ("pressure", "PRES"),
    "rainfall": ("rainfall", "precip", "RAIN"),
    "wind_direction": ("wind_direction", "wind_dir"),
    "temperature": ("temperature", "temp", "TEMP"),
    "humidity": ("humidity", "humid"),
    "battery": ("battery",),
    "dew_point": ("dewp", "DEWP"),
    "wind_speed": ("wind_speed", "WSPM"),
}
"""Names of the attributes in public weather files."""
STATIONS, TIMES = ("station", "origin"), ("time", "time_hour", "ts_local", "timestamp")
METRICS = {"cpu": "cpu", "disk": "disk", "network": "network", "request": "requests"}


def generated_weather(seed: int, *, epochs: int, stations: int = 20) -> Recording:
    """Return generated weather stations that each report every ten minutes."""
    frame = generate_weather(events=epochs * stations, seed=seed, stations=stations).to_pandas()
    frame["epoch"] = np.arange(len(frame)) // stations
    return _recording("weather, generated", frame, "station", ATTRIBUTES, epochs=epochs)


def generated_servers(seed: int, *, epochs: int, servers: int = 200) -> tuple[Recording, Recording]:
    """Return a generated datacenter in epochs of 5 s: the reports of its servers, and the datacenter monitor's output per rack.

    The output is that of rack_status and rack_heat in examples/datacenter_monitor.py, computed without Spark.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-servers-") as folder:
        path = Path(folder) / "servers.parquet"
        write_servers(path, events=(epochs + 2) * servers, seed=seed, servers=servers)
        frame = pq.read_table(path).to_pandas()
    number = (frame.time - pd.Timestamp(0, tz=frame.time.dt.tz)) // EPOCH  # counted from 1970, as the application's are
    frame["epoch"] = number - number.min()
    metrics = ("cpu", "memory", "disk", "network", "requests", "errors")
    raw = _recording("servers, generated", frame, "server", metrics, epochs=epochs)
    return raw, _racks(frame, epochs)


def _racks(frame: Any, epochs: int) -> Recording:
    smooth = frame[["seq", "epoch", "rack"]].copy()
    for metric in ("cpu", "memory", "network"):
        recent = frame.groupby("server")[metric].rolling(SMOOTHED, min_periods=1).mean()
        smooth[metric] = recent.reset_index(level=0, drop=True).sort_index()
    racks = smooth.groupby(["epoch", "rack"], as_index=False).agg(
        seq=("seq", "max"),
        cpu=("cpu", "mean"),
        peak_cpu=("cpu", "max"),
        memory=("memory", "mean"),
        peak_memory=("memory", "max"),
        network=("network", "mean"),
    )
    racks["load"] = 0.7 * racks.cpu + 0.3 * racks.memory
    minute = racks.groupby("rack")["load"].rolling(MINUTE, min_periods=1).mean()
    racks["rise"] = racks["load"] - minute.reset_index(level=0, drop=True).sort_index()
    return _recording("racks, generated", racks, "rack", (*RACK_STATUS, *RACK_SINK), epochs=epochs)


def read_weather(path: Path, *, epochs: int) -> Recording:
    """Read recorded stations from a CSV file with a column of stations, one of times and an attribute. Raises TraceError."""
    frame = _read(path)
    station = next((name for name in STATIONS if name in frame.columns), None)
    moment = next((name for name in TIMES if name in frame.columns), None)
    column_of = {name: next((own for own in owns if own in frame.columns), None) for name, owns in WEATHER.items()}
    attributes = {own: name for name, own in column_of.items() if own is not None}
    if station is None or moment is None or not attributes:
        raise TraceError(
            f"'{path}' is not weather data: it needs a column of stations ({' or '.join(STATIONS)}), one of times "
            f"({' or '.join(TIMES)}) and an attribute ({', '.join(WEATHER)}); it has: {', '.join(map(str, frame.columns))}"
        )
    frame = frame.rename(columns={**attributes, station: "station"}).dropna(subset=[moment, "station"])
    frame = frame.sort_values([moment, "station"], kind="stable")
    for name in attributes.values():
        frame[name] = _numbers(frame[name], path)
    frame["epoch"] = frame[moment].rank(method="dense").astype(int) - 1
    frame["seq"] = np.arange(1, len(frame) + 1)
    return _recording(f"weather, {path.name}", frame, "station", tuple(attributes.values()), epochs=epochs)


def read_servers(folder: Path, *, epochs: int) -> list[Recording]:
    """Read recorded servers from a folder of CSV files with columns timestamp and value: one series each, the metric in the name.

    Returns one recording per metric, whose series are aligned by row and not by time. Raises TraceError.
    """
    files = sorted(folder.glob("*.csv")) if folder.is_dir() else []
    groups: dict[str, list[Any]] = {}
    for path in files:
        frame = _read(path)
        if "value" not in frame.columns:
            raise TraceError(f"'{path}' is not a series: it needs a column 'value'; it has: {', '.join(map(str, frame.columns))}")
        metric = next((name for word, name in METRICS.items() if word in path.stem.lower()), "other")
        values = _numbers(frame["value"], path)
        series = pd.DataFrame({"epoch": np.arange(len(frame)), "series": path.stem, metric: values})
        groups.setdefault(metric, []).append(series)
    if not groups:
        raise TraceError(f"'{folder}' has no server metrics: it must be a folder of CSV files with columns timestamp and value")
    recordings = []
    for metric, group in sorted(groups.items()):
        frame = pd.concat(group).sort_values(["epoch", "series"], kind="stable")
        frame["seq"] = np.arange(1, len(frame) + 1)
        recordings.append(_recording(f"servers, {folder.name}", frame, "series", (metric,), epochs=epochs))
    return recordings


def _read(path: Path) -> Any:
    try:
        return pd.read_csv(path, low_memory=False)
    except (OSError, ValueError) as error:
        raise TraceError(f"'{path}' cannot be read as CSV: {error}") from error


def _numbers(column: Any, path: Path) -> Any:
    """Return a column as numbers; other values become NaN. Raises TraceError if there is no number at all."""
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    if len(numbers) and numbers.isna().all():
        raise TraceError(f"'{path}': column '{column.name}' has no numbers; its first value is {column.iloc[0]!r}")
    return numbers


def _recording(name: str, frame: Any, key: str, attributes: tuple[str, ...], *, epochs: int) -> Recording:
    frame = frame[frame["epoch"] < epochs]
    table = pa.Table.from_pandas(frame[["seq", "epoch", key, *attributes]], preserve_index=False)
    table = table.set_column(1, "epoch", table["epoch"].cast(pa.int64()))
    order = np.argsort(table["epoch"].to_numpy(), kind="stable")
    table = table.take(pa.array(order))
    bounds = np.searchsorted(table["epoch"].to_numpy(), np.arange(epochs + 1))
    epoch_tables = [table.slice(first, last - first) for first, last in pairwise(bounds) if last > first]
    return Recording(name, (key,), epoch_tables)
