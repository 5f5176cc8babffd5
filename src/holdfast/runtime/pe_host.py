"""A PE host: one process with one SparkSession, and a loop for every replica that its node should have.

Its node controller says in a file what should run here; the host says in another how it goes. Both are replaced whole, so either
process can be killed at any moment and find the other again.
"""

import errno
import json
import logging
import os
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.sql import SparkSession

from holdfast.documents.history import History
from holdfast.engine.session import Pulse, open_session
from holdfast.errors import HoldfastError, LogError, MachineError
from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus, ReplicaStatus
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.runtime.replica_loop import ReplicaLoop
from holdfast.runtime.warm_up import rehearse

TICK_S = 0.05
STANDBY_S = 5.0
"""A host that had no work for so long after its start is a standby."""
BEAT_S = 0.25
USAGE_BEATS = 8
ORDER_VALID_S = 5.0
"""For how long a fault's order to a replica is good."""
SPARK = {
    "spark.scheduler.mode": "FAIR",  # one PE's long catch-up must not starve the others
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.worker.cleanup.enabled": "true",
    "spark.cleaner.periodicGC.interval": "5min",
}


def share_of_cluster(master: str, cores: int) -> dict[str, str]:
    """Settings that keep a node to its own cores. YARN and Kubernetes know of no sum to keep to, only of executors.

    >>> share_of_cluster("spark://head:7077", 4)
    {'spark.cores.max': '4'}
    >>> share_of_cluster("yarn", 4)["spark.executor.cores"]
    '4'
    """
    if master.startswith(("yarn", "k8s://")):
        return {"spark.executor.instances": "1", "spark.executor.cores": str(cores), "spark.dynamicAllocation.enabled": "false"}
    return {"spark.cores.max": str(cores)}


