"""Runs one job on a local cluster from submission to its end, injects the faults of a schedule, and writes the history."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.app.load import load_app
from holdfast.control import ABSENT, CONFIGURATION, EXCEEDED, PRODUCER
from holdfast.documents.column_mapping import read_columns
from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.history import History, HistoryEvent, read_history
from holdfast.documents.job import Job, Layout, Task
from holdfast.engine.trace_reader import require_trace_exists
from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store
from holdfast.log.timeline import Timeline, read_timeline
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.trial.checkers import task_of_replica
from holdfast.trial.fault_injector import FaultInjector, resolve_faults
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.run_view import replica_errors

ENDS = ("completed", "canceled", "failed")
INTERRUPTED = "interrupted"
PROBE = "probe"
POLL_S = 0.25
SPARE_EPOCHS = 3
"""A job may additionally stand still for this many epochs, because progress is only visible at the end of an epoch."""

NO_PROGRESS_FACTOR = 5
"""A job whose replicas restart may go without progress this many times as long as one that stands still."""

BEGIN_S = 600.0
"""How long a job may take to begin. Loading, planning and compiling show no progress, and take minutes on a busy machine."""

Show = Callable[[dict[str, Any], list[dict[str, Any]], Timeline | None], None]
"""Shows the progress. It gets the job's document, the nodes' documents, and the timeline once the job has begun."""


@dataclass(frozen=True)
class JobRun:
    """How a job ended, with its tasks, timeline and history. `scheduled` counts the faults of its schedule."""

    state: str
    reason: str
    tasks: tuple[Task, ...]
    timeline: Timeline | None
    events: list[HistoryEvent]
    seconds: float
    scheduled: int = 0


def run_job(
    job: Job,
    layout: Layout,
    cluster: LocalCluster,
    *,
    schedule: Schedule | None = None,
    for_s: float | None = None,
    settle_s: float = 120.0,
    show: Show | None = None,
    resume: bool = False,
) -> JobRun:
    """Submit a job to a started cluster, inject the faults of the schedule, and follow the job to its end.

    With `resume`, the cluster's unfinished job continues, and faults that were due before its interruption are left out. A run
    that a signal interrupts ends with the state 'interrupted'.

    The schedule's times count from the opening of the first epoch. A job without an end is canceled after `for_s` seconds. A job
    that has begun and then makes no progress for `settle_s` seconds and SPARE_EPOCHS epochs is reported as failed. Raises
    HoldfastError if the orchestrator does not answer for `settle_s` seconds. The longest fault's duration is added to `settle_s`.
    """
    assert job.log is not None
    faults = resolve_faults(schedule or Schedule(), layout.tasks, cluster, log=job.log)
    pending = _pending_faults(faults, cluster, Store(job.log)) if resume else faults
    history = History(cluster.work / "history-run.jsonl", "run")
    client, since_s = cluster.client, time.time()
    number = _unfinished_job(cluster) if resume else client.submit(job)
    listener = _Listener(cluster, history, number, since_s=since_s)
    latest = _LatestJob()
    injector = FaultInjector(cluster, pending, history=history, log=job.log, nodes_of_tasks=latest.nodes_of_tasks)
    began_s = time.monotonic()
    try:
        settle_s += max((fault.lasts_s or 0.0 for fault in faults), default=0.0)
        store = Store(job.log)
        document, timeline = _follow(cluster, number, store, injector, latest, for_s=for_s, settle_s=settle_s, show=show)
    except (KeyboardInterrupt, SystemExit):
        document, timeline = {"state": INTERRUPTED, "reason": "by a signal"}, read_timeline(Store(job.log))
    finally:
        injector.stop()
        listener.stop()
        history.close()
    injector.check()
    events = read_history(cluster.work)
    seconds = time.monotonic() - began_s
    reason = document.get("reason") or ""
    return JobRun(document["state"], reason, layout.tasks, timeline, events, seconds=seconds, scheduled=len(faults))


def _unfinished_job(cluster: LocalCluster) -> int:
    """Return the number of the cluster's job that has not ended. Raises HoldfastError if there is none."""
    states = {int(job["id"]): job["state"] for job in cluster.client.all_jobs()}
    number = next((number for number, state in states.items() if state not in ENDS), None)
    if number is None:
        ended = f"its job is {', '.join(sorted(set(states.values())))}" if states else "it has no job"
        raise HoldfastError(f"the run in '{cluster.work}' cannot be resumed: {ended}; run it again with another --work")
    return number


def _pending_faults(faults: Sequence[ScheduledFault], cluster: LocalCluster, store: Store) -> list[ScheduledFault]:
    """Return the faults that were not due yet when the run was interrupted."""
    timeline, events = read_timeline(store), read_history(cluster.work)
    if timeline is None or not events:
        return list(faults)
    return [fault for fault in faults if timeline.opened_s + fault.at_s > max(event.at_s for event in events)]


