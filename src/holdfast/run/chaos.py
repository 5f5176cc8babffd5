"""Bringing about what a fault schedule says, on the processes of a local cluster."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import uuid4

from holdfast.errors import HoldfastError
from holdfast.model.job import Task
from holdfast.model.schedule import Schedule, ScheduledFault
from holdfast.run.cluster import LocalCluster
from holdfast.run.history import History

BALLAST = "ballast"


class Chaos:
    """One thread that waits for each fault's moment and for the moment at which it ends.

    `hosts_of` says which nodes have which tasks just now, so that the history names who was struck.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        faults: Sequence[ScheduledFault],
        *,
        history: History,
        log: str,
        hosts_of: Callable[[], dict[str, set[str]]],
    ) -> None:
        self._cluster, self._faults, self._history, self._log, self._hosts_of = cluster, faults, history, log, hosts_of
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self.error: BaseException | None = None
        self.left = len(faults)

    def start(self, *, at_s: float) -> None:
        """Begin; the schedule's times count from `at_s` on the wall clock."""
        self._zero_s = at_s
        self._thread.start()

    def stop(self) -> None:
        """End what still lasts, so that nothing stays stopped, cut off or full."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)

    def _run(self) -> None:
        ends: list[tuple[float, str, Callable[[], None]]] = []
        waiting = [(self._zero_s + fault.at_s, fault) for fault in self._faults]
        try:
            while (waiting or ends) and not self._stopping.is_set():
                ends = self._due(ends)
                if waiting and waiting[0][0] <= time.time():
                    _, fault = waiting.pop(0)
                    ends += self._strike(fault)
                    self.left = len(waiting)
                self._stopping.wait(0.02)
        except Exception as error:
            self.error = error
        finally:
            for _, _, undo in ends:
                undo()

    def check(self) -> None:
        """Raise HoldfastError where a fault could not be brought about: a run without it would prove nothing."""
        if self.error is not None:
            raise HoldfastError(f"the fault schedule could not be brought about: {self.error}") from self.error

    def _due(self, ends: list[tuple[float, str, Callable[[], None]]]) -> list[tuple[float, str, Callable[[], None]]]:
        for at_s, what, undo in ends:
            if at_s <= time.time():
                undo()
                self._history.tell("mended", {"what": what})
        return [end for end in ends if end[0] > time.time()]

    def _strike(self, fault: ScheduledFault) -> list[tuple[float, str, Callable[[], None]]]:
        """Bring about one fault; what is to be undone later, and when."""
        said = f"{fault.kind} {fault.what} {' '.join(fault.target)}".strip()
        struck = sorted({task for target in self._targets(fault) for task in self._tasks_at(fault, target)})
        undo = [self._on(fault, target) for target in self._targets(fault)]
        self._history.tell("fault", {"what": said, "tasks": struck, "for_s": fault.for_s})
        lasts_s = fault.for_s if fault.for_s is not None else fault.back_after_s
        if lasts_s is None and fault.what == "orchestrator":
            lasts_s = 0.5  # as an init system would start it again
        if lasts_s is None:
            return []
        return [(time.time() + lasts_s, said, each) for each in undo if each is not None]

    def _targets(self, fault: ScheduledFault) -> list[str]:
        if fault.what in ("orchestrator", "disk"):
            return [fault.what]
        if fault.what == "pe":
            return list(fault.target)
        named: list[str] = []
        for target in fault.target:
            if "=" in target:
                key, value = target.split("=", 1)
                named += [
                    n for k, n in enumerate(self._cluster.names) if key == "rack" and f"r{k % self._cluster.racks + 1}" == value
                ]
            elif target in self._cluster.names:
                named.append(target)
            else:
                raise HoldfastError(f"a fault names node '{target}'; nodes are: {', '.join(self._cluster.names)}")
        return named

    def _tasks_at(self, fault: ScheduledFault, target: str) -> set[str]:
        """The tasks that a fault strikes: those it names, or those that were on the struck node."""
        if fault.what == "pe":
            return {target.rsplit(".", 1)[0] if "." in target.rsplit("/", 1)[-1] else target}
        return {task for task, nodes in self._hosts_of().items() if target in nodes and fault.what in ("host", "node")}

    def _on(self, fault: ScheduledFault, target: str) -> Callable[[], None] | None:
        cluster = self._cluster
        match fault.kind, fault.what:
            case "crash", "orchestrator":
                if cluster.exists("orchestrator"):
                    cluster.kill("orchestrator")
                return cluster.start_orchestrator
            case "crash", "controller":
                if cluster.exists(target):
                    cluster.kill(target)
                return lambda: cluster.start_node(target)
            case "crash", "node":
                cluster.kill_node(target)
                return lambda: cluster.start_node(target)
            case "crash", "host":
                cluster.kill_host(target)
                return None
            case "stall", "host":
                cluster.signal_host(target, signal.SIGSTOP)
                return lambda: cluster.signal_host(target, signal.SIGCONT)
            case "hog", _:
                return _hogged()
            case "stall", ("controller" | "orchestrator"):
                cluster.signal(target, signal.SIGSTOP)
                return lambda: cluster.signal(target, signal.SIGCONT)
            case "cut", _:
                cluster.client.inject({"fault": "cut-node", "node": target, "settings": {"for_s": fault.for_s}})
                return None
            case "fill", _:
                return _filled(Path(self._log))
            case _:
                self._tell_hosts(fault, target)
                return None

    def _tell_hosts(self, fault: ScheduledFault, target: str) -> None:
        """Faults of single replicas: every PE host is told, the one that has it obeys."""
        order = {"kind": fault.kind, "target": target, "for_s": fault.for_s, "by_s": fault.by_s}
        for node in self._cluster.names:
            folder = self._cluster.node_work(node) / "faults"
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f".{uuid4().hex}.tmp"
            temporary.write_text(json.dumps(order))
            temporary.replace(folder / f"{uuid4().hex}.json")


HOG = (sys.executable, "-c", "while True: pass")


def _hogged() -> Callable[[], None]:
    """Keep every core of the machine busy twice over; what ends that."""
    hogs = [subprocess.Popen(HOG) for _ in range(2 * (os.cpu_count() or 1))]

    def end() -> None:
        for hog in hogs:
            hog.kill()
            hog.wait()

    return end


MOST_BALLAST = 1 << 30


def _filled(log: Path) -> Callable[[], None]:
    """Fill the disk that the log is on. Only a small one of its own: others may live on a large one."""
    free = shutil.disk_usage(log).free
    if "://" in str(log) or free > MOST_BALLAST:
        raise HoldfastError(
            f"the log's disk at '{log}' has {free >> 20} MiB free; only a disk of its own with less than "
            f"{MOST_BALLAST >> 20} MiB is filled: mount one for the log (such as a tmpfs of 64 MiB)"
        )
    ballast = log / BALLAST
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return lambda: ballast.unlink(missing_ok=True)


def check_targets(schedule: Schedule, tasks: Sequence[Task], nodes: Sequence[str]) -> None:
    """Raise HoldfastError unless every fault's target is there."""
    known = {task.pe for task in tasks} | {task.name for task in tasks}
    for fault in schedule.faults:
        for target in fault.target:
            if fault.what == "pe" and target not in known and target.rsplit(".", 1)[0] not in known:
                raise HoldfastError(f"a fault strikes PE '{target}'; the job has: {', '.join(sorted(known))}")
            if fault.what in ("host", "node", "controller") and "=" not in target and target not in nodes:
                raise HoldfastError(f"a fault strikes node '{target}'; nodes are: {', '.join(nodes)}")
