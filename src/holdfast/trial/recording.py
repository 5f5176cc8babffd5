"""Records the rows of an application's sources as a trace: replicas of the sources fill a log, which is then sorted by time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from holdfast.documents.job import Job, Task
from holdfast.errors import HoldfastError, UnavailableError
from holdfast.job_layout import layout_of
from holdfast.log import EpochLog
from holdfast.log.row_files import read_rows
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime.replica import Replica
from holdfast.runtime.replica_factory import POLL_S, ReplicaFactory

UNAVAILABLE_LIMIT_S = 120.0
TIME = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Recording:
    """How many rows of each source were recorded, and how many could not be read or were lost."""

    rows: dict[str, int]
    skipped: int
    lost: int


def record_sources(
    spark: SparkSession,
    application: str,
    folder: Path,
    *,
    scratch: Path,
    for_s: float | None,
    max_rows: int | None,
    progress: Callable[[int, float], None],
) -> Recording:
    """Record all sources for some seconds, or until they have `max_rows` rows, as a Parquet file per source.

    All rows are numbered from 1 in the order of their times, as a trace must be. A row without a time has that of its arrival.
    `progress` is called with the rows and the seconds that were recorded.
    """
    job = Job(job="recording", application=application, log=str(scratch / "log"), out=str(scratch / "out"), sync=False)
    layout = layout_of(job)
    events: list[dict[str, Any]] = []

    def note(kind: str, about: dict[str, Any]) -> None:
        if kind == "incomplete input":
            events.append(about)

    factory = ReplicaFactory(spark, 1, layout.settings, node="recorder", emit=note, scratch=scratch)
    tasks = [task for task in layout.tasks if task.kind == "source"]
    replicas: list[Replica] = []
    try:
        for task in tasks:
            created = factory.create(AssignedReplica(job=1, pe=task.pe, task=task.task, replica=0), lambda: False)
            assert created is not None
            replica, timeline = created
            replicas.append(replica)
        _run(replicas, for_s=for_s, max_rows=max_rows, progress=progress)
    finally:
        for replica in replicas:
            replica.close()
    tables = _read(factory, tasks, timeline)
    sources = {task.pe for task in tasks}
    if tables.keys() == sources:
        tables = _in_order_of_time(tables, max_rows)
    empty = sorted(sources - {name for name, table in tables.items() if table.num_rows})
    if empty:
        raise HoldfastError(
            f"the recording has no rows of source '{empty[0]}', and a trace needs rows of every source; record longer, or let the "
            "source start earlier"
        )
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    counts = {name: table.num_rows for name, table in tables.items()}
    return Recording(counts, *(sum(about[kind] for about in events) for kind in ("skipped", "lost")))


def _run(replicas: list[Replica], *, for_s: float | None, max_rows: int | None, progress: Callable[[int, float], None]) -> None:
    began_s = available_s = time.monotonic()
    while True:
        try:
            has_worked = sum(replica.step() for replica in replicas) > 0
            available_s = time.monotonic()
        except UnavailableError:
            if time.monotonic() - available_s > UNAVAILABLE_LIMIT_S:
                raise
            has_worked = False
        rows, seconds = sum(replica.rows_read for replica in replicas), time.monotonic() - began_s
        progress(rows, seconds)
        if (max_rows is not None and rows >= max_rows) or (for_s is not None and seconds >= for_s):
            return
        if not has_worked:
            time.sleep(POLL_S)


def _read(factory: ReplicaFactory, tasks: list[Task], timeline: Timeline) -> dict[str, pa.Table]:
    """Return the rows of each source, with the end of their epoch as the time of those that have none."""
    log = EpochLog(factory.store)
    tables: dict[str, list[pa.Table]] = {task.pe: [] for task in tasks}
    for task in tasks:
        for epoch in range(timeline.first, log.last_exact_epoch(task.pe, task.task, after=timeline.first - 1) + 1):
            record = log.final(task.pe, task.task, epoch=epoch)
            for file in () if record is None else record.files:
                rows = read_rows(factory.store, file)
                arrival = pa.scalar(int(timeline.closes_s(epoch) * 1e6), pa.int64()).cast(TIME)
                if "time" in rows.column_names:
                    time_column = rows["time"].fill_null(arrival.cast(rows["time"].type))
                else:
                    time_column = pa.repeat(arrival, rows.num_rows)
                others = [name for name in rows.column_names if name not in ("epoch", "time")]
                tables[task.pe].append(rows.select(others).append_column("time", time_column))
    return {name: pa.concat_tables(parts) for name, parts in tables.items() if parts}


def _in_order_of_time(tables: dict[str, pa.Table], max_rows: int | None) -> dict[str, pa.Table]:
    """Return at most `max_rows` rows of all tables together, numbered in the order of their times."""
    times, seqs = (
        np.concatenate([table[name].cast(kind).cast(pa.int64()).to_numpy() for table in tables.values()])
        for name, kind in (("time", TIME), ("seq", pa.int64()))
    )
    numbers = np.empty(len(times), np.int64)
    numbers[np.lexsort((seqs, times))] = np.arange(1, len(times) + 1)
    ordered, at = {}, 0
    for name, table in tables.items():
        own = pa.array(numbers[at : at + table.num_rows])
        at += table.num_rows
        table = table.set_column(table.column_names.index("seq"), "seq", own).sort_by("seq")
        ordered[name] = table if max_rows is None else table.filter(pc.less_equal(table["seq"], max_rows))
    return ordered
