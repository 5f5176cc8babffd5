"""Even traces for windowed applications, and complete runs over them. The studies of recovery and of checkpoints share these."""

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
from holdfast.trial import JobRun, LocalCluster, Show, layout_of, run_job


def write_windows(path: Path, *, seconds: int, rate: int, keys: int) -> None:
    """Write a trace of evenly spaced tuples whose keys take turns."""
    count = rate * seconds
    begins = datetime(2024, 1, 1, tzinfo=UTC)
    times = [begins + timedelta(seconds=(n + 0.5) / rate) for n in range(count)]
    seq = np.arange(1, count + 1)
    columns = {"seq": seq, "time": pa.array(times, pa.timestamp("us", "UTC")), "key": seq % keys, "value": (seq % 97).astype(float)}
    pq.write_table(pa.table(columns), path)


def run_to_end(
    cluster: LocalCluster,
    name: str,
    application: Path,
    trace: Path,
    terms: Mapping[str, Any],
    *,
    what: str,
    faults: Schedule | None = None,
    show: Show | None = None,
) -> JobRun:
    """Run a job over a trace to its end. `terms` are further fields of the job. Raises HoldfastError, which names `what`."""
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
    job_run = run_job(job, layout_of(job), cluster, schedule=faults, show=show)
    if job_run.state != "completed" or job_run.timeline is None:
        raise HoldfastError(f"{what}: the job ended as {job_run.state}: {job_run.reason or 'no reason given'}")
    return job_run
