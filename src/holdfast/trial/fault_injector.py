"""Bringing about what a fault schedule says, on the processes of a local cluster."""

import errno
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.documents.fault_schedule import Schedule, ScheduledFault
from holdfast.documents.history import History
from holdfast.documents.job import Task
from holdfast.errors import CompoundError, HoldfastError
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.protocol.node_files import write_fault_order
from holdfast.trial.local_cluster import LocalCluster

BALLAST = "ballast"
ASK_S = 1.0
"""How long an orchestrator may take to bring about a fault."""


@dataclass(frozen=True)
class _End:
    """When a fault is over, in the schedule's time, what it was, and what ends it."""

    at_s: float
    what: str
    undo: Callable[[], None]


class FaultInjector:
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
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster, self._history, self._log, self._hosts_of, self._clock = cluster, history, log, hosts_of, clock
        self._waiting = list(faults)
        self._ends: list[_End] = []
        self._zero_s = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self.error: BaseException | None = None

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
        try:
            while (self._waiting or self._ends) and not self._stopping.is_set():
                self.look(self._clock() - self._zero_s)
                self._stopping.wait(0.02)
        except Exception as error:
            self.error = error
        finally:
            self.mend()

    def check(self) -> None:
        """Raise HoldfastError where a fault could not be brought about: a run without it would prove nothing."""
        if self.error is not None:
            raise HoldfastError(f"the fault schedule could not be brought about: {self.error}") from self.error

    def look(self, now_s: float) -> None:
        """End what is over and bring about what is due, `now_s` seconds after the schedule's beginning."""
        for end in [end for end in self._ends if end.at_s <= now_s]:
            self._ends.remove(end)
            end.undo()
            self._history.append("mended", {"what": end.what})
        for fault in [fault for fault in self._waiting if fault.at_s <= now_s]:
            try:
                self._strike(fault, now_s)
            except OrchestratorUnreachable:
                continue  # it is asked again at the next look: it may be what another fault has struck
            self._waiting.remove(fault)

    def mend(self) -> None:
        """End everything that lasts, now; where one thing cannot be undone, the others are all the same."""
        while self._ends:
            try:
                self._ends.pop().undo()
            except Exception as error:
                self.error = self.error or error

    def _strike(self, fault: ScheduledFault, now_s: float) -> None:
        """Bring about one fault, and remember what is to be undone later."""
        said = f"{fault.kind} {fault.what} {' '.join(fault.target)}".strip()
        targets = self._targets(fault)
        struck = sorted({task for target in targets for task in self._tasks_at(fault, target)})
        dead = [target for target in targets if not self._lives(fault, target)]
        orders = []
        for target in targets:
            if fault.what == "pe":
                orders.append(self._tell_hosts(fault, target))
                continue
            undo = self._on(fault, target)
            if undo is not None and fault.lasts_s is not None:
                self._ends.append(_End(now_s + fault.lasts_s, said, undo))
        self._history.append("fault", {"what": said, "tasks": struck, "for_s": fault.for_s, "orders": orders, "dead": dead})

    def _targets(self, fault: ScheduledFault) -> list[str]:
        if fault.what in ("orchestrator", "disk"):
            return [fault.what]
        if fault.what == "pe":
            return list(fault.target)
        named: list[str] = []
        for target in fault.target:
            named += _nodes(target, self._cluster)
        return named

    def _tasks_at(self, fault: ScheduledFault, target: str) -> set[str]:
        """The tasks that a fault strikes: those it names, or those that were on the struck node."""
        if fault.what == "pe":
            return {target.rsplit(".", 1)[0] if "." in target.rsplit("/", 1)[-1] else target}
        return {task for task, nodes in self._hosts_of().items() if target in nodes and fault.what in ("host", "node")}

    def _lives(self, fault: ScheduledFault, target: str) -> bool:
        """Whether there is anything to strike; what has a replica of a PE is for its host to say."""
        if fault.what in ("pe", "disk"):
            return True
        host = fault.what in ("host", "node") and self._cluster.host_runs(target)
        return host or (fault.what != "host" and self._cluster.runs(target))

    def _on(self, fault: ScheduledFault, target: str) -> Callable[[], None] | None:
        cluster = self._cluster
        match fault.kind, fault.what:
            case "crash", "orchestrator":
                if cluster.runs("orchestrator"):
                    cluster.kill("orchestrator")
                return lambda: None if cluster.runs("orchestrator") else cluster.start_orchestrator()
            case "crash", "controller":
                if cluster.runs(target):
                    cluster.kill(target)
                return lambda: None if cluster.runs(target) else cluster.start_node(target)
            case "crash", "node":
                cluster.kill_node(target)
                return lambda: None if cluster.runs(target) else cluster.start_node(target)
            case "crash", "host":
                cluster.kill_host(target)
                return None
            case "stall", "host":
                cluster.signal_host(target, signal.SIGSTOP)
                return lambda: cluster.signal_host(target, signal.SIGCONT)
            case "hog", _:
                return _hogged(HOGS * max(1, round(cluster.cores)))
            case "stall", ("controller" | "orchestrator"):
                cluster.signal(target, signal.SIGSTOP)
                return lambda: cluster.signal(target, signal.SIGCONT)
            case "cut", _:
                self._inject({"fault": "cut-node", "node": target, "settings": {"for_s": fault.for_s}})
                return None
            case "fill", _:
                return _filled(Path(self._log))
            case _:
                raise HoldfastError(f"there is no way to bring about: {fault.kind} {fault.what}")

    def _inject(self, fault: Mapping[str, Any]) -> None:
        """Let the orchestrator bring about a fault. Raises OrchestratorUnreachable, soon: other faults must end in time."""
        try:
            self._cluster.client.inject(fault, limit_s=ASK_S)
        except ClientError as error:
            if error.status != 503:
                raise
            raise OrchestratorUnreachable(str(error)) from error

    def _tell_hosts(self, fault: ScheduledFault, target: str) -> str:
        """Faults of single replicas: every PE host is told, those that have one obey and say so. Returns the order's name."""
        order = {"kind": fault.kind, "target": target, "for_s": fault.for_s, "by_s": fault.by_s}
        return write_fault_order(map(self._cluster.node_work, self._cluster.names), order, at_s=self._clock())


