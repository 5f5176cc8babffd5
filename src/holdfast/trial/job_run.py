"""One job on a local cluster from submission to its end, with the faults of a schedule, and the history of it all."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.app.load import load_app
from holdfast.control.observers.absent_epochs import ABSENT, PRODUCER
from holdfast.control.observers.activation import EXCEEDED
from holdfast.documents.column_mapping import read_columns
from holdfast.documents.fault_schedule import Schedule
from holdfast.documents.history import History, HistoryEvent, read_history
from holdfast.documents.job import Job, Layout, Task
from holdfast.engine.trace_reader import require_there
from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store
from holdfast.log.timeline import Timeline, read_timeline
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.trial.fault_injector import FaultInjector, resolve_faults
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.run_view import replica_errors

ENDS = ("completed", "canceled", "failed")
PROBE = "probe"
LOOK_S = 0.25
SPARE_EPOCHS = 3
"""A job may stand still for the time of so many epochs beside all else: where epochs are long, so is the silence between them."""

TRIES = 5
"""So many times as long a job that has begun may get no further: what is started anew moves, though nothing may come of it."""

BEGIN_S = 600.0
"""How long a job may take to begin: what is loaded, planned and compiled then says nothing of how far it is, and on a machine with
too much to do it takes minutes."""

Show = Callable[[dict[str, Any], list[dict[str, Any]], Timeline | None], None]
"""Shows how it goes: the job's story, the nodes, the timeline once there is one."""


@dataclass(frozen=True)
class JobRun:
    """How a job ended, and everything that is known about it; `scheduled` is how many faults were to strike it."""

    state: str
    reason: str
    story: dict[str, Any]
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
) -> JobRun:
    """Submit a job to a started cluster and follow it to its end; the schedule's times count from the opening of its first epoch.

    `for_s` cancels a job that has no end. One that, once it has begun, does nothing for `settle_s` seconds and the time of some
    epochs has failed. Raises HoldfastError when the orchestrator does not answer for as long. The time that a fault may last counts
    for neither.
    """
    assert job.log is not None
    faults = resolve_faults(schedule or Schedule(), layout.tasks, cluster, log=job.log)
    history = History(cluster.work / "history-run.jsonl", "run")
    client, since_s = cluster.client, time.time()
    number = client.submit(job)
    listener = _Listener(cluster, history, number, since_s=since_s)
    seen = _Seen()
    chaos = FaultInjector(cluster, faults, history=history, log=job.log, hosts_of=seen.hosts)
    begun = time.monotonic()
    try:
        settle_s += max((fault.lasts_s or 0.0 for fault in faults), default=0.0)
        story, timeline = _follow(cluster, number, Store(job.log), chaos, seen, for_s=for_s, settle_s=settle_s, show=show)
    finally:
        chaos.stop()
        listener.stop()
        history.close()
    chaos.check()
    events = read_history(cluster.work)
    seconds = time.monotonic() - begun
    reason = story.get("reason") or ""
    return JobRun(story["state"], reason, story, layout.tasks, timeline, events, seconds=seconds, scheduled=len(faults))


def _follow(
    cluster: LocalCluster,
    number: int,
    store: Store,
    chaos: FaultInjector,
    seen: "_Seen",
    *,
    for_s: float | None,
    settle_s: float,
    show: Show | None,
) -> tuple[dict[str, Any], Timeline | None]:
    client = cluster.client
    timeline: Timeline | None = None
    movement = _Movement(settle_s)
    answered = time.monotonic()
    story: dict[str, Any] = {}
    while True:
        chaos.check()
        cluster.restart_killed()
        try:
            story, nodes = client.job(number), client.nodes()
        except (OrchestratorUnreachable, ClientError) as error:
            if isinstance(error, ClientError) and error.status != 503:
                raise
            if time.monotonic() - answered > settle_s:
                raise HoldfastError(f"the orchestrator has not answered for {settle_s:g} s: {error}") from error
            time.sleep(LOOK_S)
            continue
        answered = time.monotonic()
        seen.story = story
        if timeline is None:
            timeline = read_timeline(store)
            if timeline is not None:
                chaos.start(at_s=timeline.opened_s)
        if show is not None:
            show(story, nodes, timeline)
        if story["state"] in ENDS:
            return story, timeline
        if for_s is not None and timeline is not None and time.time() > timeline.opened_s + for_s and story["state"] == "running":
            client.cancel(number)
            for_s = None
        if (stuck := movement.look(story, timeline)) is not None:
            return {**story, "state": "failed", "reason": stuck}, timeline
        time.sleep(LOOK_S)


