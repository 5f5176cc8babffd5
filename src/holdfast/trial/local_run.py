"""Run one job on a local cluster: check everything first, start the cluster, run the job, stop the cluster."""

from collections.abc import Callable

from holdfast.documents.fault_schedule import Schedule
from holdfast.documents.job import Job
from holdfast.job_layout import layout_of
from holdfast.protocol.client import Client
from holdfast.trial.fault_injector import resolve_faults
from holdfast.trial.job_run import (
    JobRun,
    Show,
    require_nodes,
    require_source_data,
    require_unused_log_and_output,
    require_writable,
    run_job,
)
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.second_law import keep_ingested_rows


def run_locally(
    job: Job,
    cluster: LocalCluster,
    *,
    schedule: Schedule,
    for_s: float | None,
    verify: bool,
    on_start: Callable[[], None],
    on_started: Callable[[Client], None],
    show: Show,
    resume: bool = False,
) -> JobRun:
    """Run a job to its end on a cluster that is started for it, and inject the faults of a schedule. `resume`: see `run_job`.

    Raises HoldfastError before anything starts if the cluster cannot run the job, if its log or output is in use or not writable,
    or if a fault has no target. Calls `on_start` before the cluster starts and `on_started` when it is ready. With `verify`, the
    log keeps the rows that readers ingest.
    """
    layout = layout_of(job)
    require_nodes(layout, len(cluster.names))
    if not resume:
        require_unused_log_and_output(job, layout)
    require_writable(job)
    require_source_data(job)
    if verify and job.feed.trace is None:
        keep_ingested_rows(job, layout.tasks)
    resolve_faults(schedule, layout.tasks, cluster, log=str(job.log))
    try:
        on_start()
        on_started(cluster.start())
        return run_job(job, layout, cluster, schedule=schedule, for_s=for_s, show=show, resume=resume)
    finally:
        cluster.close()
