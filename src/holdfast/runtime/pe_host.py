"""The PE host: a process with one SparkSession, and one loop for each replica that is assigned to its node.

The node controller writes the assignment to a file, and the host writes its status to another. Both files are replaced atomically,
so either process can be killed at any moment and continue with the other's file later.
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
from holdfast.engine.session import SparkCheck, open_session
from holdfast.errors import HoldfastError, LogError, MachineError
from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus, ReplicaStatus
from holdfast.protocol.presence import hold_presence
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.runtime.replica_loop import ReplicaLoop
from holdfast.runtime.warm_up import rehearse

TICK_S = 0.05
STANDBY_S = 5.0
"""A PE host that has no replicas this long after its start is a standby: it rehearses, so that its JVM is warm."""
BEAT_S = 0.25
USAGE_BEATS = 8
ORDER_VALID_S = 5.0
"""How long the order to inject a fault is valid."""
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
    """Return Spark settings that limit a node to its own cores. YARN and Kubernetes limit the cores of executors, not their sum.

    >>> share_of_cluster("spark://head:7077", 4)
    {'spark.cores.max': '4'}
    >>> share_of_cluster("yarn", 4)["spark.executor.cores"]
    '4'
    """
    if master.startswith(("yarn", "k8s://")):
        return {"spark.executor.instances": "1", "spark.executor.cores": str(cores), "spark.dynamicAllocation.enabled": "false"}
    return {"spark.cores.max": str(cores)}


class PeHost:
    """Runs the assigned replicas of one node: starts, stops and changes loops until they match the newest assignment."""

    def __init__(self, work: Path, node: str) -> None:
        self._work, self._node = work, node
        self._started_s = time.time()
        self._history = History(work / f"history-{os.getpid()}.jsonl", node)
        self._assignment, self._assignment_file = Assignment(), (0, 0)
        self._factories: dict[int, ReplicaFactory] = {}
        self._loops: dict[str, ReplicaLoop] = {}
        self._without_loop: dict[str, ReplicaStatus] = {}
        self._applied = 0, 0
        self._spark: SparkSession | None = None
        self._check_spark: Callable[[], None] = lambda: None
        self._error: str | None = None
        self._about: dict[str, str] = {}
        self._process = psutil.Process()
        self._status_lock, self._factories_lock = threading.Lock(), threading.Lock()
        self.stopping = threading.Event()

    def run(self, master: str, memory: str, *, cores: int, ui: bool) -> None:
        """Start Spark and apply assignments until `stopping` is set. On a cluster, use no more than the node's own cores."""
        settings = {**SPARK, **share_of_cluster(master, cores), "spark.executor.memory": memory}
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        threading.Thread(target=hold_presence, args=(self._work, self.stopping), name="presence", daemon=True).start()
        try:
            self._spark = open_session(master, name=f"holdfast {self._node}", memory=memory, ui=ui, settings=settings)
        except HoldfastError as error:
            self._error = str(error)
            self._write_status()
            print(error, file=sys.stderr)
            sys.exit(2)
        self._check_spark = SparkCheck(self._spark.sparkContext).check
        if self._spark.sparkContext.uiWebUrl is not None:
            self._about = {"spark_ui": self._spark.sparkContext.uiWebUrl}
        self._emit("host", {"pid": os.getpid(), "node": self._node, "what": "ready", **self._about})
        threading.Thread(target=self._rehearse_if_standby, name="rehearsal", daemon=True).start()
        while not self.stopping.wait(TICK_S):
            self._read_assignment()
            for loop in self._loops.values():
                loop.cancel_if_switched_off()
            self._inject_faults()
        for loop in self._loops.values():
            loop.stop(wait_s=2.0)
        self._write_status()
        self._spark.stop()

    def _rehearse_if_standby(self) -> None:
        """Run a small application if the PE host has no replicas. The work of replicas would warm up the JVM just as well."""
        assert self._spark is not None
        if self.stopping.wait(STANDBY_S) or self._assignment.replicas:
            return
        cpu_before_s = _cpu_s(self._processes())
        try:
            rehearse(self._spark)
        except (HoldfastError, Py4JError) as error:  # a replica that starts here fails with the same error, and reports it
            print(f"could not rehearse: {error}", file=sys.stderr, flush=True)
        else:
            self._emit("rehearsed", {"node": self._node, "cpu_s": round(_cpu_s(self._processes()) - cpu_before_s, 2)})

    def _read_assignment(self) -> None:
        path = self._work / "assignment.json"
        try:
            stat = path.stat()
        except FileNotFoundError:
            return
        if (stat.st_mtime_ns, stat.st_ino) == self._assignment_file:
            return
        self._assignment_file = stat.st_mtime_ns, stat.st_ino
        self._assignment = Assignment.model_validate_json(path.read_text())
        self._apply()
        self._applied = self._assignment.term, self._assignment.generation
        self._write_status()

    def _apply(self) -> None:
        replicas = {assigned.key: assigned for assigned in self._assignment.replicas}
        incarnations = {key: assigned.incarnation for key, assigned in replicas.items()}
        for key in [key for key, loop in self._loops.items() if incarnations.get(key) != loop.assigned.incarnation]:
            self._loops.pop(key).stop()
        self._without_loop = {k: status for k, status in self._without_loop.items() if incarnations.get(k) == status.incarnation}
        for key, assigned in replicas.items():  # their status shows at once; loading an application may take a while
            if key not in self._loops and key not in self._without_loop:
                self._without_loop[key] = ReplicaStatus(key=key, incarnation=assigned.incarnation, state="starting")
        # The status shows an incarnation before it starts. If the host dies now, its node does not start the same one again.
        self._write_status()
        for key, assigned in replicas.items():
            if key in self._loops:
                self._loops[key].assign(assigned)
            elif self._without_loop[key].state == "starting":
                self._start(assigned)
        for number in set(self._factories) - {assigned.job for assigned in replicas.values()}:
            del self._factories[number]
        for number, factory in self._factories.items():
            factory.set_remaining_tasks(self._assignment.jobs[number].get("remaining"))

    def _start(self, assigned: AssignedReplica) -> None:
        assert self._spark is not None
        try:
            self._factory(assigned.job)
        except LogError:
            pass  # the replica's loop tries again
        except HoldfastError as error:
            status = ReplicaStatus(key=assigned.key, incarnation=assigned.incarnation, state="failed", error=str(error))
            self._without_loop[assigned.key] = status
            return
        group = f"{self._assignment.jobs[assigned.job]['job']['job']}: {assigned.pe}/{assigned.task}"
        cancel = self._spark.sparkContext.cancelJobGroup
        self._loops[assigned.key] = ReplicaLoop(
            assigned,
            lambda assigned, is_stopping: self._factory(assigned.job).create(assigned, is_stopping),
            cancel=lambda: cancel(group),
            on_switch=lambda active: self._emit("switched", {"replica": assigned.key, "node": self._node, "active": active}),
        )
        self._without_loop.pop(assigned.key, None)
        self._emit("start", {"replica": assigned.key, "incarnation": assigned.incarnation, "node": self._node})

    def _factory(self, number: int) -> ReplicaFactory:
        """Return the replica factory of a job. The first call loads the application. Raises HoldfastError."""
        assert self._spark is not None
        with self._factories_lock:
            if number not in self._factories:
                if "job" not in self._assignment.jobs.get(number, {}):
                    raise HoldfastError(f"its assignment does not describe job {number}")
                self._factories[number] = ReplicaFactory(
                    self._spark,
                    number,
                    self._assignment.jobs[number],
                    node=self._node,
                    emit=self._emit,
                    scratch=self._work / "scratch",
                )
            return self._factories[number]

    def _inject_faults(self) -> None:
        """Inject the faults that are ordered for single replicas. Each order is a file, which is read once and removed.

        Skip orders that are too old, because the host was dead or stopped when they were given. An order for a task or a PE applies
        to its idle replicas only if it is a crash; they can be activated while the active one is stalled.
        """
        for path in sorted((self._work / "faults").glob("*.json")):
            fault: dict[str, Any] = json.loads(path.read_text())
            path.unlink()
            if time.time() - fault["at_s"] > ORDER_VALID_S:
                continue
            for loop in self._loops.values():
                replica = loop.assigned.key.split(":", 1)[1]
                targets = [replica]
                if loop.assigned.active or fault["kind"] == "crash":
                    targets += [replica.rsplit(".", 1)[0], loop.assigned.pe]
                if loop.state in ("failed", "finished") or fault["target"] not in targets:
                    continue
                self._emit("injected", {"order": fault["order"], "replica": loop.assigned.key, "node": self._node})
                if fault["kind"] == "crash":
                    loop.kill()
                elif fault["kind"] == "stall":
                    loop.stall(fault["for_s"])
                else:
                    loop.slow(fault["by_s"], for_s=fault["for_s"])

    def _beat(self) -> None:
        """Write the status periodically, whether or not replicas make progress: a long Spark job does not mean that the host died.

        The host depends on Spark. It writes nothing while Spark does not answer, and exits when Spark has ended.
        """
        for beat in count():
            if self.stopping.is_set():
                return
            try:
                self._check_spark()
            except MachineError as error:
                if self.stopping.is_set():
                    return
                self._error = str(error)
                self._write_status()
                print(error, file=sys.stderr, flush=True)
                os._exit(1)  # the other threads may wait for Spark forever
            status = self._write_status()
            if beat % USAGE_BEATS == 0:
                usage = {"cpu_s": round(status.cpu_s, 2), "memory_bytes": status.memory_bytes}
                self._emit("usage", {"node": self._node, "pid": status.pid, **usage})
            time.sleep(BEAT_S)

    def _write_status(self) -> HostStatus:
        loops = dict(self._loops)
        replicas = [loop.status() for loop in loops.values()]
        replicas += [status for key, status in list(self._without_loop.items()) if key not in loops]
        processes = self._processes()
        status = HostStatus(
            pid=os.getpid(),
            started_s=self._started_s,
            beat_s=time.time(),
            ready=self._spark is not None,
            error=self._error,
            term=self._applied[0],
            generation=self._applied[1],
            replicas=tuple(replicas),
            cpu_s=_cpu_s(processes),
            memory_bytes=int(_total(processes, lambda p: p.memory_info().rss)),
            threads=int(_total(processes, lambda p: p.num_threads())),
            files=int(_total(processes, lambda p: p.num_fds())),
            about=self._about,
        )
        with self._status_lock, _ignore_full_disk():
            temporary = self._work / ".host.json.tmp"
            temporary.write_text(status.model_dump_json())
            temporary.replace(self._work / "host.json")
        return status

    def _processes(self) -> list[psutil.Process]:
        with self._process.oneshot():
            return [self._process, *self._process.children(recursive=True)]

    def _emit(self, kind: str, about: dict[str, Any]) -> None:
        with _ignore_full_disk():
            self._history.append(kind, about)


@contextmanager
def _ignore_full_disk() -> Iterator[None]:
    """Suppress the error of a full disk: the next beat writes the status again, and no replica may fail because of it."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        with suppress(OSError):
            print(f"cannot write the status or the history: {error}; trying again", file=sys.stderr, flush=True)


def _cpu_s(processes: list[psutil.Process]) -> float:
    return _total(processes, lambda p: sum(p.cpu_times()[:2]))


def _total(processes: list[psutil.Process], measure: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):  # the process may have ended
            total += measure(process)
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