class _Movement:
    """Since when a job has stood still: none of its replicas has changed its state or got further; and since when, whatever is
    started anew, none has got further than its task ever was."""

    def __init__(self, settle_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settle_s, self._clock = settle_s, clock
        self._since_s = self._further_s = clock()
        self._at: list[tuple[str, int | None]] | None = None
        self._furthest: dict[tuple[str, str], int] = {}

    def look(self, story: dict[str, Any], timeline: Timeline | None) -> str | None:
        """What there is to say of a job that has stood still for too long; None while it has not."""
        now_s = self._clock()
        at = [(r["state"], (r["status"] or {}).get("clean")) for task in story["tasks"] for r in task["replicas"]]
        if at != self._at:
            self._since_s, self._at = now_s, at
        if self._got_further(story) or timeline is None:
            self._further_s = now_s
        limit_s = BEGIN_S if timeline is None else self._settle_s + SPARE_EPOCHS * timeline.epoch_s / timeline.speed
        if now_s - self._since_s > limit_s:
            return _stuck(story, f"has not moved for {limit_s:g} s")
        if now_s - self._further_s > TRIES * limit_s:
            return _stuck(story, f"has got no further for {TRIES * limit_s:g} s, though its replicas were started anew")
        return None

    def _got_further(self, story: dict[str, Any]) -> bool:
        """Whether a head of a task is at an epoch that none of its replicas had come to."""
        further = False
        for task in story["tasks"]:
            for status in (replica["status"] or {} for replica in task["replicas"]):
                for head in ("live", "clean"):
                    key, epoch = (task["task"], head), status.get(head)
                    if epoch is not None and epoch > self._furthest.get(key, -1):
                        self._furthest[key], further = epoch, True
        return further


def _stuck(story: dict[str, Any], how: str) -> str:
    states = {f"{task['task']} {replica['state']}" for task in story["tasks"] for replica in task["replicas"]}
    said = f"job '{story['name']}' {how} (it is {story['state']})"
    return "; ".join([f"{said}: {', '.join(sorted(states))}", *replica_errors(story)])


@dataclass
class _Seen:
    """The job as it was last seen: the orchestrator may be away when someone asks."""

    story: dict[str, Any] | None = None

    def hosts(self) -> dict[str, set[str]]:
        """Per task the nodes that have a replica of it."""
        tasks = self.story["tasks"] if self.story else []
        return {task["task"]: {replica["node"] for replica in task["replicas"]} for task in tasks}


class _Listener:
    """Writes what the orchestrator tells into the history; an orchestrator that is away tells it later, or not at all.

    It also tells what was before, and of earlier jobs that this cluster ran: that is not this job's history.
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
                for happened in self._cluster.client.events(after=after, wait_s=1.0)["events"]:
                    after = happened["number"]
                    if happened["at_s"] >= self._since_s and happened.get("job") in (None, self._job):
                        self._note(happened)
            except (HoldfastError, OSError):
                self._stopping.wait(LOOK_S)

    def _note(self, happened: dict[str, Any]) -> None:
        about = {"text": happened["text"], "what": happened["kind"], "reported_s": happened["at_s"]}
        for name in ("node", "replica", "job"):
            if happened.get(name) is not None:
                about[name] = happened[name]
        about |= {name: happened["data"][name] for name in ("task", "epochs", EXCEEDED) if name in happened["data"]}
        self._history.append("orchestrator", about)
        if happened["kind"] == "replica" and happened["data"].get("state") in ("failed", "lost"):
            task = happened["replica"].split(":", 1)[1].rsplit(".", 1)[0]
            self._history.append("detected", {"tasks": [task], "node": happened.get("node"), "replica": happened["replica"]})
        if happened["kind"] == "control" and "problem" in happened["data"]:
            about = {"task": happened["data"]["task"], "why": happened["data"]["problem"]}
            self._history.append("unprotected", about, at_s=happened["at_s"])
        for stream, epoch, closed_s in happened["data"].get(ABSENT, ()):
            self._note_absent(happened, stream, epoch, closed_s)

    def _note_absent(self, happened: dict[str, Any], stream: str, epoch: int, closed_s: float) -> None:
        """A commit as producers tell of theirs: what is absent, the orchestrator has committed."""
        number = int(happened["data"]["task"].rpartition("/")[2])
        made = {"stream": stream, "task": number, "epoch": epoch, "as": "first", "quality": Quality.ABSENT.value, "rows": 0}
        self._history.append("commit", {**made, "closed_s": closed_s, "producer": PRODUCER}, at_s=happened["at_s"])


def create_run_folder(work: Path) -> Path:
    """A run's folder, new or empty; raises HoldfastError where another run has been."""
    if work.exists() and any(work.iterdir()):
        raise HoldfastError(f"'{work}' is not empty; give another --work, or remove what an earlier run left there")
    work.mkdir(parents=True, exist_ok=True)
    return work.resolve()


def require_nodes(layout: Layout, nodes: int) -> None:
    """Raise HoldfastError where so many nodes are too few: replicas of one task, and the nodes of a strategy, have a node each."""
    most = max(layout.tasks, key=lambda task: task.replicas)
    names = sorted({name for names in layout.nodes.values() for name in names})
    if most.replicas > nodes:
        raise HoldfastError(
            f"{most.name} wants {most.replicas} replicas, each on a node of its own, and --nodes is {nodes}; give more nodes"
        )
    if len(names) > nodes:
        raise HoldfastError(f"the strategy is for {len(names)} nodes ({', '.join(names)}), and --nodes is {nodes}; give more nodes")


def require_source_data(job: Job) -> None:
    """Raise HoldfastError where a source has neither a trace to read nor a reader, or the trace's columns cannot be mapped."""
    assert job.application is not None
    sources = load_app(job.application).graph().sources
    if job.feed.trace is not None:
        require_there(job.feed.trace)
        read_columns(Path(job.feed.columns) if job.feed.columns else None, [source.name for source in sources])
        return
    bare = [f"source '{source.name}' ({source.origin}) has no reader" for source in sources if source.reader is None]
    if bare:
        raise HoldfastError(f"{'; '.join(bare)}; give a --trace to replay, or the source its reader (reader=...)")


def require_unused_log_and_output(job: Job, layout: Layout) -> None:
    """Raise HoldfastError where a job's log or output has been written to before: what this run's history does not tell of cannot
    be judged by it."""
    assert job.log is not None and job.out is not None
    if read_timeline(Store(job.log)) is not None:
        raise HoldfastError(f"the log at '{job.log}' is that of an earlier run; give another --log, or remove it")
    out = Store(job.out, what="output")
    for sink in sorted(task.pe for task in layout.tasks if task.kind == "sink"):
        if any(out.names(f"{quote(sink, safe='')}/")):
            raise HoldfastError(f"'{job.out}' has the output of an earlier run at '{sink}'; give another --out, or remove it")


def require_writable(job: Job) -> None:
    """Raise HoldfastError where a job's log or output cannot be written to: once it runs, that is waited for."""
    assert job.log is not None and job.out is not None
    for store in (Store(job.log), Store(job.out, what="output")):
        store.replace(PROBE, b"?")
        store.remove([PROBE])
