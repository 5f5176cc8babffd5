"""Machines that have gone silent, with transformWithState: a state per machine, and timers in event time.

A machine that has not reported for six seconds of event time gives an alarm, with the number of its reports and its highest
temperature so far. Spark keeps this state in RocksDB. It needs the extra `stateful`: pip install 'holdfast[stateful]'.

    python examples/idle_machines.py reports.parquet      # writes a trace of two minutes
    holdfast run examples/idle_machines.py --trace reports.parquet
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from holdfast import App

SILENT_MS = 6_000
ALARM = "machine string, silent_since timestamp, reports long, highest double"

app = App("idle-machines", epoch_s=1.0)

reports = app.source("reports", "seq long, time timestamp, measured_at timestamp, machine string, temperature double")


class Silence(StatefulProcessor):
    """Registers a timer with each report, and gives an alarm when one expires."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("state", "last_ms long, reports long, highest double")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timers: Any) -> Iterator[pd.DataFrame]:
        new = pd.concat(list(rows))
        last_ms, count, highest = self._state.get() or (0, 0, float("-inf"))
        newest_ms = max(last_ms, int(new["measured_at"].max().timestamp() * 1000))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(newest_ms + SILENT_MS)
        self._state.update((newest_ms, count + len(new), max(highest, float(new["temperature"].max()))))
        yield from ()

    def handleExpiredTimer(self, key: Any, timers: Any, expired: Any) -> Iterator[pd.DataFrame]:
        last_ms, count, highest = self._state.get()
        since = pd.Timestamp(last_ms, unit="ms")
        yield pd.DataFrame({"machine": [key[0]], "silent_since": [since], "reports": [count], "highest": [highest]})

    def close(self) -> None:
        pass


@app.query(
    inputs=reports,
    settings={
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    },
)
def silent(reports: DataFrame) -> DataFrame:
    by_machine = reports.withWatermark("measured_at", "1 second").groupBy("machine")
    return by_machine.transformWithStateInPandas(Silence(), ALARM, outputMode="Append", timeMode="EventTime")


app.sink("alarms", silent)
app.score("alarms", "count(*)")


def write_trace(path: Path, *, seconds: int = 120, machines: int = 20, seed: int = 1) -> None:
    """Write a report per machine and second, with pauses of up to 20 seconds. A report arrives at most a second late."""
    rng = np.random.default_rng(seed)
    measured, machine = [], []
    for number in range(machines):
        now = rng.uniform(0, 2)
        while now < seconds:
            measured.append(now)
            machine.append(f"m{number:02d}")
            now += rng.uniform(0.5, 1.5) if rng.random() < 0.9 else rng.uniform(5, 20)
    late = np.where(rng.random(len(measured)) < 0.2, rng.uniform(0, 1, len(measured)), 0.0)
    arrived = np.minimum(np.array(measured) + late, seconds - 0.001)
    order = np.argsort(arrived, kind="stable")
    times = [((1_700_000_000 + s[order]) * 1e6).astype("int64") for s in (arrived, np.array(measured))]
    columns = {"seq": np.arange(1, len(order) + 1)}
    columns |= {n: pa.array(t, pa.timestamp("us", "UTC")) for n, t in zip(("time", "measured_at"), times, strict=True)}
    columns |= {"machine": [machine[i] for i in order], "temperature": np.round(rng.normal(60, 8, len(order)), 1)}
    pq.write_table(pa.table(columns), path)


if __name__ == "__main__":
    write_trace(Path(sys.argv[1]))