def _follow(
    cluster: LocalCluster,
    number: int,
    store: Store,
    injector: FaultInjector,
    latest: "_LatestJob",
    *,
    for_s: float | None,
    settle_s: float,
    show: Show | None,
) -> tuple[dict[str, Any], Timeline | None]:
    """Poll a job until it ends or stands still too long. Returns its last document and its timeline, if it has begun."""
    client = cluster.client
    timeline: Timeline | None = None
    progress = _ProgressWatch(settle_s)
    answered_s = time.monotonic()
    while True:
        injector.check()
        cluster.restart_killed()
        try:
            document, nodes = client.job(number), client.nodes()
        except (OrchestratorUnreachable, ClientError) as error:
            if isinstance(error, ClientError) and error.status != 503:
                raise
            if time.monotonic() - answered_s > settle_s:
                raise HoldfastError(f"the orchestrator has not answered for {settle_s:g} s: {error}") from error
            time.sleep(POLL_S)
            continue
        answered_s = time.monotonic()
        latest.document = document
        if timeline is None:
            timeline = read_timeline(store)
            if timeline is not None:
                injector.start(at_s=timeline.opened_s)
        if show is not None:
            show(document, nodes, timeline)
        if document["state"] in ENDS:
            return document, timeline
        overdue = for_s is not None and timeline is not None and time.time() > timeline.opened_s + for_s
        if overdue and document["state"] == "running":
            client.cancel(number)
            for_s = None
        if (stuck := progress.check(document, timeline)) is not None:
            return {**document, "state": "failed", "reason": stuck}, timeline
        time.sleep(POLL_S)


