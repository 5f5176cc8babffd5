"""An application on Spark that runs beside something else, and must not be touched by it: the control plane's fault campaign."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.execute.session import open_session
from holdfast.execute.trace import open_trace
from holdfast.log import Store
from holdfast.manage.client import ClientError, OrchestratorAway
from holdfast.manage.cluster import HOLDFAST, Cluster
from holdfast.model.job import Feed, Job
from holdfast.model.load import load_app
from holdfast.run.proof import differences
from holdfast.run.timeline import timeline_of

NODES = ("s1", "s2")
START_S, END_S = 180.0, 600.0


@dataclass
class Beside:
    """The application, the trace that it runs through meanwhile, and what was found wrong with it in the end."""

    application: Path
    trace: Path
    problems: list[str] = field(default_factory=list)
    epochs: int = 0
    done_early: bool = False

    @contextmanager
    def running(self, cluster: Cluster) -> Iterator[None]:
        """Start it on Spark nodes of its own; in the end see it through and judge it."""
        for name in NODES:
            work = cluster.node_work(name)
            options = [
                "--orchestrator",
                str(cluster.folder),
                "--name",
                name,
                "--work",
                str(work),
                "--cores",
                "1",
                "--metrics-port",
                "0",
            ]
            cluster.start_process(name, [*HOLDFAST, "node", *options])
        cluster.wait_until(lambda: {*NODES} <= {n["name"] for n in cluster.client.nodes()}, limit_s=START_S, what="Spark nodes up")
        job = Job(
            job="beside",
            type="finite",
            application=str(self.application),
            feed=Feed(trace=str(self.trace)),
            log=str(cluster.work / "beside" / "log"),
            out=str(cluster.work / "beside" / "out"),
            replicas={"vwap": 2},
        )
        number = cluster.client.submit(job)
        store = Store(str(job.log))
        cluster.wait_until(lambda: timeline_of(store) is not None, limit_s=START_S, what="the application on Spark has begun")
        try:
            yield
            self._judge(cluster, number, job)
        finally:
            for name in NODES:
                cluster.kill(name)
                cluster.kill_host(name)

    def _judge(self, cluster: Cluster, number: int, job: Job) -> None:
        """Wait for its end; every replica must still be the one that was started first, and the output what one plan gives."""
        story = cluster.client.job(number)
        self.done_early = bool(story["ended"])

        def ended() -> bool:
            nonlocal story
            try:
                story = cluster.client.job(number)
            except (OrchestratorAway, ClientError):
                return False
            return bool(story["ended"])

        cluster.wait_until(ended, limit_s=END_S, what="the application on Spark has ended")
        if story["state"] != "completed":
            self.problems.append(f"the application on Spark ended as {story['state']}: {story.get('reason')}")
        self.problems += restarted(story["tasks"])
        self._compare(job)

    def _compare(self, job: Job) -> None:
        timeline = timeline_of(Store(str(job.log)))
        assert timeline is not None and timeline.last is not None and job.out is not None
        self.epochs = timeline.last - timeline.first + 1
        app = load_app(self.application)
        spark = open_session("local[1]", name="holdfast proof", memory="1g")
        try:
            sources = open_trace(spark, app.graph(), str(self.trace))
            for sink, difference in differences(spark, app, sources, out=Store(job.out), timeline=timeline).items():
                if difference is not None:
                    self.problems.append(f"the output of '{sink}' differs from one plan at seq {difference.seq}")
        except HoldfastError as error:
            self.problems.append(str(error))
        finally:
            spark.stop()


def restarted(tasks: Sequence[dict[str, object]]) -> list[str]:
    """The replicas that were started more than once, in words.

    >>> restarted([{"task": "vwap/0", "replicas": [{"key": "1:vwap/0.0", "incarnation": 2}]}])
    ['replica 1:vwap/0.0 was started anew (incarnation 2) without need']
    """
    replicas = [replica for task in tasks for replica in task["replicas"]]  # type: ignore[attr-defined]  # a story's plain values
    return [
        f"replica {replica['key']} was started anew (incarnation {replica['incarnation']}) without need"
        for replica in replicas
        if replica["incarnation"] > 1
    ]