class PeHost:
    """What runs on this node, made equal to the assignment again and again."""

    def __init__(self, work: Path, node: str) -> None:
        self._work, self._node = work, node
        self._started_s = time.time()
        self._history = History(work / f"history-{os.getpid()}.jsonl", node)
        self._assignment, self._seen = Assignment(), (0, 0)
        self._jobs: dict[int, ReplicaFactory] = {}
        self._loops: dict[str, ReplicaLoop] = {}
        self._refused: dict[str, ReplicaStatus] = {}
        self._carried_out = 0, 0
        self._spark: SparkSession | None = None
        self._feel: Callable[[], None] = lambda: None
        self._error: str | None = None
        self._about: dict[str, str] = {}
        self._process = psutil.Process()
        self._written, self._loading = threading.Lock(), threading.Lock()
        self.stopping = threading.Event()

    def run(self, master: str, memory: str, *, cores: int, ui: bool) -> None:
        """Start Spark and follow the assignment until told to stop. On a cluster a node takes no more than its own cores."""
        settings = {**SPARK, **share_of_cluster(master, cores), "spark.executor.memory": memory}
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        try:
            self._spark = open_session(master, name=f"holdfast {self._node}", memory=memory, ui=ui, settings=settings)
        except HoldfastError as error:
            self._error = str(error)
            self._write_status()
            print(error, file=sys.stderr)
            sys.exit(2)
        self._feel = Pulse(self._spark.sparkContext).feel
        if self._spark.sparkContext.uiWebUrl is not None:
            self._about = {"spark_ui": self._spark.sparkContext.uiWebUrl}
        self._tell("host", {"pid": os.getpid(), "node": self._node, "what": "ready", **self._about})
        threading.Thread(target=self._stand_by, name="rehearsal", daemon=True).start()
        while not self.stopping.wait(TICK_S):
            self._follow()
            self._obey_faults()
        for loop in self._loops.values():
            loop.stop(wait_s=2.0)
        self._write_status()
        self._spark.stop()

    def _stand_by(self) -> None:
        """Rehearse, unless there is work: that is a rehearsal itself."""
        assert self._spark is not None
        if self.stopping.wait(STANDBY_S) or self._assignment.replicas:
            return
        before_s = _cpu_s(self._family())
        try:
            rehearse(self._spark)
        except (HoldfastError, Py4JError) as error:  # whoever takes over will meet it too, and say so
            print(f"could not rehearse: {error}", file=sys.stderr, flush=True)
        else:
            self._tell("rehearsed", {"node": self._node, "cpu_s": round(_cpu_s(self._family()) - before_s, 2)})

    def _follow(self) -> None:
        path = self._work / "assignment.json"
        try:
            found = path.stat()
        except FileNotFoundError:
            return
        if (found.st_mtime_ns, found.st_ino) == self._seen:
            return
        self._seen = found.st_mtime_ns, found.st_ino
        self._assignment = Assignment.model_validate_json(path.read_text())
        self._apply()
        self._carried_out = self._assignment.term, self._assignment.generation
        self._write_status()

    def _apply(self) -> None:
        wanted = {assigned.key: assigned for assigned in self._assignment.replicas}
        for key in [key for key, loop in self._loops.items() if self._outdated(loop, wanted.get(key))]:
            self._loops.pop(key).stop()
        self._refused = {
            key: status for key, status in self._refused.items() if key in wanted and wanted[key].incarnation == status.incarnation
        }
        for key, assigned in wanted.items():  # told before it is begun: loading an application may take a while
            if key not in self._loops and key not in self._refused:
                self._refused[key] = ReplicaStatus(key=key, incarnation=assigned.incarnation, state="starting")
        for key, assigned in wanted.items():
            if key in self._loops:
                self._loops[key].assign(assigned)
            elif self._refused[key].state == "starting":
                self._start(assigned)
        for number in set(self._jobs) - {assigned.job for assigned in wanted.values()}:
            del self._jobs[number]
        for number, job in self._jobs.items():
            job.is_left(self._assignment.jobs[number].get("left"))

    @staticmethod
    def _outdated(loop: ReplicaLoop, wanted: AssignedReplica | None) -> bool:
        return wanted is None or wanted.incarnation != loop.assigned.incarnation

    def _start(self, assigned: AssignedReplica) -> None:
        assert self._spark is not None
        try:
            self._job(assigned.job)
        except LogError:
            pass  # its loop looks again
        except HoldfastError as error:
            status = ReplicaStatus(key=assigned.key, incarnation=assigned.incarnation, state="failed", error=str(error))
            self._refused[assigned.key] = status
            return
        group = f"{self._assignment.jobs[assigned.job]['job']['job']}: {assigned.pe}/{assigned.task}"
        cancel = self._spark.sparkContext.cancelJobGroup
        self._loops[assigned.key] = ReplicaLoop(
            assigned,
            lambda assigned, stopped: self._job(assigned.job).worker(assigned, stopped),
            ranked=lambda worker, rank: self._job(assigned.job).ranked(worker, rank),
            woken=lambda worker: self._job(assigned.job).woken(worker),
            cancel=lambda: cancel(group),
        )
        self._refused.pop(assigned.key, None)
        self._tell("start", {"replica": assigned.key, "incarnation": assigned.incarnation, "node": self._node})

    def _job(self, number: int) -> ReplicaFactory:
        """A job as it runs here, loaded when it is asked for first. Raises HoldfastError."""
        assert self._spark is not None
        with self._loading:
            if number not in self._jobs:
                if "job" not in self._assignment.jobs.get(number, {}):
                    raise HoldfastError(f"its assignment does not describe job {number}")
                self._jobs[number] = ReplicaFactory(
                    self._spark,
                    number,
                    self._assignment.jobs[number],
                    node=self._node,
                    tell=self._tell,
                    scratch=self._work / "scratch",
                )
            return self._jobs[number]

    def _obey_faults(self) -> None:
        """Bring about what a fault schedule wants of single replicas: files in a folder, each done once and told.

        One that lay there while this host was dead or stopped spoke of a moment that is over. A replica that is idle has nothing to
        be late with: a stall of its PE is none of it, so that it can be woken in the meantime.
        """
        for path in sorted((self._work / "faults").glob("*.json")):
            fault: dict[str, Any] = json.loads(path.read_text())
            path.unlink()
            if time.time() - fault["at_s"] > ORDER_VALID_S:
                continue
            for loop in self._loops.values():
                name = loop.assigned.key.split(":", 1)[1]
                there = loop.state not in ("failed", "finished")
                names = [name]
                if loop.assigned.active or fault["kind"] == "crash":
                    names += [name.rsplit(".", 1)[0], loop.assigned.pe]
                if not there or fault["target"] not in names:
                    continue
                self._tell("struck", {"order": fault["order"], "replica": loop.assigned.key, "node": self._node})
                if fault["kind"] == "crash":
                    loop.kill()
                elif fault["kind"] == "stall":
                    loop.stall(fault["for_s"])
                else:
                    loop.slow(fault["by_s"], for_s=fault["for_s"])

    def _beat(self) -> None:
        """Say how it goes, apart from any replica's progress: a long job is no death. But a host is nothing without its Spark: it
        falls silent while that does not answer, and ends with it."""
        for beat in count():
            if self.stopping.is_set():
                return
            try:
                self._feel()
            except MachineError as error:
                if self.stopping.is_set():
                    return
                self._error = str(error)
                self._write_status()
                print(error, file=sys.stderr, flush=True)
                os._exit(1)  # whatever the other threads wait for will not come
            status = self._write_status()
            if beat % USAGE_BEATS == 0:
                used = {"cpu_s": round(status.cpu_s, 2), "memory_bytes": status.memory_bytes}
                self._tell("usage", {"node": self._node, "pid": status.pid, **used})
            time.sleep(BEAT_S)

    def _write_status(self) -> HostStatus:
        loops = dict(self._loops)
        replicas = [loop.status() for loop in loops.values()]
        replicas += [status for key, status in list(self._refused.items()) if key not in loops]
        family = self._family()
        status = HostStatus(
            pid=os.getpid(),
            started_s=self._started_s,
            beat_s=time.time(),
            ready=self._spark is not None,
            error=self._error,
            term=self._carried_out[0],
            generation=self._carried_out[1],
            replicas=tuple(replicas),
            cpu_s=_cpu_s(family),
            memory_bytes=int(_total(family, lambda p: p.memory_info().rss)),
            threads=int(_total(family, lambda p: p.num_threads())),
            files=int(_total(family, lambda p: p.num_fds())),
            about=self._about,
        )
        with self._written, _outliving_a_full_disk():
            temporary = self._work / ".host.json.tmp"
            temporary.write_text(status.model_dump_json())
            temporary.replace(self._work / "host.json")
        return status

    def _family(self) -> list[psutil.Process]:
        with self._process.oneshot():
            return [self._process, *self._process.children(recursive=True)]

    def _tell(self, kind: str, about: dict[str, Any]) -> None:
        with _outliving_a_full_disk():
            self._history.tell(kind, about)


@contextmanager
def _outliving_a_full_disk() -> Iterator[None]:
    """Go on where something cannot be written now: it is said again with the next beat, and no PE must die for it."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        with suppress(OSError):
            print(f"cannot say how it goes: {error}; trying again", file=sys.stderr, flush=True)


def _cpu_s(family: list[psutil.Process]) -> float:
    return _total(family, lambda p: sum(p.cpu_times()[:2]))


def _total(family: list[psutil.Process], of: Any) -> float:
    total = 0.0
    for process in family:
        try:
            total += of(process)
        except psutil.Error:
            continue  # it ended meanwhile
    return total


def main() -> None:
    parser = ArgumentParser(prog="python -m holdfast.runtime.pe_host", description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--master", default="local[1]")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--ui", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    host = PeHost(arguments.work, arguments.node)
    signal.signal(signal.SIGTERM, lambda *_: host.stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    host.run(arguments.master, arguments.memory, cores=arguments.cores, ui=arguments.ui)


if __name__ == "__main__":
    main()