class _ProgressWatch:
    """Measures how long a job has stood still, and how long it has made no progress.

    It stands still if no replica changes its state or its clean position. It makes no progress if no replica passes the furthest
    epoch that its task had reached, although replicas may restart.
    """

    def __init__(self, settle_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settle_s, self._clock = settle_s, clock
        self._changed_s = self._progressed_s = clock()
        self._replicas: list[tuple[str, int | None]] | None = None
        self._furthest: dict[tuple[str, str], int] = {}

    def check(self, document: dict[str, Any], timeline: Timeline | None) -> str | None:
        """Return why the job counts as stuck, or None if it does not."""
        now_s = self._clock()
        replicas = [(r["state"], (r["status"] or {}).get("clean")) for task in document["tasks"] for r in task["replicas"]]
        if replicas != self._replicas:
            self._changed_s, self._replicas = now_s, replicas
        if self._has_progressed(document) or timeline is None:
            self._progressed_s = now_s
        limit_s = BEGIN_S if timeline is None else self._settle_s + SPARE_EPOCHS * timeline.epoch_s / timeline.speed
        if now_s - self._changed_s > limit_s:
            return _describe_stuck_job(document, f"has stood still for {limit_s:g} s")
        if now_s - self._progressed_s > NO_PROGRESS_FACTOR * limit_s:
            time_text = f"{NO_PROGRESS_FACTOR * limit_s:g} s"
            return _describe_stuck_job(document, f"has made no progress for {time_text}, although its replicas were restarted")
        return None

    def _has_progressed(self, document: dict[str, Any]) -> bool:
        """Return whether a replica's live or clean position is at an epoch that no replica of its task had reached."""
        progressed = False
        for task in document["tasks"]:
            for status in (replica["status"] or {} for replica in task["replicas"]):
                for position in ("live", "clean"):
                    key, epoch = (task["task"], position), status.get(position)
                    if epoch is not None and epoch > self._furthest.get(key, -1):
                        self._furthest[key], progressed = epoch, True
        return progressed


def _describe_stuck_job(document: dict[str, Any], symptom: str) -> str:
    states = {f"{task['task']} {replica['state']}" for task in document["tasks"] for replica in task["replicas"]}
    job = f"job '{document['name']}' {symptom} (it is {document['state']})"
    return "; ".join([f"{job}: {', '.join(sorted(states))}", *replica_errors(document)])


@dataclass
class _LatestJob:
    """The newest document of the job, for times when the orchestrator is unreachable."""

    document: dict[str, Any] | None = None

    def nodes_of_tasks(self) -> dict[str, set[str]]:
        """Return, for each task, the nodes that have a replica of it."""
        tasks = self.document["tasks"] if self.document else []
        return {task["task"]: {replica["node"] for replica in task["replicas"]} for task in tasks}


class _Listener:
    """Writes the orchestrator's events into the history. Events of an unreachable orchestrator arrive late, or never.

    Events that are older than the job, or that belong to other jobs of the cluster, are left out.
    """

    def __init__(self, cluster: LocalCluster, history: History, job: int, *, since_s: float) -> None:
        self._cluster, self._history, self._job, self._since_s = cluster, history, job, since_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        after = 0
        while not self._stopping.is_set():
            try:
                for event in self._cluster.client.events(after=after, wait_s=1.0)["events"]:
                    after = event["number"]
                    if event["at_s"] >= self._since_s and event.get("job") in (None, self._job):
                        self._write(event)
            except (HoldfastError, OSError):
                self._stopping.wait(POLL_S)

    def _write(self, event: dict[str, Any]) -> None:
        about = {"text": event["text"], "what": event["kind"], "reported_s": event["at_s"]}
        for name in ("node", "replica", "job"):
            if event.get(name) is not None:
                about[name] = event[name]
        about |= {name: event["data"][name] for name in ("task", "epochs", CONFIGURATION, EXCEEDED) if name in event["data"]}
        self._history.append("orchestrator", about)
        if event["kind"] == "replica" and event["data"].get("state") in ("failed", "lost"):
            task = task_of_replica(event["replica"])
            self._history.append("detected", {"tasks": [task], "node": event.get("node"), "replica": event["replica"]})
        if event["kind"] == "control" and "error" in event["data"]:
            about = {"task": event["data"]["task"], "why": event["data"]["error"]}
            self._history.append("unprotected", about, at_s=event["at_s"])
        for stream, epoch, closed_s in event["data"].get(ABSENT, ()):
            self._write_absent_commit(event, stream, epoch, closed_s)

    def _write_absent_commit(self, event: dict[str, Any], stream: str, epoch: int, closed_s: float) -> None:
        """Write the orchestrator's commit of an absent epoch in the form in which producers write theirs."""
        number = int(event["data"]["task"].rpartition("/")[2])
        record = {"stream": stream, "task": number, "epoch": epoch, "as": "first", "quality": Quality.ABSENT.value, "rows": 0}
        self._history.append("commit", {**record, "closed_s": closed_s, "producer": PRODUCER}, at_s=event["at_s"])


def create_run_folder(work: Path, *, resume: bool = False) -> Path:
    """Create the folder of a run and return its absolute path. Raises HoldfastError if the folder has contents.

    With `resume` it must be the folder of an earlier run.
    """
    if resume:
        if not (work / "orchestrator").is_dir():
            raise HoldfastError(f"'{work}' has no run to resume; leave out --resume to start one")
        return work.resolve()
    if work.exists() and any(work.iterdir()):
        raise HoldfastError(
            f"'{work}' is not empty; give another --work, remove its files, or continue an interrupted run with run --resume"
        )
    work.mkdir(parents=True, exist_ok=True)
    return work.resolve()


def require_nodes(layout: Layout, nodes: int) -> None:
    """Raise HoldfastError if there are fewer nodes than replicas of one task, or than nodes of the strategy."""
    most = max(layout.tasks, key=lambda task: task.replicas)
    names = sorted({name for names in layout.nodes.values() for name in names})
    if most.replicas > nodes:
        raise HoldfastError(
            f"{most.name} needs {most.replicas} replicas, each on its own node, but --nodes is {nodes}; give more nodes"
        )
    if len(names) > nodes:
        raise HoldfastError(f"the strategy is for {len(names)} nodes ({', '.join(names)}), but --nodes is {nodes}; give more nodes")


def require_source_data(job: Job) -> None:
    """Raise HoldfastError if a source has neither a trace nor a reader, or if the trace's columns cannot be mapped."""
    assert job.application is not None
    sources = load_app(job.application).graph().sources
    if job.feed.trace is not None:
        require_trace_exists(job.feed.trace)
        read_columns(Path(job.feed.columns) if job.feed.columns else None, [source.name for source in sources])
        return
    errors = [
        f"source '{source.name}' ({source.origin}) has no reader"
        for source in sources
        if source.reader is None and source.input is None
    ]
    if errors:
        raise HoldfastError(
            f"{'; '.join(errors)}; give a --trace to replay, or give the source an input (kafka=, files=, delta=, iceberg=, "
            "reader=)"
        )


def require_unused_log_and_output(job: Job, layout: Layout) -> None:
    """Raise HoldfastError if the log or the output of a job has contents, because this run's history does not cover them."""
    assert job.log is not None and job.out is not None
    if read_timeline(Store(job.log)) is not None:
        raise HoldfastError(f"the log at '{job.log}' belongs to an earlier run; give another --log, or remove it")
    out = Store(job.out, what="output")
    for sink in sorted(task.pe for task in layout.tasks if task.kind == "sink"):
        if any(out.names(f"{quote(sink, safe='')}/")):
            raise HoldfastError(
                f"'{job.out}' contains the output of an earlier run for sink '{sink}'; give another --out, or remove it"
            )


def require_writable(job: Job) -> None:
    """Raise HoldfastError if the log or the output of a job is not writable. A running job would only wait for it."""
    assert job.log is not None and job.out is not None
    for store in (Store(job.log), Store(job.out, what="output")):
        store.replace(PROBE, b"?")
        store.remove([PROBE])
