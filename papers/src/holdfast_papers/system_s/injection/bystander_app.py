"""An application on Spark that runs during a campaign against the control plane, and that the campaign must not disturb.

It runs in rounds. Each round is a job over the same trace, so that one runs as long as the campaign and ends soon after it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.app import load_app
from holdfast.documents import Feed, HistoryEvent, Job, read_history
from holdfast.engine import open_session, open_trace
from holdfast.errors import HoldfastError
from holdfast.log import Store, read_timeline
from holdfast.protocol import ClientError, OrchestratorUnreachable
from holdfast.trial import HOLDFAST, ProcessCluster, differences

NODES = ("s1", "s2")
START_S, END_S = 180.0, 600.0
SPEED = 0.2
"""The replay speed. It is low, so that most of the machine is left to the campaign."""


@dataclass
class BystanderApp:
    """The application, its trace, the rounds it ran, and the errors found in them."""

    application: Path
    trace: Path
    errors: list[str] = field(default_factory=list)
    epochs: int = 0
    rounds: list[Job] = field(default_factory=list)
    _number: int = 0

    @contextmanager
    def running(self, cluster: ProcessCluster) -> Iterator[Callable[[], None]]:
        """Run the application on its own Spark nodes; on exit, wait for its end and check it.

        Yields a function that starts the next round if the current one has ended.
        """
        for name in NODES:
            work = str(cluster.node_work(name))
            options = ["--orchestrator", str(cluster.folder), "--name", name, "--work", work, "--cores", "1", "--metrics-port", "0"]
            cluster.start_process(name, [*HOLDFAST, "node", *options])
        try:
            cluster.wait_until(
                lambda: {*NODES} <= {node["name"] for node in cluster.client.nodes()}, limit_s=START_S, what="Spark nodes up"
            )
            self._begin(cluster)
            yield lambda: self._keep_running(cluster)
            self._end(cluster)
            self.errors += find_needless_starts(self._history(cluster))
            self._compare()
        finally:
            for name in NODES:
                cluster.kill(name)
                cluster.kill_host(name)

    def _begin(self, cluster: ProcessCluster) -> None:
        """Start a round, and wait until its first epoch opens."""
        folder = cluster.work / "beside" / str(len(self.rounds) + 1)
        job = Job(
            job=f"beside-{len(self.rounds) + 1}",
            type="finite",
            application=str(self.application),
            feed=Feed(trace=str(self.trace), speed=SPEED),
            log=str(folder / "log"),
            out=str(folder / "out"),
            replicas={"vwap": 2},
        )
        self._number = cluster.client.submit(job)
        self.rounds.append(job)
        store = Store(str(job.log))
        cluster.wait_until(lambda: read_timeline(store) is not None, limit_s=START_S, what="the application on Spark has begun")

    def _keep_running(self, cluster: ProcessCluster) -> None:
        if self._document(cluster)["ended"]:
            self._end(cluster)
            self._begin(cluster)

    def _end(self, cluster: ProcessCluster) -> None:
        """Wait for the end of a round, and check that it completed and that every task was started."""
        document: dict[str, Any] = {}

        def ended() -> bool:
            nonlocal document
            document = self._document(cluster)
            return bool(document["ended"])

        cluster.wait_until(ended, limit_s=END_S, what="the application on Spark has ended")
        if document["state"] != "completed":
            self.errors.append(f"the application on Spark ended as {document['state']}: {document.get('reason')}")
        keys = {f"{self._number}:{task['task']}" for task in document["tasks"]}
        started = {str(event.about["replica"]).rpartition(".")[0] for event in self._history(cluster) if event.kind == "start"}
        self.errors += [f"task {key} ended without a start" for key in sorted(keys - started)]

    def _history(self, cluster: ProcessCluster) -> list[HistoryEvent]:
        return read_history(*(cluster.node_work(name) for name in NODES))

    def _document(self, cluster: ProcessCluster) -> dict[str, Any]:
        try:
            return cluster.client.job(self._number)
        except (OrchestratorUnreachable, ClientError):
            return {"ended": False}

    def _compare(self) -> None:
        """Compare the output of every round with a replay of the whole trace."""
        app = load_app(self.application)
        spark = open_session("local[1]", name="holdfast proof", memory="1g")
        try:
            sources = open_trace(spark, app.graph(), str(self.trace))
            for job in self.rounds:
                timeline = read_timeline(Store(str(job.log)))
                assert timeline is not None and timeline.last is not None and job.out is not None
                self.epochs += timeline.last - timeline.first + 1
                for sink, difference in differences(spark, app, sources, out=Store(job.out), timeline=timeline).items():
                    if difference is not None:
                        self.errors.append(
                            f"{job.job}: the output of '{sink}' differs from the whole-trace replay at seq {difference.seq}"
                        )
        except HoldfastError as error:
            self.errors.append(str(error))
        finally:
            spark.stop()


def find_needless_starts(events: Sequence[HistoryEvent]) -> list[str]:
    """Return an error for each PE host that was restarted and each replica that was restarted or started twice.

    >>> starts = [HistoryEvent(at_s, "s1", "start", {"replica": "1:vwap/0.0", "incarnation": 1}) for at_s in (1, 2)]
    >>> find_needless_starts([HistoryEvent(0, "s1", "host", {}), *starts])
    ['replica 1:vwap/0.0 was started 2 times in incarnation 1']
    """
    hosts = Counter(event.by for event in events if event.kind == "host")
    starts = Counter((event.about["replica"], event.about["incarnation"]) for event in events if event.kind == "start")
    errors = [f"the PE host of {node} was started {count} times" for node, count in sorted(hosts.items()) if count > 1]
    for (key, incarnation), count in sorted(starts.items()):
        if count > 1:
            errors.append(f"replica {key} was started {count} times in incarnation {incarnation}")
        if incarnation > 1:
            errors.append(f"replica {key} was restarted (incarnation {incarnation}) without need")
    return errors
