"""Even traces for windowed applications, and their runs to the end: what the studies of recovery and of checkpoints share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.documents import Job, Schedule, check_document
from holdfast.errors import HoldfastError
from holdfast.trial import JobRun, LocalCluster, layout_of, run_job


def write_windows(path: Path, *, seconds: int, rate: int, keys: int) -> None:
    """A trace of evenly spaced tuples whose keys come in turn."""
    count = rate * seconds
    begins = datetime(2024, 1, 1, tzinfo=UTC)
    times = [begins + timedelta(seconds=(n + 0.5) / rate) for n in range(count)]
    seq = np.arange(1, count + 1)
    columns = {"seq": seq, "time": pa.array(times, pa.timestamp("us", "UTC")), "key": seq % keys, "value": (seq % 97).astype(float)}
    pq.write_table(pa.table(columns), path)


def completed(
    cluster: LocalCluster,
    name: str,
    application: Path,
    trace: Path,
    terms: Mapping[str, Any],
    *,
    what: str,
    faults: Schedule | None = None,
) -> JobRun:
    """A job's run over a trace, to its end; `terms` are what else the job says. Raises HoldfastError of `what` where it fails."""
    document = {
        "job": name,
        "type": "finite",
        "application": str(application),
        "feed": {"trace": str(trace)},
        "log": str(cluster.work / name / "log"),
        "out": str(cluster.work / name / "out"),
        **terms,
    }
    job = check_document(document, Job, thing="the study's job")
    ran = run_job(job, layout_of(job), cluster, schedule=faults)
    if ran.state != "completed" or ran.timeline is None:
        raise HoldfastError(f"{what}: the job ended as {ran.state}: {ran.reason or 'no reason given'}")
    return ran
