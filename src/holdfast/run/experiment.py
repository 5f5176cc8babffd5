"""One job on a local cluster from submission to its end, with the faults of a schedule, and the history of it all."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.manage.client import Client, ClientError, OrchestratorAway
from holdfast.model.job import Job, Layout, Task
from holdfast.model.schedule import Schedule
from holdfast.run.chaos import Chaos, check_targets
from holdfast.run.cluster import LocalCluster
from holdfast.run.history import Event, History, read_history
from holdfast.run.timeline import Timeline, timeline_of

ENDS = ("completed", "canceled", "failed")
LOOK_S = 0.25

Show = Callable[[dict[str, Any], list[dict[str, Any]], Timeline | None], None]
"""Shows how it goes: the job's story, the nodes, the timeline once there is one."""


@dataclass(frozen=True)
class Ran:
    """How a job ended, and everything that is known about it; `scheduled` is how many faults were to strike it."""

    state: str
    reason: str
    story: dict[str, Any]
    tasks: tuple[Task, ...]
    timeline: Timeline | None
    events: list[Event]
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
) -> Ran:
    """Submit a job to a started cluster and follow it to its end; the schedule's times count from the opening of its first epoch.

    `for_s` cancels a job that has no end. Raises HoldfastError when the job does nothing for `settle_s` seconds, or the
    orchestrator does not answer for as long (and for as long as a fault may last).
    """
    assert job.log is not None
    schedule = schedule or Schedule()
    check_targets(schedule, layout.tasks, cluster, log=job.log)
    history = History(cluster.work / "history-run.jsonl", "run")
    client, since_s = cluster.client, time.time()
    number = client.submit(job)
    listener = _Listener(cluster, history, number, since_s=since_s)
    faults = schedule.drawn(
        tasks=[task.name for task in layout.tasks],
        nodes=cluster.names,
        pes=[task.name for task in layout.tasks if task.kind == "operators"],
    )
    seen = _Seen()
    chaos = Chaos(cluster, faults, history=history, log=job.log, hosts_of=seen.hosts)
    begun = time.monotonic()
    try:
        away_s = settle_s + max((fault.for_s or fault.back_after_s or 0.0 for fault in faults), default=0.0)
        story, timeline = _follow(
            client, number, Store(job.log), chaos, seen, for_s=for_s, settle_s=settle_s, away_s=away_s, show=show
        )
    finally:
        chaos.stop()
        listener.stop()
        history.close()
    chaos.check()
    events = read_history(cluster.work)
    seconds = time.monotonic() - begun
    reason = story.get("reason") or ""
    return Ran(story["state"], reason, story, layout.tasks, timeline, events, seconds=seconds, scheduled=len(faults))


def _follow(
    client: Client,
    number: int,
    store: Store,
    chaos: Chaos,
    seen: "_Seen",
    *,
    for_s: float | None,
    settle_s: float,
    away_s: float,
    show: Show | None,
) -> tuple[dict[str, Any], Timeline | None]:
    timeline: Timeline | None = None
    moved: tuple[float, object] = (time.monotonic(), None)
    answered = time.monotonic()
    story: dict[str, Any] = {}
    while True:
        chaos.check()
        try:
            story, nodes = client.job(number), client.nodes()
        except (OrchestratorAway, ClientError) as error:
            if isinstance(error, ClientError) and error.status != 503:
                raise
            if time.monotonic() - answered > away_s:
                raise HoldfastError(f"the orchestrator has not answered for {away_s:g} s: {error}") from error
            time.sleep(LOOK_S)
            continue
        answered = time.monotonic()
        seen.story = story
        if timeline is None:
            timeline = timeline_of(store)
            if timeline is not None:
                chaos.start(at_s=timeline.opened_s)
        if show is not None:
            show(story, nodes, timeline)
        if story["state"] in ENDS:
            return story, timeline
        if for_s is not None and timeline is not None and time.time() > timeline.opened_s + for_s and story["state"] == "running":
            client.cancel(number)
            for_s = None
        progress = [(r["state"], (r["status"] or {}).get("clean")) for task in story["tasks"] for r in task["replicas"]]
        if progress != moved[1]:
            moved = time.monotonic(), progress
        elif time.monotonic() - moved[0] > settle_s:
            stuck = ", ".join(
                sorted({f"{t['task']} {r['state']} {r['error'] or ''}".strip() for t in story["tasks"] for r in t["replicas"]})
            )
            raise HoldfastError(f"job '{story['name']}' has not moved for {settle_s:g} s (it is {story['state']}): {stuck}")
        time.sleep(LOOK_S)


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
        about = {"said": happened["text"], "what": happened["kind"], "told_s": happened["at_s"]}
        for name in ("node", "replica", "job"):
            if happened.get(name) is not None:
                about[name] = happened[name]
        self._history.tell("orchestrator", about)
        if happened["kind"] == "replica" and happened["data"].get("state") in ("failed", "lost"):
            task = happened["replica"].split(":", 1)[1].rsplit(".", 1)[0]
            self._history.tell("detected", {"tasks": [task], "node": happened.get("node"), "replica": happened["replica"]})


def new_folder(work: Path) -> Path:
    """A run's folder, new or empty; raises HoldfastError where another run has been."""
    if work.exists() and any(work.iterdir()):
        raise HoldfastError(f"'{work}' is not empty; give another --work, or remove what an earlier run left there")
    work.mkdir(parents=True, exist_ok=True)
    return work.resolve()


def require_new(job: Job, layout: Layout) -> None:
    """Raise HoldfastError where a job's log or output has been written to before: what this run's history does not tell of cannot
    be judged by it."""
    assert job.log is not None and job.out is not None
    if timeline_of(Store(job.log)) is not None:
        raise HoldfastError(f"the log at '{job.log}' is that of an earlier run; give another --log, or remove it")
    out = Store(job.out)
    for sink in sorted(task.pe for task in layout.tasks if task.kind == "sink"):
        if any(out.names(f"{quote(sink, safe='')}/")):
            raise HoldfastError(f"'{job.out}' has the output of an earlier run at '{sink}'; give another --out, or remove it")