HOG = (sys.executable, "-c", "import os; run = os.getppid()\nwhile os.getppid() == run: sum(range(10_000))")
HOGS = 2
"""Busy processes for each core of a node that is hogged. They share the machine with all its nodes: no core is a node's own."""


def _hogged(count: int) -> Callable[[], None]:
    """Have so many processes that take all the CPU time they can get; what ends them."""
    hogs = [subprocess.Popen(HOG) for _ in range(count)]

    def end() -> None:
        for hog in hogs:
            hog.kill()
            hog.wait()

    return end


MOST_BALLAST = 1 << 30


def _filled(log: Path) -> Callable[[], None]:
    """Fill the disk that the log is on."""
    _require_fillable(str(log))
    ballast = log / BALLAST
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
    return lambda: ballast.unlink(missing_ok=True)


def _require_fillable(log: str) -> None:
    """Raise HoldfastError unless the log's disk may be filled. Only a small one of its own: others may live on a large one."""
    if "://" in log:
        raise HoldfastError(f"a fault fills the log's disk, but the log is at '{log}', which has none; give it a folder")
    folder = next(path for path in (Path(log).absolute(), *Path(log).absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    if free > MOST_BALLAST:
        raise HoldfastError(
            f"a fault fills the log's disk, but that at '{log}' has {free >> 20} MiB free; only a disk of its own with less than "
            f"{MOST_BALLAST >> 20} MiB is filled: mount one for the log (such as a tmpfs of 64 MiB)"
        )


def resolve_faults(schedule: Schedule, tasks: Sequence[Task], cluster: LocalCluster, *, log: str) -> list[ScheduledFault]:
    """The faults of a schedule, drawn for a job on a cluster. Raises CompoundError for all that cannot be brought about there."""
    pes = [task.name for task in tasks if task.kind == "operators"]
    faults = schedule.drawn(tasks=[task.name for task in tasks], nodes=cluster.names, pes=pes)
    known = {task.pe for task in tasks} | {task.name for task in tasks}
    errors: list[str] = []
    for fault in faults:
        try:
            _require_possible(fault, known, cluster, log=log)
        except HoldfastError as error:
            errors.append(str(error))
    if errors:
        raise CompoundError("the fault schedule", list(dict.fromkeys(errors)))
    return faults


def _require_possible(fault: ScheduledFault, known: Collection[str], cluster: LocalCluster, *, log: str) -> None:
    """Raise HoldfastError where a fault's target is not there, or may not be struck."""
    if fault.kind == "fill":
        _require_fillable(log)
    for target in fault.target:
        if fault.what == "pe" and target not in known and target.rsplit(".", 1)[0] not in known:
            raise HoldfastError(f"a fault strikes PE '{target}'; the job has: {', '.join(sorted(known))}")
        if fault.what in ("host", "node", "controller"):
            _nodes(target, cluster)


def _nodes(target: str, cluster: LocalCluster) -> list[str]:
    """The nodes that a target names: one, or all of a rack. Raises HoldfastError where there are none."""
    found = [name for name in cluster.names if target in (name, f"rack={cluster.rack(name)}")]
    if not found:
        racks = sorted({f"rack={cluster.rack(name)}" for name in cluster.names if cluster.racks})
        raise HoldfastError(f"a fault strikes node '{target}'; nodes are: {', '.join([*cluster.names, *racks])}")
    return found
